"""The baseline of a window, and the findings of the window before it.

The baseline of a window consists of the :data:`TRAILING` windows before it that have rows, without those that
validation stopped; the rows of daily windows are compared with the same weekday of as many weeks. Earlier
windows are validated in the same way, in order, from :func:`reach` windows before on. So a verdict is a
function of the windows in that reach and of the settings only: neither of the refresh, nor of the order of
validation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from slc_ops.base.files import digest_json, read_json, understanding, write_json
from slc_ops.base.window import Window
from slc_ops.intake.manifest import WindowManifest
from slc_ops.settings.deployments import Quality

if TYPE_CHECKING:
    from slc_ops.rows.engine import Engine

FILE = "as_earlier_window.json"
TRAILING = 4
EARLIER = 8
"""Number of earlier windows whose events may not occur again."""

ManifestOf = Callable[[Window], WindowManifest]


def reach(window: Window) -> int:
    """Return the number of earlier windows of a verdict: eight weeks of daily windows, else twelve windows.

    The windows of the baseline are themselves compared with as many.
    """
    return 2 * 7 * TRAILING if is_daily(window) else TRAILING + EARLIER


def is_daily(window: Window) -> bool:
    """Return True for windows of one day, whose rows differ by weekday."""
    return len(window.dates) == 1


@dataclass(frozen=True)
class Baseline:
    """The windows that a window is compared with, oldest first."""

    windows: tuple[WindowManifest, ...]
    weekdays: tuple[WindowManifest, ...] | None = None
    """For daily windows: those of the same weekday, for the number of rows."""
    found_before: frozenset[str] = frozenset()
    """Codes of the stop limits that the previous window exceeded: twice in a row, a change is accepted."""


@dataclass(frozen=True)
class Judged:
    """An earlier window: stopped, stopped even without a comparison, and the limits it exceeds."""

    stopped: bool
    stopped_alone: bool
    exceeded: frozenset[str]


class _Stored:
    """The verdicts on an earlier window, beside its rows: one for each baseline."""

    def __init__(self, manifest: WindowManifest, inputs: list[Any]) -> None:
        self._path, self._key = manifest.directory / FILE, digest_json(inputs)
        self._verdicts: dict[str, Any] = {}
        if self._path.exists():
            with understanding(self._path):
                stored = read_json(self._path)
                if stored["key"] == self._key:
                    self._verdicts = stored["verdicts"]

    def get(self, key: str) -> Judged | None:
        """Return a stored verdict."""
        if key not in self._verdicts:
            return None
        with understanding(self._path):
            stopped, stopped_alone, exceeded = self._verdicts[key]
            return Judged(stopped, stopped_alone, frozenset(exceeded))

    def add(self, key: str, judged: Judged) -> None:
        """Store a verdict with the others."""
        self._verdicts[key] = [judged.stopped, judged.stopped_alone, sorted(judged.exceeded)]
        write_json(self._path, {"key": self._key, "verdicts": self._verdicts})


class History:
    """The baselines of a deployment's windows; every earlier window is validated once."""

    def __init__(self, manifest_of: ManifestOf, quality: Quality, engine: "Engine | None" = None) -> None:
        from slc_ops.quality.event_ids import seen_before
        from slc_ops.quality.verdict import VERSION, stops_of
        from slc_ops.rows.engine import LOCAL

        by = engine or LOCAL

        settings = quality.model_dump(mode="json")

        @cache
        def judged(
            window: Window,
            trailing: tuple[Window, ...],
            weekdays: tuple[Window, ...] | None,
            found_before: frozenset[str],
            earlier: tuple[Window, ...],
        ) -> Judged:
            mine = self._manifest_of(window)
            before, same, others = (
                None if part is None else [self._manifest_of(each) for each in part]
                for part in (trailing, weekdays, earlier)
            )
            digests = [
                None if part is None else [each.digest for each in part] for part in (before, same, others)
            ]
            stored = _Stored(mine, [VERSION, mine.digest, mine.notes, settings])
            key = digest_json([digests, sorted(found_before)])
            if (known := stored.get(key)) is not None:
                return known
            seen = seen_before(mine, others or [], quality.row_budget)
            again = seen.rows > quality.row_budget * mine.rows
            alone, _ = stops_of(mine, [], quality, by)
            found, exceeded = stops_of(mine, before or [], quality, by, same, found_before)
            stored.add(key, verdict := Judged(bool(found) or again, bool(alone) or again, exceeded))
            return verdict

        self._manifest_of, self._judged = cache(manifest_of), judged
        self._before = cache(Window.before)

    def baseline(self, window: Window) -> Baseline:
        """Return the baseline of ``window``; the :func:`reach` windows before it must have been extracted."""
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
        """Return the :data:`EARLIER` windows before it that have rows; their events may not occur again.

        Stopped windows are included, so this is independent of the baseline.
        """
        found = [self._manifest_of(each) for each in window.before(EARLIER)]
        return [manifest for manifest in found if manifest.rows]
