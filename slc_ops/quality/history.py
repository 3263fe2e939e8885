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

from slc_ops.base.digests import digest_json
from slc_ops.base.files import stored_under, understanding, write_json
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


class History:
    """The baselines of a deployment's windows; every earlier window is validated once."""

    def __init__(self, manifest_of: ManifestOf, quality: Quality, engine: Engine = LOCAL) -> None:
        self._quality, self._engine = quality, engine
        self._manifest_of, self._before = cache(manifest_of), cache(Window.before)
        self._validated: dict[tuple[Window, str], PastWindow] = {}

    def baseline(self, window: Window) -> Baseline:
        """Return the baseline of ``window``; the :func:`reach` windows before it must have been extracted."""
        known: dict[Window, PastWindow] = {}
        for each in self._before(window, reach(window)):
            if self._manifest_of(each).rows:
                baseline = self._compared(each, known)
                key = digest_json(baseline.identity())
                if (each, key) not in self._validated:
                    self._validated[each, key] = self._verdict(each, baseline, key)
                known[each] = self._validated[each, key]
        return self._compared(window, known)

    def _verdict(self, window: Window, baseline: Baseline, key: str) -> PastWindow:
        """Return the verdict against a baseline, stored beside the window's rows with those of others."""
        manifest, quality = self._manifest_of(window), self._quality
        path = manifest.directory / FILE
        inputs = digest_json([VERSION, manifest.digest, manifest.notes, quality.model_dump(mode="json")])
        known = stored_under(path, inputs)
        with understanding(path):
            verdicts = known["verdicts"] if known else {}
            if key in verdicts:
                stopped, stopped_alone, exceeded = verdicts[key]
                return PastWindow(stopped, stopped_alone, frozenset(exceeded))
        seen = seen_before(manifest, baseline.earlier, quality.row_budget)
        again = seen.rows > quality.row_budget * manifest.rows
        alone, _ = stops_of(manifest, Baseline(), quality, self._engine)
        found, exceeded = stops_of(manifest, baseline, quality, self._engine)
        verdict = PastWindow(bool(found) or again, bool(alone) or again, exceeded)
        form = [verdict.stopped, verdict.stopped_alone, sorted(exceeded)]
        write_json(path, {"key": inputs, "verdicts": {**verdicts, key: form}})
        return verdict

    def _compared(self, window: Window, known: Mapping[Window, PastWindow]) -> Baseline:
        def usable(windows: list[Window]) -> list[WindowManifest]:
            return [self._manifest_of(each) for each in windows if each in known and not known[each].stopped]

        trailing = self._before(window, TRAILING)
        sound = [each for each in trailing if each in known and not known[each].stopped_alone]
        return Baseline(
            windows=usable(trailing),
            weekdays=usable(self._before(window, 7 * TRAILING)[::7]) if is_daily(window) else None,
            found_before=known[sound[-1]].exceeded if sound else frozenset(),
            earlier=[self._manifest_of(each) for each in self._before(window, EARLIER) if each in known],
        )
