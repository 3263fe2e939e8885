"""``erase``: take users out of everything that is kept, and leave a receipt.

In this order, so that whoever is stopped in between (a kill, a full disk) loses nothing and may begin again:
the list of erased users first, after which no extraction brings a row back; then a note of what is about to
go, because afterwards nobody could tell which versions had learned from it; then windows, refreshes and
published pages; last the receipt in the ledger, which takes the note's place.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slc_ops.base.files import read_json, understanding, write_json, write_text
from slc_ops.evidence.scoring import SLICE_USERS, USERS
from slc_ops.intake.erased import DIRECTORY, Erased
from slc_ops.intake.erasing import erase_window, extracted, rows_of
from slc_ops.intake.extract import sweep
from slc_ops.intake.manifest import LOG, WindowManifest
from slc_ops.quality.redaction import ERASED, Belongs, redacted
from slc_ops.refresh.files import RefreshFiles, refreshes_in
from slc_ops.refresh.plan import Plan, read_plan
from slc_ops.refresh.retention import discard, leftovers
from slc_ops.refresh.versions import registered_by, version_of
from slc_ops.registry import Registry, Version
from slc_ops.registry.erasures import Receipt, record_erasure, recorded_erasures
from slc_ops.registry.redaction import TEXTS, redact_run
from slc_ops.registry.tracking import typed
from slc_ops.settings.deployments import Deployment, Places, read_deployments

TRUNCATED = "…"


@dataclass
class Note:
    """What an erasure is about to take from a deployment; salted hashes instead of ids."""

    path: Path
    users: set[str]
    rows: dict[str, int] = field(default_factory=dict)
    """Window → rows in it."""
    events: set[str] = field(default_factory=set)
    versions: set[int] = field(default_factory=set)
    unknown_versions: set[int] = field(default_factory=set)
    """Versions of which neither the refresh nor the windows are on disk any more."""

    @classmethod
    def begun(cls, path: Path, users: set[str]) -> "Note":
        """A new note, with what an interrupted erasure had noted."""
        note = cls(path, users)
        if path.exists():
            with understanding(path):
                old = read_json(path)
                note.users |= set(old["users"])
                note.rows.update(old["rows"])
                note.events |= set(old["events"])
                note.versions |= set(old["versions"])
                note.unknown_versions |= set(old["unknown_versions"])
        return note

    def write(self) -> None:
        """Keep it until the receipt is written."""
        write_json(self.path, {**self.receipt(), "events": sorted(self.events)})

    def receipt(self) -> dict[str, Any]:
        """What the ledger keeps."""
        return {
            "users": sorted(self.users),
            "rows": dict(sorted(self.rows.items())),
            "versions": sorted(self.versions),
            "unknown_versions": sorted(self.unknown_versions - self.versions),
        }


def erase(places: Places, users: Sequence[str], *, actor: str) -> list[Receipt]:
    """Erase users from every deployment of the home; one receipt per deployment.

    Users that nobody knows are noted too: from then on they cannot come in. Erasing again what is gone gives
    the receipts that are there.
    """
    registry = Registry.open(places)
    return [
        erase_from(places, registry, name, users, actor=actor) for name in deployments_of(places, registry)
    ]


def deployments_of(places: Places, registry: Registry) -> list[str]:
    """Every deployment that has something on disk or in the ledger, or may have."""
    kinds = ("windows", "refreshes", "replays")
    kept = {path.name for kind in kinds for path in (places.home / kind).glob("[!.]*/")}
    return sorted(kept | set(_settings(places)) | set(registry.ledger.deployments()))


def erase_from(places: Places, registry: Registry, name: str, users: Sequence[str], *, actor: str) -> Receipt:
    """Erase users from one deployment."""
    erased = Erased(places.home, name).add(users)
    theirs = {erased.hash(user) for user in users}
    note = Note.begun(places.home / DIRECTORY / "begun" / f"{name}.json", theirs)
    resumed = note.path.exists()
    windows = extracted(places.windows(name))
    _find(places, registry, name, windows, erased, note)
    if not (note.rows or resumed):
        for receipt in reversed(recorded_erasures(registry.ledger, name)):
            if theirs <= set(receipt.details["users"]):
                return receipt
    note.write()
    belongs = _belonging(erased, note, users)
    for left in leftovers(places, name):
        discard(left)
    if windows:
        sweep(places.windows(name), idle=0)  # one at work fails at its end, because the list has changed
    for window in windows:
        if rows_of(window / LOG, erased).rows:
            erase_window(window, erased, _observer(places, name, window))
    for files in refreshes_in(places.refreshes(name)):
        _strip(files, erased, belongs)
    for log in _replayed(places, name):
        if log.exists() and rows_of(log, erased).rows:
            _strip_replay(places.replays(name) / log.relative_to(places.replays(name)).parts[0])
    oldest = min(note.rows, default="")  # nothing that was said before it can quote their rows
    for version in registry.ledger.versions(name):
        if note.rows and version.window.key >= oldest:
            with typed(places.tracking_uri):
                redact_run(registry.client, version, lambda suffix, text: redacted(suffix, text, belongs))
    receipt = record_erasure(registry.ledger, name, note.receipt(), actor)
    note.path.unlink()
    return receipt


def _find(
    places: Places, registry: Registry, name: str, windows: Sequence[Path], erased: Erased, note: Note
) -> None:
    """Note the rows, the events and the versions that learned from them; nothing is changed."""
    for window in windows:
        found = rows_of(window / LOG, erased)
        if found.rows:
            note.rows[window.name] = max(found.rows, note.rows.get(window.name, 0))
            note.events |= found.events
    for log in _replayed(places, name):
        if (found := rows_of(log, erased)).rows:
            note.rows.setdefault(log.parent.name, found.rows)
            note.events |= found.events
    planned: set[int] = set()
    for files in refreshes_in(places.refreshes(name)):
        plan = read_plan(files.plan)
        numbers = {each.number for each in registered_by(files)}
        planned |= numbers
        if _held(plan, erased, note) & {each.window.key for each in (*plan.earlier, *plan.learned)}:
            note.versions |= numbers
    present = {window.name for window in windows}
    for version in registry.ledger.versions(name):
        if version.number not in planned:
            span = _span(places, name, version)
            if span & set(note.rows):
                note.versions.add(version.number)
            elif span - present:
                note.unknown_versions.add(version.number)


def _replayed(places: Places, name: str) -> list[Path]:
    """The windows that replays have extracted."""
    return sorted(places.replays(name).glob(f"[!.]*/windows/**/{LOG}"))


def _strip_replay(replay: Path) -> None:
    """Take the rows and what was worked out from them; the page, which names nobody, stays."""
    for directory in sorted(replay.glob("[!.]*/")):
        discard(directory)


def _held(plan: Plan, erased: Erased, note: Note) -> set[str]:
    """The planned windows that held rows of the erased users, as the plan pinned them or as they lie."""
    held = {each.window.key for each in plan.pinned if each.window.key in note.rows}
    for each in plan.pinned:
        if each.log.exists() and (found := rows_of(each.log, erased)).rows:
            held.add(each.window.key)
            note.events |= found.events
            note.rows.setdefault(each.window.key, found.rows)
    return held


def _span(places: Places, name: str, version: Version) -> set[str]:
    """The windows that a version learned from, by its deployment's settings of today."""
    known = _settings(places).get(name)
    memories = ("link_windows", "offset_windows")
    count = max(getattr(known, each) if known else Deployment.model_fields[each].default for each in memories)
    return {window.key for window in [*version.window.before(count - 1), version.window]}


