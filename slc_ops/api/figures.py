"""Figures of notebooks, in the style of the report."""

from typing import TYPE_CHECKING, Any

from slc_ops.reporting.style import ACCENT, INK, MUTED, new_figure, styled

if TYPE_CHECKING:
    from slc_ops.api.explaining import Explanation


def draw_explanation(found: "Explanation") -> Any:
    """One item: the raw estimate, what shrinkage leaves of it, the posterior interval."""
    with styled("explanation"):
        figure, axis = new_figure(1.9, width=6.4)
        axis.axvline(0, color=INK, linewidth=0.9)
        if found.raw is not None:
            axis.plot([found.raw], [1], "o", markersize=8, markerfacecolor="none", color=MUTED)
            axis.annotate(
                "", (found.offset, 0.1), (found.raw, 0.9), arrowprops={"arrowstyle": "->", "color": MUTED}
            )
        if found.low is not None and found.high is not None:
            axis.plot([found.low, found.high], [0, 0], color=ACCENT, linewidth=3)
        axis.plot([found.offset], [0], "o", markersize=8, color=ACCENT)
        believed = f"shrunk to {found.shrinkage:.0%}"
        axis.set_yticks([1, 0], ["the rows alone", believed])
        axis.set_ylim(-0.6, 1.6)
        axis.margins(x=0.15)
        axis.set_xlabel("offset of the item, logit (line: 95 % interval)")
        axis.set_title(f"{found.item}: {found.rows:,.0f} rows, offset {found.offset:+.2f} ({found.method})")
        axis.grid(axis="y", visible=False)
        return figure
