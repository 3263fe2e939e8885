"""Is the candidate better than its rivals on the newest window?"""

from pathlib import Path
from typing import Any

from slc_ops.base.text import share
from slc_ops.evidence.metrics import paired_metrics
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.uncertainty import Interval
from slc_ops.evidence.verdict import Verdict
from slc_ops.reporting.style import INK, MUTED, Drawing, new_figure, save, styled, tone

NAMES = {"base": "the backbone", "platt": "Platt scaling", "champion": "the champion"}


def draw(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Candidate minus each rival, with intervals; an arrow points to the better side."""
    if verdict.method is None or verdict.method not in backtest.differences:
        return None
    differences = backtest.differences[verdict.method]
    found = {name: differences[name] for name in NAMES if name in differences and name != verdict.method}
    with styled("rivals"):
        metrics = paired_metrics()
        figure, axes = new_figure(0.75 + 0.42 * len(found), len(metrics), sharey=True)
        for axis, metric in zip(axes, metrics, strict=True):
            for row, each in enumerate(found.values()):
                _bar(axis, row, each[metric.name], metric.better)
            axis.set_title(f"Δ {metric.arrow}")
            axis.axvline(0, color=INK, linewidth=0.9)
            axis.set_ylim(len(found) - 0.4, -0.6)
            axis.grid(axis="y", visible=False)
            axis.margins(x=0.12)
            axis.locator_params(axis="x", nbins=4)
        axes[0].set_yticks(range(len(found)), [f"against {NAMES[name]}" for name in found])
        svg = save(figure, "rivals", directory)
    level = next(iter(found.values())).confidence if found else 0.95
    return Drawing(
        "rivals",
        f"{verdict.method} against its rivals",
        f"Paired differences on the rows of the newest window, {share(level)} intervals from "
        "resampled users.",
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
