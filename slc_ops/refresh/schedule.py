"""The windows that may be refreshed, and late verdicts."""

from datetime import datetime
from pathlib import Path

from slc_ops.base.files import write_json
from slc_ops.base.window import Window
from slc_ops.refresh.versions import outcomes
from slc_ops.refresh.window_rules import check_no_overlap, check_on_grid
from slc_ops.settings.environment import Installation


def check_window(installation: Installation, name: str, window: Window, *, hint: str = "--off-grid") -> None:
    """Raise :class:`SettingsError` for a window off the grid, or overlapping with a refreshed one."""
    cadence = installation.deployment(name).cadence
    check_on_grid(window, cadence, name, hint=hint)
    refreshed = [Window.from_dict(found[-1][1].window) for found in outcomes(installation.refreshes(name))]
    check_no_overlap(window, refreshed, cadence, name, hint=hint)


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
