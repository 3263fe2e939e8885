"""Lines over the last windows, as SVG: what was served, Platt refitted, and the frozen model beside them.

The whisker at a window spans Platt's value plus the interval of the paired difference: where it touches
Platt's line, the window does not tell the two apart.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from slc_ops.base.text import number
from slc_ops.base.window import Window


@dataclass(frozen=True)
class Point:
    """One window: the figure of what was served, Platt's, and the ends of the difference's interval."""

    window: Window
    version: int
    verdict: str
    ours: float | None
    platt: float | None
    low: float | None
    high: float | None
    backtest: bool = False
    """Not served: the version's method fitted before the window, by the backtest of ``version``."""
    frozen: float | None = None
    who: str = ""
    """What served, in words."""

    @classmethod
    def of(cls, version: Any, metric: str) -> "Point":
        """The point of a ledger's version: what was served on its window, where the ledger knows it."""
        served = version.metrics.get("served")
        source = version.metrics if served is None else served
        gain = (source.get("vs_platt") or {}).get(metric) or {}
        ours = source.get(metric)
        above = ((source.get("vs_base") or {}).get(metric) or {}).get("estimate")
        return cls(
            window=version.window,
            version=version.number,
            verdict=version.verdict,
            ours=ours,
            platt=version.metrics.get(f"platt_{metric}"),
            low=gain.get("low"),
            high=gain.get("high"),
            backtest=served is None,
            frozen=None if ours is None or above is None else ours - above,
            who="" if served is None else _who(served),
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
    """Its kind is the verdict, or ``backtest``."""


@dataclass(frozen=True)
class Chart:
    """All that a template needs to draw."""

    width: float
    height: float
    marks: list[Mark]
    ours: list[str]
    """The points of each piece of our line; it ends at a missing window or figure, and with the backtest."""
    platt: list[str]
    frozen: list[str]
    ticks: list[tuple[float, str]]
    edges: list[tuple[float, str, str]]
    """Where the first and the last window stand: place, date, how the text is anchored."""
    label: str


def chart(
    points: Sequence[Point], metric: str, *, width: float = 520, height: float = 170, pad: float = 10
) -> Chart | None:
    """Scale points (oldest first) to a canvas; None where there is nothing to draw."""
    large = height > 80
    frozen = [p.frozen if large else None for p in points]
    values = [v for p in points for v in (p.ours, p.platt, *(p.span or ())) if v is not None]
    values += [v for v in frozen if v is not None]
    if not values:
        return None
    bottom, top = min(values), max(values)
    spread = (top - bottom) or max(abs(top) * 0.01, 1e-3)
    bottom, top = bottom - 0.06 * spread, top + 0.06 * spread
    left, right, foot = (44.0, 8.0, 14.0) if large else (4.0, 4.0, 0.0)

    first, last = points[0].window.start, points[-1].window.start

    def across(k: int) -> float:
        room = width - left - right
        share = 0.5 if first == last else (points[k].window.start - first) / (last - first)
        return round(left + room * share, 1)

    def up(value: float | None) -> float | None:
        if value is None:
            return None
        return float(round(pad + (height - foot - 2 * pad) * (top - value) / (top - bottom), 1))

    marks = []
    for k, p in enumerate(points):
        low, high = p.span or (None, None)
        who = (
            f"backtest of version {p.version}" if p.backtest else p.who or f"version {p.version}, {p.verdict}"
        )
        title = f"{p.window}: {who}; {_both(p, metric)}"
        kind = "backtest" if p.backtest else p.verdict
        marks.append(Mark(across(k), up(p.ours), up(p.platt), up(low), up(high), kind, title))
    breaks = {k for k in range(1, len(points)) if points[k].window.start > points[k - 1].window.end}
    # What a backtest scored and what was served are two stories: no line leads from one to the other.
    other = {k for k in range(1, len(points)) if points[k].backtest != points[k - 1].backtest}
    ends = {0: "middle"} if len(points) == 1 else {0: "start", len(points) - 1: "end"}
    return Chart(
        width=width,
        height=height,
        marks=marks,
        ours=_pieces([(m.x, m.y) for m in marks], breaks | other),
        platt=_pieces([(m.x, m.platt) for m in marks], breaks),
        frozen=_pieces([(m.x, up(value)) for m, value in zip(marks, frozen, strict=True)], breaks),
        ticks=[(y, text) for v, text in _ticks(bottom, top) if (y := up(v)) is not None],
        edges=[(across(k), f"{points[k].window.dates[0]:%-d %b}", anchor) for k, anchor in ends.items()],
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


def _pieces(places: Sequence[tuple[float, float | None]], breaks: Collection[int]) -> list[str]:
    """The points of polylines: a missing figure or window (a break) ends one; a lone point is a dash.

    >>> _pieces([(0, 1.0), (10, 2.0), (20, None), (30, 1.0)], breaks=())
    ['0,1.0 10,2.0', '24,1.0 36,1.0']
    """
    pieces: list[list[tuple[float, float]]] = [[]]
    for k, (x, y) in enumerate(places):
        if (y is None or k in breaks) and pieces[-1]:
            pieces.append([])
        if y is not None:
            pieces[-1].append((x, y))
    reach = 14 if len(places) == 1 else 6
    drawn = [
        [(piece[0][0] - reach, piece[0][1]), (piece[0][0] + reach, piece[0][1])] if len(piece) == 1 else piece
        for piece in pieces
        if piece
    ]
    return [" ".join(f"{x},{y}" for x, y in piece) for piece in drawn]


def _both(point: Point, metric: str) -> str:
    frozen = "" if point.frozen is None else f", frozen {number(point.frozen)}"
    return f"{metric} {number(point.ours)}, Platt {number(point.platt)}{frozen}"


def _who(served: Mapping[str, Any]) -> str:
    version = served.get("version")
    if version is None:
        return "the frozen model served"
    return f"{served['method']} served (version {version})"
