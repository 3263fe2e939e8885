"""Which windows may be refreshed, and which verdict is late."""

from datetime import datetime
from pathlib import Path

from slc_ops.base.files import write_json
from slc_ops.base.window import Window
from slc_ops.refresh.versions import decided_refreshes
from slc_ops.refresh.window_rules import check_labels_due, check_no_overlap, check_on_grid
from slc_ops.settings.deployments import Installation


def check_window(installation: Installation, name: str, window: Window, *, hint: str = "--off-grid") -> None:
    """Refuse a window off the deployment's grid, or one that overlaps with a refreshed window."""
    cadence = installation.deployment(name).cadence
    check_on_grid(window, cadence, name, hint=hint)
    refreshed = [plan.window for plan in decided_refreshes(installation, name)]
    check_no_overlap(window, refreshed, cadence, name, hint=hint)


def check_due(
    installation: Installation, name: str, window: Window, at: datetime, *, hint: str = "--force"
) -> None:
    """Refuse a window whose labels are not due at ``at``; steps have no clock, so their callers ask."""
    check_labels_due(window, installation.deployment(name).label_lag, at, hint=hint)


def late_window(installation: Installation, name: str, at: datetime) -> Window | None:
    """The newest window whose verdict was due at ``at``, where it has none and nobody was told."""
    settings = installation.deployment(name)
    if settings.verdict_due is None:
        return None
    window = settings.newest_window(at - settings.verdict_due)
    if window.start < settings.starts_at or _note(installation, name, window).exists():
        return None
    found = any(plan.window == window for plan in decided_refreshes(installation, name, window))
    return None if found else window


def note_told(installation: Installation, name: str, window: Window) -> None:
    """Remember that somebody was told, so that it is told once."""
    write_json(_note(installation, name, window), {"window": window.as_dict()})


def _note(installation: Installation, name: str, window: Window) -> Path:
    return installation.home / "late" / name / f"{window.key}.json"