def _strip(files: RefreshFiles, erased: Erased, belongs: Belongs) -> None:
    """Take the rows that a refresh pinned, its users' sums and what its pages quote.

    A refresh without a result is taken whole: its next step says so, and running it again begins anew.
    """
    plan = read_plan(files.plan)
    if any(each.log.exists() and rows_of(each.log, erased).rows for each in plan.pinned):
        if not _is_finished(files):
            discard(files.directory)
            return
        for name in (USERS, SLICE_USERS):
            for sums in files.scores.rglob(name):
                sums.unlink()
        discard(files.windows)
    sets = {files.parameters, files.renewed_parameters, files.earlier}
    for path in sorted(files.directory.rglob("*")):
        if path.suffix in TEXTS and not sets & set(path.parents):
            text = path.read_text(encoding="utf-8")
            if (said := redacted(path.suffix, text, belongs)) != text:
                write_text(path, said)


def _is_finished(files: RefreshFiles) -> bool:
    """Whether nothing is left to do: it has published, or decided that there is nothing to publish."""
    if not files.verdict.exists():
        return False
    return version_of(files) is not None or read_json(files.verdict)["method"] is None


def _belonging(erased: Erased, note: Note, users: Sequence[str]) -> Belongs:
    """Whether a quoted id is of an erased user or event; one that was cut short is taken for one."""
    named = set(users)

    def belongs(quoted: str) -> bool:
        if not quoted or quoted == ERASED:
            return False
        hashed = erased.hash(quoted)
        known = hashed in note.events or hashed in erased.users or quoted.endswith(TRUNCATED)
        return known or any(part in named for part in _parts(quoted))

    return belongs


def _parts(quoted: str) -> Iterator[str]:
    """Every part of an id that could be a user's, between two places where words begin or end.

    >>> sorted(_parts("u-7:3"))
    ['3', '7', '7:3', 'u', 'u-7', 'u-7:3']
    """
    words = [match.span() for match in re.finditer(r"[A-Za-z0-9]+", quoted)]
    return (quoted[first:last] for k, (first, _) in enumerate(words) for _, last in words[k:])


def _observer(places: Places, name: str, window: Path) -> Any:
    """What extraction would have shown the rows to; without the deployment's settings nothing is kept."""
    from slc_ops.quality import observer

    known = _settings(places).get(name)
    return observer(WindowManifest.read(window).window, known) if known else None


def _settings(places: Places) -> dict[str, Deployment]:
    """The deployments of the file that can be used; a broken entry of another one does not matter."""
    return read_deployments(places.deployments_file)[0] if places.deployments_file.exists() else {}
