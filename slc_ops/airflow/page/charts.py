"""Lines over the last windows, as SVG: ours against Platt's, with the interval of the difference.

The whisker at a window spans Platt's value plus the interval of the paired difference: where it touches
Platt's line, the week does not tell the two apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from slc_ops.base.text import number
from slc_ops.base.window import Window


@dataclass(frozen=True)
class Point:
    """One window: our figure, Platt's, and the ends of the difference's interval."""

    window: Window
    version: int
    verdict: str
    ours: float | None
    platt: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, version: Any, metric: str) -> "Point":
        """The point of a ledger's version."""
        gain = (version.metrics.get("vs_platt") or {}).get(metric) or {}
        return cls(
            window=version.window,
            version=version.number,
            verdict=version.verdict,
            ours=version.metrics.get(metric),
            platt=version.metrics.get(f"platt_{metric}"),
            low=gain.get("low"),
            high=gain.get("high"),
        )

    @property
    def span(self) -> tuple[float, float] | None:
        """Platt's figure plus the interval of the difference."""
        if self.platt is None or self.low is None or self.high is None:
            return None
        return self.platt + self.low, self.platt + self.high


@dataclass(frozen=True)
class Mark:
    """A point on the canvas."""

    x: float
    y: float | None
    platt: float | None
    low: float | None
    high: float | None
    verdict: str
    title: str


@dataclass(frozen=True)
class Chart:
    """All that a template needs to draw."""

    width: float
    height: float
    marks: list[Mark]
    ours: str
    platt: str
    ticks: list[tuple[float, str]]
    weeks: list[tuple[float, str, str]]
    """Where the first and the last week stand: place, date, how the text is anchored."""
    label: str


def chart(
    points: Sequence[Point], metric: str, *, width: float = 520, height: float = 170, pad: float = 10
) -> Chart | None:
    """Scale points (oldest first) to a canvas; None where there is nothing to draw."""
    values = [v for p in points for v in (p.ours, p.platt, *(p.span or ())) if v is not None]
    if not values:
        return None
    bottom, top = min(values), max(values)
    spread = (top - bottom) or max(abs(top) * 0.01, 1e-3)
    bottom, top = bottom - 0.06 * spread, top + 0.06 * spread
    left, right, foot = (44.0, 8.0, 14.0) if height > 80 else (4.0, 4.0, 0.0)

    def across(k: int) -> float:
        room = width - left - right
        return round(left + (room / 2 if len(points) == 1 else room * k / (len(points) - 1)), 1)

    def up(value: float | None) -> float | None:
        if value is None:
            return None
        return float(round(pad + (height - foot - 2 * pad) * (top - value) / (top - bottom), 1))

    marks = []
    for k, p in enumerate(points):
        low, high = p.span or (None, None)
        title = f"{p.window}: version {p.version}, {p.verdict}; {_both(p, metric)}"
        marks.append(Mark(across(k), up(p.ours), up(p.platt), up(low), up(high), p.verdict, title))
    ends = {0: "middle"} if len(points) == 1 else {0: "start", len(points) - 1: "end"}
    return Chart(
        width=width,
        height=height,
        marks=marks,
        ours=_line((m.x, m.y) for m in marks),
        platt=_line((m.x, m.platt) for m in marks),
        ticks=[(y, text) for v, text in _ticks(bottom, top) if (y := up(v)) is not None],
        weeks=[(across(k), f"{points[k].window.start:%-d %b}", anchor) for k, anchor in ends.items()],
        label=f"{metric} over {len(points)} windows; newest {_both(points[-1], metric)}",
    )


def _ticks(bottom: float, top: float) -> list[tuple[float, str]]:
    """Two to five round values between the ends, with their text.

    >>> [text for _, text in _ticks(0.7622, 0.8255)]
    ['0.78', '0.80', '0.82']
    """
    power = floor(log10((top - bottom) / 2))
    step, digits = next(
        (size * 10.0**at, max(0, -at))
        for at in (power + 1, power, power - 1)
        for size in (5, 2, 1)
        if floor(top / (size * 10.0**at)) - ceil(bottom / (size * 10.0**at)) >= 1
    )
    first, last = ceil(bottom / step), floor(top / step)
    return [(k * step, f"{k * step:.{digits}f}") for k in range(first, last + 1)]


def _line(places: Any) -> str:
    """The points of a polyline; a gap in the figures is bridged, a lone figure is a dash."""
    known = [(x, y) for x, y in places if y is not None]
    if len(known) == 1:
        ((x, y),) = known
        known = [(x - 14, y), (x + 14, y)]
    return " ".join(f"{x},{y}" for x, y in known)


def _both(point: Point, metric: str) -> str:
    return f"{metric} {number(point.ours)}, Platt {number(point.platt)}"
