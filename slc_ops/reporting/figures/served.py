"""The served model by window, against Platt refitted every window and against the frozen model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slc_ops.base.methods import score_only
from slc_ops.base.window import Window
from slc_ops.evidence.replayed import SERVED, Replay, ReplayedWindow
from slc_ops.reporting.style import (
    ACCENT,
    BAD,
    CHAMPION,
    INK,
    MUTED,
    SOFT,
    WARN,
    WIDE,
    Drawing,
    label_ends,
    new_figure,
    save,
    styled,
)

NAMES = {"base": "frozen model", "platt": "Platt", "served": "served"}


def name_of(method: str) -> str:
    """Return a method's display name."""
    return NAMES.get(method, method)


def draw(directory: Path, replay: Replay, refitted: str | None = None) -> Drawing | None:
    """Draw the served NLL minus Platt's by window, over bands that name the serving method.

    ``refitted`` is an item method refitted every window, drawn beside it.
    """
    known = replay.differences(SERVED, "platt")
    if not known:
        return None
    marks = {each.window: mark for each in replay.windows if (mark := _mark(each)) is not None}
    with styled("served"):
        figure, axis = new_figure(3.1, width=WIDE)
        _bands(axis, replay.windows)
        axis.axhline(0, color=INK, linewidth=0.9)
        if refitted is not None:
            other = [(window.start, value) for window, value in replay.differences(refitted, "platt")]
            axis.plot(*zip(*other, strict=True), color=CHAMPION, linewidth=1.1, linestyle=(0, (4, 2)))
        line = [(window.start, value) for window, value in known]
        axis.plot(*zip(*line, strict=True), color=ACCENT, marker="o", markersize=3.5)
        for window, mark in marks.items():
            axis.annotate(
                "×" if mark == "stopped" else "◇",
                (window.start, 0.97),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="top",
                color={"stopped": BAD, "missing": MUTED, "held": WARN}[mark],
                fontsize=11,
            )
        axis.set_ylabel("NLL minus Platt's  (↓ better)")
        axis.grid(axis="x", visible=False)
        _dates(axis, replay.windows)
        legend = {
            "stopped": "× a window that validation stopped",
            "missing": "◇ (grey) a window without rows",
            "held": "◇ (orange) a renewal that was held",
        }
        more = "".join(f" {text}." for mark, text in legend.items() if mark in marks.values())
        dashed = "" if refitted is None else f" Dashed: {refitted} refitted every window."
        return save(
            figure,
            directory / "served",
            "Served against Platt refitted every window",
            "Below 0 the served probabilities were better. The shading shows the serving method."
            f"{dashed}{more}",
        )


def draw_cumulated(
    directory: Path,
    lines: dict[str, list[tuple[Window, float]]],
    *,
    name: str,
    title: str,
    caption: str,
) -> Drawing | None:
    """Draw running sums of NLL differences; each line is labelled at its end."""
    shown = {who: line for who, line in lines.items() if line}
    if not shown:
        return None
    looks: dict[str, dict[str, Any]] = {
        "served": {"color": ACCENT, "linewidth": 2.4, "zorder": 3},
        "base": {"color": MUTED, "linewidth": 1.6},
        "platt": {"color": INK, "linewidth": 1.2, "linestyle": (0, (4, 2))},
        "platt_eb": {"color": INK, "linewidth": 1.2, "linestyle": (0, (1, 2))},
        "slc_mix": {"color": CHAMPION, "linewidth": 1.6},
    }
    with styled(name):
        figure, axis = new_figure(3.0)
        axis.axhline(0, color=INK, linewidth=0.9)
        ends = []
        for who, line in shown.items():
            look = looks.get(who, {"color": CHAMPION, "linewidth": 1.3, "linestyle": (0, (4, 2))})
            axis.plot([window.start for window, _ in line], [value for _, value in line], **look)
            ends.append((line[-1][0].start, line[-1][1], name_of(who), look["color"]))
        label_ends(axis, ends, 0.08, bold="served")
        axis.set_ylabel("NLL, summed over windows")
        axis.grid(axis="x", visible=False)
        _few_dates(axis)
        return save(figure, directory / name, title, caption)


def _mark(each: ReplayedWindow) -> str | None:
    """Return ``stopped``, ``missing`` or ``held``; None for an ordinary window."""
    if each.status in ("stopped", "missing"):
        return each.status
    return "held" if each.renewal == "held" else None


def _bands(axis: Any, points: Sequence[ReplayedWindow]) -> None:
    """Shade each period of one method and label it: grey for the frozen model, stronger for item methods."""
    start = 0
    for end in range(1, len(points) + 1):
        if end < len(points) and points[end].served == points[start].served:
            continue
        method, first = points[start].served, points[start].window.start
        last = points[end].window.start if end < len(points) else points[-1].window.end
        colour = MUTED if method == "base" else SOFT
        alpha = 0.18 if method == "base" else 0.15 if score_only(method) else 0.5
        axis.axvspan(first, last, color=colour, alpha=alpha, linewidth=0)
        if (end - start) >= max(3, len(points) // 12):
            axis.annotate(
                name_of(method),
                (first, 0.03),
                xycoords=("data", "axes fraction"),
                xytext=(4, 0),
                textcoords="offset points",
                fontsize=8.5,
                color=INK,
            )
        start = end


def _dates(axis: Any, points: Sequence[ReplayedWindow]) -> None:
    step = max(1, -(-len(points) // 9))
    ticks = [each.window.start for each in points[::step]]
    axis.set_xticks(ticks, [f"{tick:%-d %b}" for tick in ticks])
    axis.set_xlim(points[0].window.start, points[-1].window.end)


def _few_dates(axis: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(maxticks=5)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))
