"""Current problems of a deployment with their runbooks: one list for status and page.

Computed from the deployments file, the results of validation and steps on disk, the clock and the free space.
"""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from slc_ops.base.errors import SettingsError, SlcError
from slc_ops.base.files import write_json
from slc_ops.base.json_form import JsonForm
from slc_ops.base.window import Window
from slc_ops.observability.stored import newest_steps, newest_validation
from slc_ops.refresh.versions import outcomes
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.deployments_file import read_deployments
from slc_ops.settings.environment import Installation, ServiceVariables

RUNBOOKS = "docs/runbooks.md#"
GRACE = timedelta(days=1)
"""Time after which a due window without a verdict is late, unless `verdict_due` is set."""
OF_FINDINGS = {
    "rows_by_day": "late-labels",
    "rows_unlabelled": "late-labels",
    "event_time_outside": "wrong-time-zone",
    "backbones_mixed": "new-backbone",
    "event_id_seen_before": "quarantined-rows",
    "quarantine_over_budget": "quarantined-rows",
}
"""Finding that stopped a window → runbook; any other finding is an outage or a broken log."""


@dataclass(frozen=True)
class Trouble(JsonForm):
    """One problem that needs attention."""

    code: str
    """``entry``, ``stopped``, ``late``, ``step``, ``alias`` or ``disk``."""
    sentence: str
    runbook: str

    def __str__(self) -> str:
        return f"{self.sentence} ({self.runbook})"


def troubles(
    installation: Installation, now: datetime, names: Iterable[str] = ()
) -> dict[str, list[Trouble]]:
    """Return deployment → problems, of ``names`` and of the file; problems of the disk apply to all."""
    try:
        there = installation.deployments_file.exists()
        good, broken = read_deployments(installation.deployments_file) if there else ({}, [])
    except SettingsError as error:
        whole = Trouble("entry", str(error), RUNBOOKS + "broken-entry")
        return {name: [whole, *disk(installation)] for name in names}
    found: dict[str, list[Trouble]] = {name: [] for name in sorted({*names, *good})}
    for entry in broken:
        trouble = Trouble("entry", f"its entry cannot be used: {entry}", RUNBOOKS + "broken-entry")
        found.setdefault(entry.name, []).append(trouble)
    full = list(disk(installation))
    for name in found:
        overdue = late(installation, name, good[name], now) if name in good else ()
        found[name] += [*stopped(installation, name), *failed_step(installation, name), *overdue, *full]
    return found


def stopped(installation: Installation, name: str) -> Iterator[Trouble]:
    """Yield a problem if validation stopped the newest window."""
    window, result = newest_validation(installation, name)
    if result.get("status") == "stopped":
        critical = [each for each in result.get("findings", []) if each.get("severity") == "critical"]
        codes = ", ".join(each.get("code", "?") for each in critical)
        runbook = next(
            (OF_FINDINGS[each["code"]] for each in critical if each.get("code") in OF_FINDINGS), "outage-week"
        )
        said = f"window {window} was stopped by validation ({codes}); the champion stays"
        yield Trouble("stopped", said, RUNBOOKS + runbook)


def failed_step(installation: Installation, name: str) -> Iterator[Trouble]:
    """Yield the failed steps of the newest refreshed window, unless validation stopped it."""
    window, records = newest_steps(installation, name)
    for record in records:
        if record.get("outcome") == "failed" and not any(stopped(installation, name)):
            why = f": {record['error']}" if record.get("error") else ""
            sentence = f"the step {record['step']} of window {window} failed{why}"
            yield Trouble("step", sentence, RUNBOOKS + "failed-step")


def late(installation: Installation, name: str, settings: Deployment, now: datetime) -> Iterator[Trouble]:
    """Yield the newest due window if it has no verdict."""
    window = settings.newest_window(now - (settings.verdict_due or GRACE))
    if window.start < settings.starts_at or any(stopped(installation, name)):
        return
    try:
        decided = [found[-1][1].window for found in outcomes(installation.refreshes(name))]
    except SlcError:  # damaged: reported elsewhere
        return
    if decided and decided[-1]["end"] < window.as_dict()["end"]:
        since = f"the newest is of {decided[-1]['start'][:10]}"
        yield Trouble("late", f"no verdict exists for window {window}, {since}", RUNBOOKS + "late-verdict")


def late_window(installation: Installation, name: str, at: datetime) -> Window | None:
    """Return the newest window whose verdict was due at ``at``; None if it has one or was notified."""
    settings = installation.deployment(name)
    if settings.verdict_due is None:
        return None
    window = settings.newest_window(at - settings.verdict_due)
    if window.start < settings.starts_at or _note(installation, name, window).exists():
        return None
    return None if any(outcomes(installation.refreshes(name), window)) else window


def note_notified(installation: Installation, name: str, window: Window) -> None:
    """Record the notification, so that it is sent once."""
    write_json(_note(installation, name, window), {"window": window.as_dict()})


def _note(installation: Installation, name: str, window: Window) -> Path:
    return installation.home / "late" / name / f"{window.key}.json"


def disk(installation: Installation) -> Iterator[Trouble]:
    """Yield a problem if the free space below the home is too small."""
    free, least = free_bytes(installation) >> 20, ServiceVariables.read().min_free_mb
    if free < least:
        sentence = f"only {free} MB are free below {installation.home}; refreshes need {least}"
        yield Trouble("disk", sentence, RUNBOOKS + "full-disk")


def free_bytes(installation: Installation) -> int:
    """Return the free bytes below the home, or where it will be created."""
    home = next(path for path in (installation.home, *installation.home.parents) if path.exists())
    return shutil.disk_usage(home).free
