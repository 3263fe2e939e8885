"""Which windows may be refreshed, and which verdict is late."""

from datetime import datetime
from pathlib import Path

from slc_ops.base.files import write_json
from slc_ops.base.window import Window
from slc_ops.refresh.versions import decided_refreshes
from slc_ops.refresh.window_rules import check_labels_due, check_no_overlap, check_on_grid
from slc_ops.settings.deployments import Places


def check_window(places: Places, name: str, window: Window, *, hint: str = "--off-grid") -> None:
    """Refuse a window off the deployment's grid, or one that overlaps with a refreshed window."""
    cadence = places.deployment(name).cadence
    check_on_grid(window, cadence, name, hint=hint)
    refreshed = [plan.window for plan in decided_refreshes(places, name)]
    check_no_overlap(window, refreshed, cadence, name, hint=hint)


def check_due(places: Places, name: str, window: Window, at: datetime, *, hint: str = "--force") -> None:
    """Refuse a window whose labels are not due at ``at``; steps have no clock, so their callers ask."""
    check_labels_due(window, places.deployment(name).label_lag, at, hint=hint)


def late_window(places: Places, name: str, at: datetime) -> Window | None:
    """The newest window whose verdict was due at ``at``, where it has none and nobody was told."""
    settings = places.deployment(name)
    if settings.verdict_due is None:
        return None
    window = settings.newest_window(at - settings.verdict_due)
    if window.start < settings.starts_at or _note(places, name, window).exists():
        return None
    found = any(plan.window == window for plan in decided_refreshes(places, name, window))
    return None if found else window


def note_told(places: Places, name: str, window: Window) -> None:
    """Remember that somebody was told, so that it is told once."""
    write_json(_note(places, name, window), {"window": window.as_dict()})


def _note(places: Places, name: str, window: Window) -> Path:
    return places.home / "late" / name / f"{window.key}.json"
