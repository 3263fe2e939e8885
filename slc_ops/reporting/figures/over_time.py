"""AUC over time, the paper's Figure 1."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slc_ops.base.methods import REFERENCES, score_only
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.verdict import Verdict
from slc_ops.reporting.style import (
    ACCENT,
    INK,
    MUTED,
    SOFT,
    WIDE,
    Drawing,
    label_end,
    new_figure,
    save,
    styled,
)

Line = list[tuple[float, float | None]]


def draw(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Draw the AUC by day over all folds: the backbone, Platt, and the item correction."""
    shown = _shown(backtest, verdict)
    lines = {method: [_line(backtest, fold.key, method) for fold in backtest.plan.folds] for method in shown}
    if not any(point for parts in lines.values() for part in parts for point in part):
        return None
    with styled("over_time"):
        figure, axis = new_figure(3.0, width=WIDE)
        newest = lines["base"][-1]
        if newest:
            step = newest[1][0] - newest[0][0] if len(newest) > 1 else 1.0
            axis.axvspan(
                newest[0][0] - step / 2, newest[-1][0] + step / 2, color=SOFT, alpha=0.35, linewidth=0
            )
        names = {"base": "backbone", "platt": "Platt"}
        if _same(lines["base"], lines["platt"]):
            names = {"base": "", "platt": "backbone and Platt"}
        for method, parts in lines.items():
            _draw_line(axis, method, parts, names.get(method, method), bold=method == verdict.method)
        if newest:
            axis.annotate(
                "newest window",
                (newest[len(newest) // 2][0], 0.02),
                xycoords=("data", "axes fraction"),
                ha="center",
                fontsize=8.5,
                color=INK,
            )
        axis.set_ylabel("AUC")
        axis.grid(axis="x", visible=False)
        _name_days(axis, newest)
        axis.margins(x=0.02)
        return save(
            figure,
            directory / "over_time",
            "AUC over time, fold by fold",
            "AUC by time slice over the folds; each is fitted on earlier windows only. Platt scaling with "
            "a positive slope has the backbone's AUC: an increasing map of one score keeps every order.",
        )


def _shown(backtest: Backtest, verdict: Verdict) -> list[str]:
    """Return the backbone, Platt and the chosen method; an item correction if that is score-only."""
    chosen = verdict.method
    if chosen is None or score_only(chosen):
        others = [method for method in backtest.methods if not score_only(method)]
        chosen = "slc" if "slc" in others else others[-1] if others else None
    return [*REFERENCES, *([chosen] if chosen else [])]


def _line(backtest: Backtest, fold: str, method: str) -> Line:
    parts = [part for part in backtest.scores[fold][method].slices if part["kind"] == "time"]
    return [(float(part["name"]), part["auc"]) for part in parts]


def _same(some: list[Line], others: list[Line]) -> bool:
    """Return True if two methods have the same AUC on every slice, up to rounding."""
    pairs = [pair for part in zip(some, others, strict=True) for pair in zip(*part, strict=True)]
    return all(a == b or (a and b and abs(a - b) < 1e-6) for (_, a), (_, b) in pairs)


def _draw_line(axis: Any, method: str, parts: list[Line], name: str, *, bold: bool) -> None:
    looks: dict[str, dict[str, Any]] = {
        "base": {"color": MUTED, "linewidth": 4.5, "alpha": 0.45},
        "platt": {"color": INK, "linewidth": 1.1, "linestyle": (0, (4, 2))},
    }
    look = looks.get(method, {"color": ACCENT, "linewidth": 2.2, "marker": "o", "markersize": 3})
    for part in parts:
        axis.plot([x for x, _ in part], [float("nan") if y is None else y for _, y in part], **look)
    known = [(x, y) for part in parts for x, y in part if y is not None]
    if known and name:
        label_end(axis, *known[-1], name, look["color"], fontweight="bold" if bold else "normal")


def _name_days(axis: Any, newest: Line) -> None:
    """Label the axis with dates for timestamps, with plain numbers for other times."""
    if not newest or newest[0][0] < 1e8:
        axis.set_xlabel("event time")
        return
    low, high = axis.get_xlim()
    week = 7 * 86400
    first = newest[0][0]
    ticks = [first - k * week for k in range(int((first - low) // week), -1, -1)]
    ticks += [first + k * week for k in range(1, int((high - first) // week) + 1)]
    axis.set_xticks(ticks, [f"{datetime.fromtimestamp(tick, UTC):%d %b}" for tick in ticks])
