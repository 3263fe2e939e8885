"""Do probabilities mean what they say?"""

from pathlib import Path

from slc_ops.base.text import number
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.verdict import Verdict
from slc_ops.reporting.style import ACCENT, INK, MUTED, Drawing, new_figure, save, styled


def draw(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Observed rate against mean prediction in fifteen bins, dots sized by their rows."""
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
        svg = save(figure, "reliability", directory)
    return Drawing(
        "reliability",
        "Observed rate by predicted probability",
        "Fifteen equal bins of the newest window's predictions; a dot on the dashed line is perfectly "
        "calibrated, its area is its share of the rows.",
        svg,
    )
