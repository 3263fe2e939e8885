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
from typing import Any

from slc_ops.base.digests import digest_json
from slc_ops.base.files import read_json, understanding, write_json
from slc_ops.base.window import Window
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.event_ids import seen_before
from slc_ops.quality.verdict import VERSION, Baseline, stops_of
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.settings.quality import Quality

FILE = "as_earlier_window.json"
TRAILING = 4
EARLIER = 8
"""Number of earlier windows whose events may not occur again, whether they were stopped or not."""

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
class PastWindow:
    """An earlier window: stopped, stopped even without a comparison, and the limits it exceeds."""

    stopped: bool
    stopped_alone: bool
    exceeded: frozenset[str]


@dataclass(frozen=True)
class Compared:
    """The windows of a :class:`Baseline`."""

    windows: tuple[Window, ...]
    weekdays: tuple[Window, ...] | None
    found_before: frozenset[str]
    earlier: tuple[Window, ...]


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

    def get(self, key: str) -> PastWindow | None:
        """Return a stored verdict."""
        if key not in self._verdicts:
            return None
        with understanding(self._path):
            stopped, stopped_alone, exceeded = self._verdicts[key]
            return PastWindow(stopped, stopped_alone, frozenset(exceeded))

    def add(self, key: str, verdict: PastWindow) -> None:
        """Store a verdict with the others."""
        self._verdicts[key] = [verdict.stopped, verdict.stopped_alone, sorted(verdict.exceeded)]
        write_json(self._path, {"key": self._key, "verdicts": self._verdicts})


class History:
    """The baselines of a deployment's windows; every earlier window is validated once."""

    def __init__(self, manifest_of: ManifestOf, quality: Quality, engine: Engine = LOCAL) -> None:
        self._quality, self._engine = quality, engine
        self._manifest_of, self._before = cache(manifest_of), cache(Window.before)
        self._validated = cache(self._validate)

    def baseline(self, window: Window) -> Baseline:
        """Return the baseline of ``window``; the :func:`reach` windows before it must have been extracted."""
        known: dict[Window, PastWindow] = {}
        for each in self._before(window, reach(window)):
            if self._manifest_of(each).rows:
                known[each] = self._validated(each, self._compared(each, known))
        return self._manifests(self._compared(window, known))

    def _validate(self, window: Window, compared: Compared) -> PastWindow:
        manifest, baseline = self._manifest_of(window), self._manifests(compared)
        quality, key = self._quality, digest_json(baseline.identity())
        stored = _Stored(
            manifest, [VERSION, manifest.digest, manifest.notes, quality.model_dump(mode="json")]
        )
        if (known := stored.get(key)) is not None:
            return known
        seen = seen_before(manifest, baseline.earlier, quality.row_budget)
        again = seen.rows > quality.row_budget * manifest.rows
        alone, _ = stops_of(manifest, Baseline(), quality, self._engine)
        found, exceeded = stops_of(manifest, baseline, quality, self._engine)
        stored.add(key, verdict := PastWindow(bool(found) or again, bool(alone) or again, exceeded))
        return verdict

    def _compared(self, window: Window, known: Mapping[Window, PastWindow]) -> Compared:
        def usable(windows: list[Window]) -> tuple[Window, ...]:
            return tuple(each for each in windows if each in known and not known[each].stopped)

        trailing = self._before(window, TRAILING)
        sound = [each for each in trailing if each in known and not known[each].stopped_alone]
        return Compared(
            windows=usable(trailing),
            weekdays=usable(self._before(window, 7 * TRAILING)[::7]) if is_daily(window) else None,
            found_before=known[sound[-1]].exceeded if sound else frozenset(),
            earlier=tuple(each for each in self._before(window, EARLIER) if each in known),
        )

    def _manifests(self, compared: Compared) -> Baseline:
        windows, weekdays, earlier = (
            None if part is None else [self._manifest_of(each) for each in part]
            for part in (compared.windows, compared.weekdays, compared.earlier)
        )
        return Baseline(windows or [], weekdays, compared.found_before, earlier or [])
