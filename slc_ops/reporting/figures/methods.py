"""How good is every method on the newest window?"""

from pathlib import Path
from typing import Any

from slc_ops.base.text import number
from slc_ops.evidence.metrics import paired_metrics
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.uncertainty import Interval
from slc_ops.evidence.verdict import Verdict
from slc_ops.reporting.style import ACCENT, CHAMPION, INK, MUTED, Drawing, new_figure, save, styled


def draw(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Every metric that gets intervals, of every method, in the order of the ladder."""
    names = [name for name in (*backtest.methods, "champion") if name in backtest.intervals]
    if not names:
        return None
    with styled("methods"):
        metrics = paired_metrics()
        figure, axes = new_figure(0.8 + 0.27 * len(names), len(metrics), sharey=True)
        for axis, metric in zip(axes, metrics, strict=True):
            found = {name: backtest.intervals[name][metric.name] for name in names}
            low, high = _view(found)
            for row, name in enumerate(names):
                _mark(axis, row, found[name], _colour(name, verdict.method), high)
            axis.set_xlim(low, high)
            axis.set_ylim(len(names) - 0.4, -0.6)
            axis.grid(axis="y", visible=False)
            axis.locator_params(axis="x", nbins=4)
            axis.set_title(metric.arrow)
        axes[0].set_yticks(range(len(names)), names)
        for name, tick in zip(names, axes[0].get_yticklabels(), strict=True):
            tick.set_color(_colour(name, verdict.method))
            tick.set_fontweight("bold" if name == verdict.method else "normal")
        svg = save(figure, "methods", directory)
    return Drawing(
        "methods",
        "Every method on the newest window, with intervals",
        "Dots are estimates, lines user-clustered intervals. An arrow points to a value outside the view.",
        svg,
    )


def _colour(name: str, chosen: str | None) -> str:
    return ACCENT if name == chosen else CHAMPION if name == "champion" else INK if name == "platt" else MUTED


def _view(found: dict[str, Interval]) -> tuple[float, float]:
    """A range that shows the contenders: a method far behind must not squeeze them together."""
    known = sorted(each.estimate for each in found.values() if each.estimate is not None)
    if not known:
        return 0.0, 1.0
    ends = [end for each in found.values() for end in (each.low, each.high) if end is not None] or known
    middle = known[len(known) // 2]
    reach = 3 * max(middle - known[0], known[min(len(known) - 1, 2 * len(known) // 3)] - middle, 0.005)
    low, high = max(min(ends), middle - reach), min(max(ends), middle + reach)
    pad = 0.08 * (high - low)
    return low - pad, high + pad


def _mark(axis: Any, row: int, found: Interval, colour: str, high: float) -> None:
    if found.estimate is None:
        axis.annotate("undefined", (0.5, row), xycoords=("axes fraction", "data"), color=MUTED, fontsize=8)
        return
    if found.estimate > high:
        axis.annotate(
            f"{number(found.estimate, 3)} →",
            (0.98, row),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="center",
            color=colour,
            fontsize=8.5,
        )
        return
    if found.low is not None:
        axis.plot([found.low, found.high], [row, row], color=colour, linewidth=2.4, alpha=0.55)
    axis.plot(found.estimate, row, "o", color=colour, markersize=5.5)
