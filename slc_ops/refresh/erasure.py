"""``erase``: remove users from all stored data, and write a receipt.

The order makes an interruption (a kill, a full disk) safe to resume: first the list of erased users, which
keeps their rows out of every extraction; then a note of the affected rows and versions, which cannot be
determined afterwards; then windows, refreshes and the users' tables of every version; last the receipt in the
ledger, which replaces the note. Results, pages and published runs stay as they are: they contain row numbers,
never an id of a user or an event.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slc_ops.base.files import read_json, understanding, write_json
from slc_ops.base.methods import METHODS
from slc_ops.evidence.scoring import SLICE_USERS, USERS
from slc_ops.intake.erased import DIRECTORY, Erased
from slc_ops.intake.extract import erase_window, extracted, rows_of, sweep
from slc_ops.intake.manifest import LOG, WindowManifest
from slc_ops.refresh.files import RefreshFiles, refreshes_in
from slc_ops.refresh.plan import Plan, read_plan
from slc_ops.refresh.retention import discard, leftovers
from slc_ops.refresh.user_tables import strip_refresh, strip_version
from slc_ops.refresh.versions import registered_by, version_of
from slc_ops.registry import Registry, Version
from slc_ops.registry.erasures import Receipt, record_erasure, recorded_erasures
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.deployments_file import read_deployments
from slc_ops.settings.environment import Installation


@dataclass
class Note:
    """The rows and versions that an erasure affects, with salted hashes instead of ids."""

    path: Path
    users: set[str]
    rows: dict[str, int] = field(default_factory=dict)
    """Window → rows in it."""
    versions: set[int] = field(default_factory=set)
    unknown_versions: set[int] = field(default_factory=set)
    """Versions whose refresh and windows are no longer on disk."""
    resealed: dict[str, str] = field(default_factory=dict)
    """Version → digest of its set without the erased users."""

    @classmethod
    def begun(cls, path: Path, users: set[str]) -> "Note":
        """Return a new note, merged with that of an interrupted erasure."""
        if not path.exists():
            return cls(path, users)
        with understanding(path):
            old = read_json(path)
            return cls(
                path,
                users | set(old["users"]),
                old["rows"],
                set(old["versions"]),
                set(old["unknown_versions"]),
                old.get("resealed", {}),
            )

    def write(self) -> None:
        """Store the note until the receipt is written."""
        write_json(self.path, self.receipt())

    def receipt(self) -> dict[str, Any]:
        """Return the details for the ledger."""
        return {
            "users": sorted(self.users),
            "rows": dict(sorted(self.rows.items())),
            "versions": sorted(self.versions),
            "unknown_versions": sorted(self.unknown_versions - self.versions),
            **({"resealed": dict(sorted(self.resealed.items()))} if self.resealed else {}),
        }

    def reseals(self, number: str, digest: str) -> None:
        """Record the digest of a version's new set before it is replaced."""
        self.resealed[number] = digest
        self.write()


def erase(installation: Installation, users: Sequence[str], *, actor: str) -> list[Receipt]:
    """Erase users from every deployment of the home; return one receipt per deployment.

    Unknown users are recorded too, so their rows cannot enter later. Erasing users again returns the existing
    receipts.
    """
    registry = Registry.open(installation)
    return [
        erase_from(installation, registry, name, users, actor=actor)
        for name in deployments_of(installation, registry)
    ]


def deployments_of(installation: Installation, registry: Registry) -> list[str]:
    """Return every deployment with data on disk, an entry in the file, or rows in the ledger."""
    kinds = ("windows", "refreshes", "replays")
    kept = {path.name for kind in kinds for path in (installation.home / kind).glob("[!.]*/")}
    return sorted(kept | set(_settings(installation)) | set(registry.ledger.deployments()))


