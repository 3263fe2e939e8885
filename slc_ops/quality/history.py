"""Which earlier windows a window is measured against.

The baseline of a window are the :data:`TRAILING` windows before it that hold rows, without those that
validation would stop. Whether validation would stop an earlier window is decided in the same way, one step
further back, and there it ends: those windows only have to be valid by their own content. So the baseline
depends on the :data:`REACH` windows before the window and on the settings, and on nothing else: not on the
refresh that asks, not on when a window was validated.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from slc_ops.base.window import Window
from slc_ops.intake.manifest import WindowManifest
from slc_ops.settings.deployments import Quality

if TYPE_CHECKING:
    from slc_ops.rows.engine import Engine

TRAILING = 4
REACH = 2 * TRAILING

ManifestOf = Callable[[Window], WindowManifest]


class History:
    """The baselines of a deployment's windows; every earlier window is looked at once."""

    def __init__(self, manifest_of: ManifestOf, quality: Quality, engine: "Engine | None" = None) -> None:
        from slc_ops.quality.verdict import would_stop
        from slc_ops.rows.engine import LOCAL

        def before(window: Window) -> list[WindowManifest]:
            found = [manifest_of(each) for each in window.before(TRAILING)]
            return [manifest for manifest in found if manifest.rows]

        @cache
        def stopped_alone(window: Window) -> bool:
            return would_stop(manifest_of(window), [], quality, engine or LOCAL)

        @cache
        def stopped(window: Window) -> bool:
            known = [each for each in before(window) if not stopped_alone(each.window)]
            return would_stop(manifest_of(window), known, quality, engine or LOCAL)

        self._manifest_of, self._before, self._stopped = manifest_of, before, stopped

    def baseline_windows(self, window: Window) -> list[WindowManifest]:
        """The earlier windows that ``window`` is measured against, oldest first.

        The :data:`REACH` windows before it must have been extracted.
        """
        return [each for each in self._before(window) if not self._stopped(each.window)]

    def earlier(self, window: Window) -> list[WindowManifest]:
        """The :data:`REACH` windows before it that hold rows: none of their events may come again.

        Whether they were stopped does not matter, so this does not change a baseline.
        """
        found = [self._manifest_of(each) for each in window.before(REACH)]
        return [manifest for manifest in found if manifest.rows]
