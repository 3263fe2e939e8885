"""Is the candidate better than its rivals on the newest window?"""

from pathlib import Path
from typing import Any

from slc_ops.evidence.decision import Verdict
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.uncertainty import Interval
from slc_ops.reporting.style import INK, MUTED, Drawing, new_figure, save, styled, tone

NAMES = {"base": "the backbone", "platt": "Platt scaling", "champion": "the champion"}


def draw(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Candidate minus each rival, with intervals: AUC to the right is better, NLL to the left."""
    if verdict.method is None or verdict.method not in backtest.differences:
        return None
    differences = backtest.differences[verdict.method]
    found = {name: differences[name] for name in NAMES if name in differences and name != verdict.method}
    with styled("rivals"):
        figure, (left, right) = new_figure(0.75 + 0.42 * len(found), 2, sharey=True)
        for axis, metric, better in ((left, "auc", 1), (right, "nll", -1)):
            for row, each in enumerate(found.values()):
                _bar(axis, row, getattr(each, metric), better)
            axis.axvline(0, color=INK, linewidth=0.9)
            axis.set_ylim(len(found) - 0.4, -0.6)
            axis.grid(axis="y", visible=False)
            axis.margins(x=0.12)
            axis.locator_params(axis="x", nbins=4)
        left.set_title("Δ AUC   better →")
        right.set_title("Δ NLL   ← better")
        left.set_yticks(range(len(found)), [f"against {NAMES[name]}" for name in found])
        svg = save(figure, "rivals", directory)
    level = next(iter(found.values())).confidence if found else 0.95
    return Drawing(
        "rivals",
        f"{verdict.method} against its rivals",
        f"Paired differences on the rows of the newest window, {level:.0%} intervals from resampled users.",
        svg,
    )


def _bar(axis: Any, row: int, found: Interval, better: int) -> None:
    if found.estimate is None:
        return
    if found.low is None:
        axis.plot(found.estimate, row, "o", color=MUTED, markersize=6, fillstyle="none")
        return
    colour = tone(found, better)
    axis.plot([found.low, found.high], [row, row], color=colour, linewidth=3)
    axis.plot(found.estimate, row, "o", color=colour, markersize=7)