def erase_from(
    installation: Installation, registry: Registry, name: str, users: Sequence[str], *, actor: str
) -> Receipt:
    """Erase users from one deployment."""
    erased = Erased(installation.home, name).add(users)
    theirs = {erased.hash(user) for user in users}
    note = Note.begun(installation.home / DIRECTORY / "begun" / f"{name}.json", theirs)
    resumed = note.path.exists()
    windows = extracted(installation.windows(name))
    _find(installation, registry, name, windows, erased, note)
    if not (note.rows or resumed):
        for receipt in reversed(recorded_erasures(registry.ledger, name)):
            if theirs <= set(receipt.details["users"]):
                return receipt
    note.write()
    for left in leftovers(installation, name):
        discard(left)
    if windows:  # a running extraction fails at its end, because the list has changed
        sweep(installation.windows(name), idle=0)
    for window in windows:
        if rows_of(window / LOG, erased):
            erase_window(window, erased, _observer(installation, name, window))

    def listed(user: str) -> bool:
        return erased.hash(user) in erased.users

    for files in refreshes_in(installation.refreshes(name)):
        strip_refresh(files, listed)
        _strip(files, erased)
    for replay in installation.replays(name).glob("[!.]*/"):
        if any(rows_of(log, erased) for log in replay.glob(f"windows/**/{LOG}")):
            for directory in sorted(replay.glob("[!.]*/")):  # the page, which has no ids, stays
                discard(directory)
    for version in registry.ledger.versions(name):
        strip_version(registry, version, listed, note.reseals)
    receipt = record_erasure(registry.ledger, name, note.receipt(), actor)
    note.path.unlink()
    return receipt


def _find(
    installation: Installation,
    registry: Registry,
    name: str,
    windows: Sequence[Path],
    erased: Erased,
    note: Note,
) -> None:
    """Record the rows and the versions fitted on them; nothing is changed."""
    for window in windows:
        if rows := rows_of(window / LOG, erased):
            note.rows[window.name] = max(rows, note.rows.get(window.name, 0))
    for log in sorted(installation.replays(name).glob(f"[!.]*/windows/**/{LOG}")):
        if rows := rows_of(log, erased):
            note.rows.setdefault(log.parent.name, rows)
    planned: set[int] = set()
    for files in refreshes_in(installation.refreshes(name)):
        plan = read_plan(files.plan)
        numbers = {each.number for each in registered_by(files)}
        planned |= numbers
        learned = (*plan.earlier, *plan.older, *plan.learned)
        if _held(plan, erased, note) & {each.window.key for each in learned}:
            note.versions |= numbers
    present = {window.name for window in windows}
    for version in registry.ledger.versions(name):
        if version.number not in planned:
            span = _span(installation, name, version)
            if span & set(note.rows):
                note.versions.add(version.number)
            elif span - present:
                note.unknown_versions.add(version.number)


def _held(plan: Plan, erased: Erased, note: Note) -> set[str]:
    """Return the planned windows with rows of the erased users, as pinned by the plan or as stored."""
    held = {each.window.key for each in plan.pinned if each.window.key in note.rows}
    for each in plan.pinned:
        if each.log.exists() and (rows := rows_of(each.log, erased)):
            held.add(each.window.key)
            note.rows.setdefault(each.window.key, rows)
    return held


def _span(installation: Installation, name: str, version: Version) -> set[str]:
    """Return the windows of a version's fit, by its deployment's current settings, or by the defaults."""
    known = _settings(installation).get(name) or Deployment.model_construct()
    count = max(known.link_windows, known.offset_windows)
    if version.method not in METHODS or METHODS[version.method].forgets:
        count = max(count, known.forget.windows)
    return {window.key for window in [*version.window.before(count - 1), version.window]}


def _strip(files: RefreshFiles, erased: Erased) -> None:
    """Delete the rows that a refresh pinned, and its sums by user.

    An unfinished refresh is deleted as a whole: its next step fails, and a new run starts from the beginning.
    """
    plan = read_plan(files.plan)
    if any(each.log.exists() and rows_of(each.log, erased) for each in plan.pinned):
        if not _is_finished(files):
            discard(files.directory)
            return
        for name in (USERS, SLICE_USERS):
            for sums in files.scores.rglob(name):
                sums.unlink()
        discard(files.windows)


def _is_finished(files: RefreshFiles) -> bool:
    """Return True if it has published, or decided that there is nothing to publish."""
    if not files.verdict.exists():
        return False
    return version_of(files) is not None or read_json(files.verdict)["method"] is None


def _observer(installation: Installation, name: str, window: Path) -> Any:
    """Return the observer of an extraction; None without the deployment's settings."""
    from slc_ops.quality.statistics import RowStatistics

    known = _settings(installation).get(name)
    return RowStatistics(WindowManifest.read(window).window, known.quality.logit_limit) if known else None


def _settings(installation: Installation) -> dict[str, Deployment]:
    """Return the valid deployments of the file; broken entries are ignored."""
    return (
        read_deployments(installation.deployments_file)[0] if installation.deployments_file.exists() else {}
    )
