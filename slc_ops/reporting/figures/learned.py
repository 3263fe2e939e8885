"""Figures of a fit: calibrated probabilities, item offsets, detectable drift."""

from pathlib import Path

import numpy as np

from slc_ops.base.text import count, number
from slc_ops.evidence.detectability import Detectability, smallest_visible_drift
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.verdict import Verdict
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.reporting.style import ACCENT, BAD, INK, MUTED, Drawing, new_figure, save, styled

SHOWN = 260


def draw_reliability(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Draw observed rate against mean prediction in fifteen bins, with dots sized by rows."""
    names = ["base", *([verdict.method] if verdict.method not in (None, "base") else [])]
    curves = {name: backtest.newest[name].reliability for name in names}
    if not any(curves.values()):
        return None
    with styled("reliability"):
        figure, axis = new_figure(3.3)
        axis.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
        for name, bins in curves.items():
            known = [each for each in bins if each["n"]]
            total = sum(each["n"] for each in known) or 1
            x = [each["mean_prediction"] for each in known]
            y = [each["mean_label"] for each in known]
            sizes = [12 + 420 * each["n"] / total for each in known]
            colour = MUTED if name == "base" else ACCENT
            axis.plot(x, y, color=colour, linewidth=1.4, alpha=0.7)
            axis.scatter(x, y, s=sizes, color=colour, alpha=0.75, linewidths=0)
        for row, name in enumerate(names):
            metrics = backtest.newest[name].metrics
            ece = number(None if metrics is None else metrics["ece"])
            text = f"{'backbone' if name == 'base' else name}  ECE {ece}"
            colour = MUTED if name == "base" else ACCENT
            axis.annotate(
                text, (0.03, 0.94 - 0.075 * row), xycoords="axes fraction", color=colour, fontweight="bold"
            )
        axis.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted", ylabel="observed")
        return save(
            figure,
            directory / "reliability",
            "Observed rate by predicted probability",
            "Fifteen equal bins of the newest window's predictions; a dot on the dashed line is perfectly "
            "calibrated, its area is its share of the rows.",
        )


def draw_offsets(directory: Path, parameters: ParameterSet | None) -> Drawing | None:
    """Draw offsets by observations; grey lines connect raw and shrunken estimates."""
    if parameters is None or parameters.items is None or parameters.items.num_rows == 0:
        return None
    table = parameters.effects["item"].latest()
    n = table["n_obs"].to_numpy()
    offset = table["offset"].to_numpy()
    # Sample evenly in the order of counts: sparse and dense items are represented, and the size of the page
    # does not grow with the number of items.
    order = np.argsort(n, kind="stable")
    shown = order[np.unique(np.linspace(0, len(n) - 1, SHOWN).astype(int))]
    shown = shown[n[shown] > 0]
    with styled("offsets"):
        figure, axis = new_figure(3.3)
        axis.axhline(0, color=INK, linewidth=0.9)
        if "shrinkage" in table.column_names and table["shrinkage"].null_count == 0:
            kept = table["shrinkage"].to_numpy()[shown]
            raw = np.clip(offset[shown] / np.maximum(kept, 1e-9), -6, 6)
            axis.vlines(n[shown], offset[shown], raw, color=MUTED, alpha=0.5, linewidth=0.8)
        axis.plot(n[shown], offset[shown], "o", color=ACCENT, markersize=3, alpha=0.8, linewidth=0)
        axis.set_xscale("log")
        axis.set(xlabel="observations of the item (log scale)", ylabel="offset in logits")
        return save(
            figure,
            directory / "offsets",
            "Offsets by observations of the item",
            f"Each dot is an item's offset ({len(shown)} of {count(len(n))} shown, evenly by count; their "
            f"standard deviation is {number(offset.std(), 2)}); the grey line leads to the estimate from its "
            "own rows alone. The prior pulls sparse items towards zero.",
        )


def draw_detectability(directory: Path, found: Detectability | None) -> Drawing | None:
    """Draw the power curve: the smallest drift that n observations per bin can show, and the median item."""
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
        return save(
            figure,
            directory / "detectability",
            "The smallest visible drift, by observations per bin",
            f"The line is the smallest step between two of {found.time_bins} bins that a test at "
            f"α = {found.alpha:g} can see. Tracking items over time is {found.temporal_tracking}: "
            f"{found.reason}.",
        )
