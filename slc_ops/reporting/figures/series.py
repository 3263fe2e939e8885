"""The served model over time, against Platt refitted every window, and the frozen model beside it."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from slc_ops.base.methods import FALLBACK, FROZEN, PLATT, REFERENCES
from slc_ops.base.text import share
from slc_ops.base.window import Window
from slc_ops.evidence.results import Backtest, Served
from slc_ops.evidence.series import Statistic
from slc_ops.evidence.verdict import Verdict, name_of, statistic_of
from slc_ops.reporting.style import (
    ACCENT,
    CHAMPION,
    INK,
    MUTED,
    SOFT,
    WIDE,
    Drawing,
    new_figure,
    save,
    styled,
)

Points = list[tuple[Window, float]]


def draw(
    directory: Path, backtest: Backtest, verdict: Verdict, served: Sequence[Served] = ()
) -> Drawing | None:
    """Draw NLL minus Platt's by window: left the method in question and the served one, right the frozen one.

    Each panel has its own axis, because the frozen model is often ten times as far from Platt.
    """
    shown = _in_question(backtest, verdict)
    ours, frozen = _differences(backtest, shown), _differences(backtest, FROZEN)
    got = [(each.window, each.platt["nll"].estimate) for each in served if "nll" in each.platt]
    known = [(window, value) for window, value in got if value is not None]
    if not frozen:
        return None
    ruling = verdict.as_dict()
    ahead = None if shown is None else statistic_of(ruling, shown, PLATT)
    behind = _turned(statistic_of(ruling, PLATT, FROZEN))
    panels = [(ours, known, ahead, shown or "served"), (frozen, [], behind, FROZEN)]
    with styled("series"):
        figure, axes = new_figure(3.0, 2, width=WIDE)
        for axis, (line, points, found, who) in zip(axes, panels, strict=True):
            _panel(axis, line, points, found, ACCENT if who != FROZEN else MUTED)
            axis.set_title(f"{name_of(who)} minus Platt, NLL  (↓ better)")
            _dates(axis, [window for window, _ in [*line, *points]], found)
        level = share(verdict.rules.get("confidence", 0.95))
        diamonds = " Diamonds: the served model on the window." if known else ""
        return save(
            figure,
            directory / "series",
            "Against Platt, window by window",
            "Dots: the method minus Platt, both fitted on the previous windows; below 0 is better. "
            f"Shaded: the mean with its {level} interval. Bar at the right: expected range of the next "
            f"window.{diamonds} Each panel has its own scale.",
        )


def _in_question(backtest: Backtest, verdict: Verdict) -> str | None:
    """Return the method that is to serve or serves; if that is none or ``platt_eb``, the last other one."""
    decision = verdict.decision
    candidates = [decision.get("method"), decision.get("current"), *reversed(backtest.methods)]
    return next((m for m in candidates if m in backtest.methods and m not in (*REFERENCES, FALLBACK)), None)


def _differences(backtest: Backtest, method: str | None) -> Points:
    pairs = [(each.window, each.difference(method or "", PLATT)) for each in backtest.entries]
    return [(window, pair.d) for window, pair in pairs if pair is not None]


def _turned(found: Statistic | None) -> Statistic | None:
    """Return the same comparison with both sides swapped."""
    if found is None:
        return None
    ahead = (None, None) if found.next_low is None else (-(found.next_high or 0.0), -found.next_low)
    swapped = {"method": found.reference, "reference": found.method, "mean": -found.mean}
    ends = {"low": -found.high, "high": -found.low, "next_low": ahead[0], "next_high": ahead[1]}
    return Statistic(**{**found.as_dict(), **swapped, **ends})


def _panel(axis: Any, line: Points, served: Points, found: Statistic | None, colour: str) -> None:
    axis.axhline(0, color=INK, linewidth=0.9)
    if found is not None and line:
        used = line[-found.windows :]
        first, last = _middle(used[0][0]), _middle(used[-1][0])
        if len(used) == 1:
            first, last = used[0][0].start, used[0][0].end
        axis.fill_between([first, last], found.low, found.high, color=SOFT, alpha=0.45, linewidth=0)
        axis.plot([first, last], [found.mean, found.mean], color=colour, linewidth=1.2)
        if found.next_low is not None:
            after = _middle(_next(line[-1][0]))
            axis.plot(
                [after, after], [found.next_low, found.next_high], color=colour, linewidth=2.6, alpha=0.6
            )
    axis.plot(
        [_middle(window) for window, _ in line],
        [value for _, value in line],
        color=colour,
        linewidth=0.9,
        marker="o",
        markersize=4.5,
    )
    if served:
        axis.plot(
            [_middle(window) for window, _ in served],
            [value for _, value in served],
            color=CHAMPION,
            linestyle="none",
            marker="D",
            markersize=6.5,
            fillstyle="none",
            markeredgewidth=1.5,
        )


def _middle(window: Window) -> datetime:
    return window.start + (window.end - window.start) / 2


def _next(window: Window) -> Window:
    return Window(window.end, window.end + (window.end - window.start), window.zone)


def _dates(axis: Any, windows: list[Window], found: Statistic | None) -> None:
    if not windows:
        return
    ordered = sorted({window.start: window for window in windows}.values(), key=lambda each: each.start)
    step = max(1, -(-len(ordered) // 4))
    shown = ordered[::-1][::step]
    axis.set_xticks([_middle(each) for each in shown], [f"{each.dates[0]:%-d %b}" for each in shown])
    ends = _next(ordered[-1]).end if found is not None and found.next_low is not None else ordered[-1].end
    axis.set_xlim(ordered[0].start, ends)
    axis.grid(axis="x", visible=False)
