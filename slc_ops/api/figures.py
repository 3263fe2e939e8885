"""Figures for notebooks, in the style of the report."""

from typing import TYPE_CHECKING, Any

import numpy as np

from slc_ops.api.pages import svg_of
from slc_ops.base.text import signed
from slc_ops.evidence.metrics import paired_metrics
from slc_ops.reporting.figures.forests import Row, forest
from slc_ops.reporting.style import ACCENT, INK, MUTED, styled, tone

if TYPE_CHECKING:
    from slc_ops.api.comparing import Compared
    from slc_ops.api.explaining import Explanation
    from slc_ops.evidence.detectability import Detectability


def new_figure(height: float, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """Create a figure and its axes; notebooks render it without pyplot, in light and dark themes."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_html_(self) -> str:
            return svg_of(self)

    figure = NotebookFigure(figsize=(6.4, height), layout="constrained")
    return figure, figure.subplots(1, columns, **options)


def draw_explanation(found: "Explanation") -> Any:
    """Draw the raw estimate of one item, the shrunken one and the posterior interval."""
    with styled("explanation"):
        figure, axes = new_figure(2.0, 2 if found.blocks else 1, squeeze=False)
        axis = axes[0][0]
        if found.blocks:
            draw_blocks(axes[0][1], found.blocks)
            axes[0][1].set_title(f"probability {found.before:.1%} → {found.after:.1%}")
        axis.axvline(0, color=INK, linewidth=0.9)
        if found.raw is not None:
            axis.plot([found.raw], [1], "o", markersize=8, markerfacecolor="none", color=MUTED)
            arrow = {"arrowstyle": "->", "color": MUTED}
            axis.annotate("", (found.offset, 0.1), (found.raw, 0.9), arrowprops=arrow)
        if found.low is not None and found.high is not None:
            axis.plot([found.low, found.high], [0, 0], color=ACCENT, linewidth=3)
        axis.plot([found.offset], [0], "o", markersize=8, color=ACCENT)
        axis.set_yticks([1, 0], ["the rows alone", f"shrunk to {found.shrinkage:.0%}"])
        axis.set_ylim(-0.6, 1.6)
        axis.margins(x=0.15)
        axis.set_xlabel(f"offset of the {found.effect}, with 95 % interval")
        axis.set_title(
            f"{found.item}: {found.rows:,.0f} rows, offset {signed(found.offset, 2)} ({found.method})"
        )
        axis.grid(axis="y", visible=False)
        return figure


def draw_blocks(axis: Any, blocks: dict[str, float]) -> None:
    """Draw each block's contribution to the logit as bars."""
    names = list(blocks)[::-1]
    axis.axvline(0, color=INK, linewidth=0.9)
    bars = axis.barh(names, [blocks[name] for name in names], color=ACCENT, height=0.5)
    axis.bar_label(bars, [signed(blocks[name], 2) for name in names], padding=3)
    axis.set_xlabel("added to the logit")
    axis.use_sticky_edges = False  # room for the labels on both sides of 0
    axis.margins(x=0.45)
    axis.grid(axis="y", visible=False)


def draw_comparison(found: "Compared") -> Any:
    """Draw each method minus Platt on the test rows, with intervals."""
    names = list(found.differences)
    with styled("comparison"):
        metrics = paired_metrics()
        figure, axes = new_figure(1.1 + 0.27 * len(names), len(metrics), sharey=True)
        for axis, metric in zip(axes, metrics, strict=True):
            each = {name: found.differences[name][metric.name] for name in names}
            rows = [Row(name, value, tone(value, metric.better)) for name, value in each.items()]
            forest(axis, rows, f"Δ {metric.arrow}")
        figure.supxlabel("difference from Platt on the same rows, with 95 % intervals", fontsize=9)
        return figure


def draw_detectability(found: "Detectability") -> Any:
    """Draw detectable and observed drift of each item against its rows."""
    with styled("detectability"):
        figure, axis = new_figure(3.0)
        table = found.per_item
        if table is not None:
            rows = table["n_obs"].to_numpy()
            least, seen = (np.array(table[name].to_pylist(), float) for name in ("delta_min", "delta_obs"))
            visible = np.asarray(table["detectable"].to_pylist())
            axis.plot(rows, least, ".", color=MUTED, markersize=4, label="smallest visible drift")
            axis.plot(
                rows[~visible], seen[~visible], "x", color=INK, markersize=4, label="observed, within noise"
            )
            axis.plot(
                rows[visible], seen[visible], "o", color=ACCENT, markersize=4, label="observed, visible"
            )
            axis.legend(frameon=False, fontsize=8.5)
        axis.set_xscale("log")
        axis.set_xlabel("rows of the item, log scale")
        axis.set_ylabel("drift, logit per time bin")
        axis.set_title(
            f"Temporal tracking is {found.temporal_tracking}: {found.detectable_item_share:.0%} visible"
        )
        return figure
