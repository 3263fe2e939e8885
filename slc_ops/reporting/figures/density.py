"""Where does the correction help: on items with few observations or with many?"""

from pathlib import Path

from slc_ops.base.methods import score_only
from slc_ops.evidence.metrics import paired_metrics
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.verdict import Verdict
from slc_ops.reporting.style import INK, MUTED, Drawing, new_figure, save, styled, tone


def draw(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Differences to Platt by terciles of the items' calibration counts, and on cold start."""
    method = verdict.method
    if method is None or score_only(method) or method not in backtest.slice_differences:
        return None
    parts = [part for part in backtest.newest[method].slices if part["kind"] in ("density", "cold_start")]
    gains = backtest.slice_differences[method]
    with styled("density"):
        metrics = paired_metrics()
        figure, axes = new_figure(2.75, len(metrics), sharex=True)
        for axis, metric in zip(axes, metrics, strict=True):
            axis.axhline(0, color=INK, linewidth=0.9)
            for column, part in enumerate(parts):
                found = gains.get(f"{part['kind']}:{part['name']}")
                value = None if found is None else found[metric.name]
                if value is None or value.estimate is None:
                    axis.annotate("none", (column, 0), ha="center", va="bottom", color=MUTED, fontsize=8)
                    continue
                colour = tone(value, metric.better)
                axis.bar(column, value.estimate, 0.62, color=colour, alpha=0.35)
                if value.low is not None:
                    axis.plot([column, column], [value.low, value.high], color=colour, linewidth=2.4)
                axis.plot(column, value.estimate, "o", color=colour, markersize=5)
            axis.set_title(f"Δ {metric.title} to Platt")
            axis.grid(axis="x", visible=False)
            axis.set_xticks(range(len(parts)), [_short(part["label"]) for part in parts], fontsize=8)
        svg = save(figure, "density", directory)
    return Drawing(
        "density",
        "Differences to Platt by observations per item",
        "Test rows of the newest window by how often their item occurs in the calibration windows, with "
        "user-clustered intervals. Cold-start items have no offset of their own.",
        svg,
    )


def _short(label: str) -> str:
    """A slice's label on two lines.

    >>> _short("dense (137–6,640 obs)"), _short("cold start (0 obs)")
    ('dense\\n137+', 'cold\\n0')
    """
    name, _, counts = label.removesuffix(" obs)").partition(" (")
    if name == "dense":
        counts = counts.partition("–")[0] + "+"
    return f"{name.removesuffix(' start')}\n{counts}"
