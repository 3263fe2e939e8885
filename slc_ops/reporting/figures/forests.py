"""Forest plots of estimates with intervals, for report, replay, notebook and paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slc_ops.base.methods import score_only
from slc_ops.base.text import number, share
from slc_ops.evidence.metrics import paired_metrics
from slc_ops.evidence.replayed import Replay
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.uncertainty import Interval
from slc_ops.evidence.verdict import Verdict
from slc_ops.reporting.figures.served import name_of
from slc_ops.reporting.style import (
    ACCENT,
    CHAMPION,
    INK,
    MUTED,
    WIDE,
    Drawing,
    new_figure,
    save,
    styled,
    tone,
)

NAMES = {"base": "the backbone", "platt": "Platt scaling", "champion": "the champion"}


@dataclass(frozen=True)
class Row:
    """One estimate; ``beyond`` is a wider range, drawn as a thin line."""

    name: str
    found: Interval | None
    colour: str = MUTED
    beyond: tuple[float, float] | None = None


def forest(axis: Any, rows: Sequence[Row], title: str, view: tuple[float, float] | None = None) -> None:
    """Draw the rows from the top, with a line at 0, or in a ``view`` with arrows for values beyond it."""
    if view is None:
        axis.axvline(0, color=INK, linewidth=0.9)
        axis.margins(x=0.12)
    else:
        axis.set_xlim(*view)
    for place, row in enumerate(rows):
        found, at = row.found, {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8.5}
        if found is None or found.estimate is None:
            axis.annotate("no rows" if found is None else "undefined", (0.5, place), color=MUTED, **at)
        elif view is not None and found.estimate > view[1]:
            text = f"{number(found.estimate, 3)} →"
            axis.annotate(text, (0.98, place), ha="right", color=row.colour, **at)
        else:
            if row.beyond is not None:
                axis.plot(row.beyond, [place, place], color=MUTED, linewidth=1.0)
            if found.low is not None:
                axis.plot([found.low, found.high], [place, place], color=row.colour, linewidth=2.8)
            style = "none" if found.low is None else "full"
            axis.plot(found.estimate, place, "o", color=row.colour, markersize=6, fillstyle=style)
    axis.set_yticks(range(len(rows)), [row.name for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
    axis.locator_params(axis="x", nbins=3)  # keep labels of narrow panels apart
    axis.set_title(title)


def draw_rivals(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Draw the candidate's differences to its rivals on the newest window; an arrow marks the better side."""
    if verdict.method is None or verdict.method not in backtest.differences:
        return None
    differences = backtest.differences[verdict.method]
    found = {name: differences[name] for name in NAMES if name in differences and name != verdict.method}
    with styled("rivals"):
        figure, axes = new_figure(0.75 + 0.42 * len(found), len(paired_metrics()), sharey=True)
        for axis, metric in zip(axes, paired_metrics(), strict=True):
            pairs = {name: each[metric.name] for name, each in found.items()}
            rows = [Row(f"against {NAMES[k]}", each, tone(each, metric.better)) for k, each in pairs.items()]
            forest(axis, rows, f"Δ {metric.arrow}")
        level = next(iter(found.values())).confidence if found else 0.95
        return save(
            figure,
            directory / "rivals",
            f"{verdict.method} against its rivals",
            f"Paired differences on the rows of the newest window, {share(level)} intervals from "
            "resampled users.",
        )


def draw_methods(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Draw the metrics of every method on the newest window, in their fixed order."""
    names = [name for name in (*backtest.methods, "champion") if name in backtest.intervals]
    if not names:
        return None
    looks = {verdict.method: ACCENT, "champion": CHAMPION, "platt": INK}
    with styled("methods"):
        figure, axes = new_figure(0.8 + 0.27 * len(names), len(paired_metrics()), sharey=True)
        for axis, metric in zip(axes, paired_metrics(), strict=True):
            found = {name: backtest.intervals[name][metric.name] for name in names}
            rows = [Row(name, each, looks.get(name, MUTED)) for name, each in found.items()]
            forest(axis, rows, metric.arrow, _view(list(found.values())))
        for name, tick in zip(names, axes[0].get_yticklabels(), strict=True):
            tick.set_color(looks.get(name, MUTED))
            tick.set_fontweight("bold" if name == verdict.method else "normal")
        return save(
            figure,
            directory / "methods",
            "Every method on the newest window, with intervals",
            "Dots are estimates, lines user-clustered intervals. An arrow points to a value outside the "
            "view.",
        )


def _view(found: Sequence[Interval]) -> tuple[float, float]:
    """Return a range that shows the contenders; a method far behind must not compress them."""
    known = sorted(each.estimate for each in found if each.estimate is not None)
    if not known:
        return 0.0, 1.0
    ends = [end for each in found for end in (each.low, each.high) if end is not None] or known
    middle = known[len(known) // 2]
    reach = 3 * max(middle - known[0], known[min(len(known) - 1, 2 * len(known) // 3)] - middle, 0.005)
    low, high = max(min(ends), middle - reach), min(max(ends), middle + reach)
    pad = 0.08 * (high - low)
    return low - pad, high + pad


def draw_density(directory: Path, backtest: Backtest, verdict: Verdict) -> Drawing | None:
    """Draw the differences from Platt by terciles of the items' calibration counts, and on cold start."""
    method = verdict.method
    if method is None or score_only(method) or method not in backtest.slice_differences:
        return None
    parts = [part for part in backtest.newest[method].slices if part["kind"] in ("density", "cold_start")]
    gains = backtest.slice_differences[method]
    with styled("density"):
        figure, axes = new_figure(0.75 + 0.42 * len(parts), len(paired_metrics()), sharey=True)
        for axis, metric in zip(axes, paired_metrics(), strict=True):
            rows = []
            for part in parts:
                found = gains.get(f"{part['kind']}:{part['name']}")
                value = None if found is None else found[metric.name]
                colour = MUTED if value is None else tone(value, metric.better)
                rows.append(Row(part["label"].replace(" (", "\n("), value, colour))
            forest(axis, rows, f"Δ {metric.title} vs Platt")
        return save(
            figure,
            directory / "density",
            "Differences from Platt by observations per item",
            "Test rows of the newest window by how often their item occurs in the calibration windows, with "
            "user-clustered intervals. Cold-start items have no offset.",
        )


def draw_contenders(directory: Path, replay: Replay) -> Drawing | None:
    """Draw each contender against Platt refitted every window: the mean and the next window's range."""
    found = replay.against("platt")
    if not found:
        return None
    rows = []
    for name, each in found.items():
        seen = each.statistic
        mean = Interval(each.mean, seen.low, seen.high)
        known = seen.next_low is not None and seen.next_high is not None
        beyond = (seen.next_low or 0.0, seen.next_high or 0.0) if known else None
        rows.append(Row(name_of(name), mean, tone(mean, -1), beyond))
    with styled("contenders"):
        figure, axis = new_figure(0.9 + 0.36 * len(rows), width=WIDE)
        forest(axis, rows, "Δ NLL vs Platt refitted every window  (← better)")
        axis.get_yticklabels()[0].set_fontweight("bold")
        return save(
            figure,
            directory / "contenders",
            "All contenders against Platt",
            f"Dots are means over the windows, thick lines their {share(replay.confidence)} intervals, whose "
            "unit is the window. Thin lines are the expected range of one further window.",
        )
