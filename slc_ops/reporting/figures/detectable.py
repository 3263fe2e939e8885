"""Could drift be seen at all?"""

from pathlib import Path

import numpy as np

from slc_ops.base.text import count, number
from slc_ops.evidence.detectability import Detectability, smallest_visible_drift
from slc_ops.reporting.style import ACCENT, BAD, INK, MUTED, Drawing, new_figure, save, styled


def draw(directory: Path, found: Detectability | None) -> Drawing | None:
    """The power curve: the smallest drift that n observations per bin can show, and where the data are."""
    if found is None:
        return None
    colour = ACCENT if found.viable else BAD
    with styled("detectability"):
        figure, axis = new_figure(3.3)
        low = min(0.3, found.obs_per_bin_median / 2)
        high = max(3e4, 2 * found.obs_per_bin_median)
        n = np.geomspace(low, high, 60)
        curve = np.array([smallest_visible_drift(each, found.alpha) for each in n])
        axis.fill_between(n, curve, 30, color=ACCENT, alpha=0.12, linewidth=0)
        axis.plot(n, curve, color=INK)
        axis.plot(found.obs_per_bin_median, found.delta_min, "o", color=colour, markersize=8)
        axis.annotate(
            f"median item\n{count(found.obs_per_bin_median, 1)} obs per bin",
            (found.obs_per_bin_median, found.delta_min),
            xytext=(8, 8),
            textcoords="offset points",
            color=colour,
            fontweight="bold",
        )
        levels = [(found.reference_drift, f"a drift of {found.reference_drift:g}")]
        if found.delta_obs_median is not None:
            levels.append(
                (found.delta_obs_median, f"observed (with noise) {number(found.delta_obs_median, 2)}")
            )
        for level, text in levels:
            axis.axhline(level, color=MUTED, linewidth=1, linestyle=(0, (4, 2)))
            axis.annotate(
                text,
                (0.02, level),
                xycoords=("axes fraction", "data"),
                xytext=(0, 2.5),
                textcoords="offset points",
                fontsize=8.5,
                color=MUTED,
            )
        axis.annotate("visible", (0.97, 0.9), xycoords="axes fraction", ha="right", color=ACCENT)
        axis.annotate("lost in noise", (0.4, 0.17), xycoords="axes fraction", color=MUTED)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set(xlim=(low, high), ylim=(0.02, 15))
        axis.set(xlabel="observations per item and time bin", ylabel="drift per bin in logits")
        svg = save(figure, "detectability", directory)
    return Drawing(
        "detectability",
        "The smallest visible drift, by observations per bin",
        f"The line is the smallest step between two of {found.time_bins} bins that a test at "
        f"α = {found.alpha:g} can see. Tracking items over time is {found.temporal_tracking}: "
        f"{found.reason}.",
        svg,
    )
