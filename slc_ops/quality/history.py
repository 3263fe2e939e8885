"""Which earlier windows a window is compared with, and what the window before it was found to have.

The baseline of a window are the :data:`TRAILING` windows before it that hold rows, without those that
validation stopped; of daily windows the rows are compared with the same weekday of as many weeks. Whether an
earlier window was stopped is asked in the same way, window after window, from :func:`reach` windows before
on. So a verdict is a function of the windows in that reach and of the settings, and of nothing else: not of
the refresh that asks, not of what was validated when.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from slc_ops.base.window import Window
from slc_ops.intake.manifest import WindowManifest
from slc_ops.settings.deployments import Quality

if TYPE_CHECKING:
    from slc_ops.rows.engine import Engine

TRAILING = 4
EARLIER = 8
"""None of the events of so many windows before may come again."""

ManifestOf = Callable[[Window], WindowManifest]


def reach(window: Window) -> int:
    """How many windows before it a verdict looks at: eight weeks of daily windows, else twelve windows.

    Those that it is compared with are themselves compared with as many.
    """
    return 2 * 7 * TRAILING if is_daily(window) else TRAILING + EARLIER


def is_daily(window: Window) -> bool:
    """Whether windows are days, so that weekdays differ."""
    return len(window.dates) == 1


@dataclass(frozen=True)
class Baseline:
    """What a window is compared with, oldest first."""

    windows: tuple[WindowManifest, ...]
    weekdays: tuple[WindowManifest, ...] | None = None
    """Of daily windows: those of the same weekday, for the number of rows."""
    found_before: frozenset[str] = frozenset()
    """What the window before it exceeded a stop limit in: found twice in a row, it is news."""


@dataclass(frozen=True)
class Judged:
    """An earlier window: whether it is stopped, also without any comparison, and what it exceeds."""

    stopped: bool
    stopped_alone: bool
    exceeded: frozenset[str]


class History:
    """The baselines of a deployment's windows; every earlier window is looked at once."""

    def __init__(self, manifest_of: ManifestOf, quality: Quality, engine: "Engine | None" = None) -> None:
        from slc_ops.quality.event_ids import rows_seen_before
        from slc_ops.quality.verdict import stops_of
        from slc_ops.rows.engine import LOCAL

        by = engine or LOCAL

        @cache
        def judged(
            window: Window,
            trailing: tuple[Window, ...],
            weekdays: tuple[Window, ...] | None,
            found_before: frozenset[str],
            earlier: tuple[Window, ...],
        ) -> Judged:
            before, same = (
                None if part is None else [self._manifest_of(each) for each in part]
                for part in (trailing, weekdays)
            )
            mine = self._manifest_of(window)
            again = (
                rows_seen_before(mine, [self._manifest_of(each) for each in earlier], quality.row_budget)
                > quality.row_budget * mine.rows
            )
            alone, _ = stops_of(mine, [], quality, by)
            found, exceeded = stops_of(mine, before or [], quality, by, same, found_before)
            return Judged(bool(found) or again, bool(alone) or again, exceeded)

        self._manifest_of, self._judged = cache(manifest_of), judged
        self._before = cache(Window.before)

    def baseline(self, window: Window) -> Baseline:
        """What ``window`` is compared with; the :func:`reach` windows before it must have been extracted."""
        known: dict[Window, Judged] = {}
        for each in self._before(window, reach(window)):
            if self._manifest_of(each).rows:
                earlier = tuple(one for one in self._before(each, EARLIER) if one in known)
                known[each] = self._judged(each, *self._comparable(each, known), earlier)
        trailing, weekdays, found_before = self._comparable(window, known)
        return Baseline(
            tuple(map(self._manifest_of, trailing)),
            None if weekdays is None else tuple(map(self._manifest_of, weekdays)),
            found_before,
        )

    def _comparable(
        self, window: Window, known: Mapping[Window, Judged]
    ) -> tuple[tuple[Window, ...], tuple[Window, ...] | None, frozenset[str]]:
        trailing, weekdays = self._before(window, TRAILING), None
        if is_daily(window):
            weekdays = tuple(
                each
                for each in self._before(window, 7 * TRAILING)[::7]
                if each in known and not known[each].stopped
            )
        sound = [each for each in trailing if each in known and not known[each].stopped_alone]
        return (
            tuple(each for each in sound if not known[each].stopped),
            weekdays,
            known[sound[-1]].exceeded if sound else frozenset(),
        )

    def earlier(self, window: Window) -> list[WindowManifest]:
        """The :data:`EARLIER` windows before it that hold rows: none of their events may come again.

        Whether they were stopped does not matter, so this is no part of what makes a baseline.
        """
        found = [self._manifest_of(each) for each in window.before(EARLIER)]
        return [manifest for manifest in found if manifest.rows]
