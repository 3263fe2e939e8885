"""Which windows may be refreshed: those of the deployment's grid, which never overlap."""

from datetime import datetime
from zoneinfo import ZoneInfo

from slc_ops.base.errors import SettingsError
from slc_ops.base.window import Cadence, Window
from slc_ops.refresh.finished import decided_refreshes
from slc_ops.settings.deployments import Deployment, Places


def check_window(
    places: Places, name: str, window: Window, settings: Deployment | None = None, *, hint: str = "--off-grid"
) -> None:
    """Refuse a window off the deployment's grid, or one that overlaps with a refreshed window.

    The second happens after a change of ``window`` in the deployments file: the same rows would count twice.
    """
    cadence = (settings or places.deployment(name)).cadence
    if not cadence.holds(window):
        instead = " or ".join(str(each) for each in _windows_at(cadence, window))
        raise SettingsError(
            f"window {window} is no {cadence.name} of {name!r} ({cadence.described}); refresh {instead}, "
            f"or give {hint} if it is meant"
        )
    before = [plan.window for plan in decided_refreshes(places, name) if plan.window != window]
    for other in before:
        if other.start < window.end and window.start < other.end:
            raise SettingsError(
                f"window {window} of {name!r} overlaps with {other}, which was refreshed before, so the same "
                f"rows would count in both; {_way_out(cadence, other, max(w.end for w in before))}"
                f"give {hint} if it is meant"
            )


def _way_out(cadence: Cadence, other: Window, end: datetime) -> str:
    """What to do about a window that overlaps with ``other``; ``end`` is where refreshed windows end."""
    if cadence.holds(other):
        return ""
    free = cadence.containing(end)
    if free.start < end:
        free = cadence.containing(free.end)
    day = end.astimezone(ZoneInfo(cadence.zone)).date()
    return (
        f"its windows were others then: go on with {free}, or set window.anchor to {day} so that one begins "
        "there, or give the new cadence a deployment of its own; "
    )


def _windows_at(cadence: Cadence, window: Window) -> list[Window]:
    """The windows of the grid in which the window starts and ends.

    >>> [str(week) for week in _windows_at(Cadence(), Window.parse("2026-01-06/2026-01-13"))]
    ['2026-01-05/2026-01-12', '2026-01-12/2026-01-19']
    """
    first = cadence.containing(window.start)
    if window.end <= first.end:
        return [first]
    last = cadence.containing(window.end)
    return [first, last if last.start < window.end else cadence.complete_at(window.end)]
