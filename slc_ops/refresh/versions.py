"""The record of a refresh: its registered versions, and its position among the refreshes of its window.

Retention, page, metrics, reports, erasure and gate read this record; no code uses the times of files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slc_ops.base.files import read_json, understanding, write_json
from slc_ops.base.window import Window
from slc_ops.refresh.files import ORDER, RefreshFiles, refreshes_in
from slc_ops.refresh.plan import Plan, read_plan
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.registry import ChampionChange


@dataclass(frozen=True)
class Registered:
    """A version that a refresh registered."""

    number: int
    kind: Literal["decided", "renewal"]
    """``decided``: the verdict's method; ``renewal``: the serving one, renewed while a change is held."""
    method: str
    parameters: str
    """The directory of its parameter set, within the refresh."""
    run_id: str
    verdict: str
    """The digest of the verdict at publication."""


def registered_by(files: RefreshFiles) -> list[Registered]:
    """Return the versions that a refresh registered, in the order of their numbers."""
    if not files.versions.exists():
        return []
    with understanding(files.versions):
        return [Registered(**each) for each in read_json(files.versions)["versions"]]


def record_version(files: RefreshFiles, version: Registered) -> None:
    """Record a version; it replaces an earlier one of its kind."""
    others = [each for each in registered_by(files) if each.kind != version.kind]
    found = sorted([*others, version], key=lambda each: each.number)
    write_json(files.versions, {"versions": [asdict(each) for each in found]}, sealed=True)


def version_of(files: RefreshFiles, kind: Literal["decided", "renewal"] = "decided") -> Registered | None:
    """Return the version of the decided method, or of the one that was renewed meanwhile; None without it."""
    return next((each for each in registered_by(files) if each.kind == kind), None)


def find_by_run(installation: Installation, run_id: str) -> Plan | None:
    """Return the refresh of an MLflow run, or None."""
    for refreshes in (installation.home / "refreshes").glob("[!.]*/"):
        for files in refreshes_in(refreshes):
            if run_id in [each.run_id for each in registered_by(files)]:
                return read_plan(files.plan)
    return None


def note_order(files: RefreshFiles) -> None:
    """Make a refresh the last of its window, because its verdict has been computed now."""
    others = [_order_of(each) for each in _decided(files.directory.parent)]
    write_json(files.order, {"order": 1 + max(others, default=0)}, sealed=True)


def _order_of(files: RefreshFiles) -> int:
    with understanding(files.order):
        return int(read_json(files.order)["order"])


def _decided(window: Path) -> list[RefreshFiles]:
    """Return the refreshes in a window's directory that reached a verdict, in the order of their verdicts."""
    found = [RefreshFiles(path.parent) for path in sorted(window.glob(f"[!.]*/{ORDER}"))]
    return sorted(found, key=_order_of)


Outcome = tuple[RefreshFiles, dict[str, Any]]
"""A decided refresh and its verdict."""
Decided = Sequence[Sequence[Outcome]]
"""The decided refreshes by window, oldest first, each in the order of their verdicts."""


def outcomes(refreshes: Path, window: Window | None = None) -> Iterator[list[Outcome]]:
    """Yield per window (or for one), oldest first, the decided refreshes in the order of their verdicts."""
    for directory in sorted(refreshes.glob(f"{window.key if window else '[!.]*'}/")):
        if found := [(files, read_json(files.verdict)) for files in _decided(directory)]:
            yield found


def newest_refresh(installation: Installation, deployment: str, window: Window | None = None) -> Plan | None:
    """Return the last decided refresh of a deployment, or of one of its windows."""
    found = list(outcomes(installation.refreshes(deployment), window))
    return read_plan(found[-1][-1][0].plan) if found else None


def held_in_a_row(decided: Decided, line: "Sequence[ChampionChange]", last: Window | None = None) -> int:
    """Return the number of consecutive held windows, from the newest (or ``last``) back.

    A held window proposed another champion, which was not promoted; a window without a proposal ends the
    count. ``line`` contains the deployment's changes of the champion.
    """
    champions = {change.to_version for change in line}
    retired = [change.evidence.get("window") for change in line if change.to_version is None]
    count = 0
    for found in reversed(decided):
        verdict = found[-1][1]
        if last is not None and Window.from_dict(verdict["window"]).end > last.end:
            continue
        numbers = {version.number for files, _ in found for version in registered_by(files)}
        if verdict["kind"] == "none" or numbers & champions or verdict["window"] in retired:
            break
        count += 1
    return count
