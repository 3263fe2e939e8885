"""Windows whose renewal was held: later refreshes leave them out, unless the window after them was news."""

from collections.abc import Sequence
from typing import Any

from slc_ops.base.files import read_json
from slc_ops.base.window import Window
from slc_ops.refresh.finished import newest_refresh
from slc_ops.settings.deployments import Places


def held_windows(places: Places, name: str, windows: Sequence[Window]) -> dict[Window, str]:
    """Which of the windows before the last one were held, and what was said; ``windows`` oldest first."""
    renewals = [_renewal(places, name, window) for window in windows[:-1]]
    found = {}
    for window, renewal, later in zip(windows, renewals, [*renewals[1:], {}], strict=False):
        moved_too_far = renewal.get("limit") is not None and not renewal["accepted"]
        if moved_too_far and not later.get("news"):
            found[window] = f"its renewal was held: {renewal['sentence']}"
    return found


def _renewal(places: Places, name: str, window: Window) -> dict[str, Any]:
    """What the last refresh of a window said about its renewal; nothing where there is none."""
    plan = newest_refresh(places, name, window)
    return {} if plan is None else read_json(plan.files.verdict).get("renewal") or {}
