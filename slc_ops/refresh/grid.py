"""Which windows may be refreshed: those of the deployment's grid, which never overlap."""

from slc_ops.base.errors import SettingsError
from slc_ops.base.window import Window
from slc_ops.refresh.finished import decided_refreshes
from slc_ops.settings.deployments import Places


def check_window(places: Places, name: str, window: Window) -> None:
    """Refuse a window off the grid (Monday 00:00 UTC weeks), or one that overlaps with a refreshed window."""
    nearest = [week for week in _weeks_at(window) if week != window]
    if nearest:
        instead = " or ".join(str(week) for week in nearest)
        raise SettingsError(
            f"window {window} is no week of {name!r} (Monday 00:00 UTC to the next); refresh {instead}, "
            "or give --off-grid if it is meant"
        )
    for plan in decided_refreshes(places, name):
        other = plan.window
        if other != window and other.start < window.end and window.start < other.end:
            raise SettingsError(
                f"window {window} of {name!r} overlaps with {other}, which was refreshed before, so the same "
                "rows would count in both; give --off-grid if it is meant"
            )


def _weeks_at(window: Window) -> list[Window]:
    """The weeks in which the window starts and ends.

    >>> [str(week) for week in _weeks_at(Window.parse("2026-01-06/2026-01-13"))]
    ['2026-01-05/2026-01-12', '2026-01-12/2026-01-19']
    >>> [str(week) for week in _weeks_at(Window.parse("2026-01-05/2026-01-12"))]
    ['2026-01-05/2026-01-12']
    """
    first = Window.week_of(window.start)
    if first == window:
        return [first]
    if window.end <= first.end:
        return [first]
    last = Window.week_of(window.end)
    return [first, last if last.start < window.end else last.before(1)[0]]
