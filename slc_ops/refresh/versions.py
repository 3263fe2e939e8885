"""The record of a refresh: its outcome, and its registered versions.

Retention, page, metrics, reports, erasure and gate read this record; no code uses the times of files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slc_ops.base.digests import digest_json
from slc_ops.base.files import read_json, understanding, write_json
from slc_ops.base.json_form import to_json
from slc_ops.base.window import Window
from slc_ops.refresh.files import OUTCOME, RefreshFiles, refreshes_in
from slc_ops.refresh.plan import Plan, read_plan
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.evidence.results import Backtest
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


@dataclass(frozen=True)
class Outcome:
    """A summary of a refresh's result, which saves reading its evidence."""

    window: dict[str, str]
    order: int
    """1, 2, 3 … among the refreshes of a window, in the order of their verdicts."""
    verdict: str
    kind: str
    method: str | None
    digest: str
    """Digest of the verdict."""
    quality: dict[str, dict[str, float]] = field(default_factory=dict)
    """Method → metric → value, on the newest window."""
    gains: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Method → metric → the interval of its difference to Platt on the newest window."""
    renewal: dict[str, Any] = field(default_factory=dict)
    """The check of the new parameters; later refreshes exclude a window whose renewal was held."""
    served: dict[str, Any] | None = None
    """Served results of the newest window (:class:`~slc_ops.evidence.results.Served`), for later reports."""


def note_outcome(files: RefreshFiles, verdict: Mapping[str, Any], backtest: "Backtest") -> None:
    """Store the outcome of a refresh; a recomputed verdict becomes the newest of its window again."""
    digest = digest_json(dict(verdict))
    if files.outcome.exists() and read_outcome(files).digest == digest:
        return
    from slc_ops.evidence.results import served_on

    served = served_on(backtest)
    before = [each for each in _decided(files.directory.parent) if each.directory != files.directory]
    others = [read_outcome(each).order for each in before]
    outcome = Outcome(
        window=dict(verdict["window"]),
        order=1 + max(others, default=0),
        verdict=verdict["verdict"],
        kind=verdict["kind"],
        method=verdict["method"],
        digest=digest,
        quality={
            name: {metric: value for metric, value in score.metrics.values.items() if value is not None}
            for name, score in backtest.newest.items()
            if score.metrics is not None
        },
        gains={
            name: {metric: each.as_dict() for metric, each in found["platt"].intervals.items()}
            for name, found in backtest.differences.items()
            if "platt" in found
        },
        renewal=verdict.get("renewal") or {},
        served=None if served is None else to_json(served),
    )
    write_json(files.outcome, asdict(outcome), sealed=True)


def read_outcome(files: RefreshFiles) -> Outcome:
    """Read the result of :func:`note_outcome`."""
    with understanding(files.outcome):
        return Outcome(**read_json(files.outcome))


def _decided(window: Path) -> Iterator[RefreshFiles]:
    """Return the refreshes in a window's directory that reached a verdict."""
    return (RefreshFiles(path.parent) for path in sorted(window.glob(f"[!.]*/{OUTCOME}")))


Decided = Sequence[Sequence[tuple[RefreshFiles, Outcome]]]
"""The decided refreshes by window, oldest first, each in the order of their verdicts."""


def outcomes(refreshes: Path, window: Window | None = None) -> Iterator[list[tuple[RefreshFiles, Outcome]]]:
    """Yield per window (or for one), oldest first, the decided refreshes in the order of their verdicts."""
    for directory in sorted(refreshes.glob(f"{window.key if window else '[!.]*'}/")):
        found = [(files, read_outcome(files)) for files in _decided(directory)]
        if found:
            yield sorted(found, key=lambda each: (each[1].order, each[0].directory.name))


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
        outcome = found[-1][1]
        if last is not None and Window.from_dict(outcome.window).end > last.end:
            continue
        numbers = {version.number for files, _ in found for version in registered_by(files)}
        if outcome.kind == "none" or numbers & champions or outcome.window in retired:
            break
        count += 1
    return count
