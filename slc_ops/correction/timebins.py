"""Time bins: equal-count (quantile) partitions of event time.

The edges are observed moments (the inverse of the empirical distribution function, no interpolation), so a
row of weight 2 counts like the row twice. Bins are closed on the right. Edges that coincide are one edge:
where many rows share a moment there are fewer bins, never an empty one between two equal edges.

No row is sorted or collected. The bits of a float, turned so that they order like the float, are a 64-bit
number; a pass counts rows by the upper 16 bits of the range that is left around each edge, and three or four
passes leave one number. What a pass gives is small and adds up, so it does not matter where the rows lie.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slc_ops.correction.kernels import Floats
from slc_ops.logs.passes import Partial
from slc_ops.logs.rows import Rows

_DIGIT = 16  # bits that one pass settles
_CELLS = 1 << _DIGIT
_SIGN = np.uint64(1 << 63)
_ALL = np.uint64((1 << 64) - 1)

Ordered = NDArray[np.uint64]


def time_bin(time: Floats, edges: Floats) -> NDArray[np.integer]:
    """The bin ``(edge, next edge]`` of each moment; earlier ones are in the first, later ones in the last.

    >>> time_bin(np.array([-1.0, 0.0, 1.0, 1.5, 5.0]), np.array([0.0, 1.0, 2.0])).tolist()
    [0, 0, 0, 1, 1]
    """
    inner = edges[1:-1]
    if len(inner) > 32:
        return np.searchsorted(inner, time, side="left")
    # For a few bins, counting the edges that were passed beats a binary search per row.
    bins = np.zeros(len(time), np.int8)
    passed = np.empty(len(time), np.bool_)
    for edge in inner:
        bins += np.greater(time, edge, out=passed).view(np.int8)
    return bins


@dataclass
class Extent:
    """The least and the greatest moment that counts, as ordered bits."""

    low: int
    high: int

    def add(self, other: "Extent") -> None:
        """Take up further rows."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)


@dataclass
class Counts:
    """Σw per cell, one row for each range that is looked into."""

    mass: Floats

    def add(self, other: "Counts") -> None:
        """Take up further rows."""
        self.mass += other.mass


@dataclass(frozen=True)
class Digit:
    """One pass: count the moments of the ranges ``[base, base + width)`` by their next 16 bits.

    ``first`` says which range each cell of the first pass leads to (−1: none), so that a row that lies in
    none of them costs one look-up.
    """

    low: int
    first_shift: int
    first: NDArray[np.int32] | None
    bases: Ordered
    width: int
    shift: int

    def __call__(self, rows: Rows) -> Counts:
        """Count a span."""
        assert rows.time is not None  # noqa: S101 - the pass asked for times
        moment, weight = ordered(rows.time), rows.weight
        if weight is not None:
            kept = weight > 0
            moment, weight = moment[kept], weight[kept]
        if self.first is None:
            cell = ((moment - np.uint64(self.low)) >> np.uint64(self.first_shift)).astype(np.intp)
            return Counts(np.bincount(cell, weight, _CELLS).astype(np.float64, copy=False)[None])
        lead = self.first[((moment - np.uint64(self.low)) >> np.uint64(self.first_shift)).astype(np.intp)]
        hit = np.flatnonzero(lead >= 0)
        moment, weight = moment[hit], None if weight is None else weight[hit]
        # Several edges may lie in one cell of the first pass: each row belongs to the last base below it.
        place = np.searchsorted(self.bases, moment, side="right") - 1
        inside = np.flatnonzero((place >= 0) & (moment - self.bases[place] < np.uint64(self.width)))
        moment, place = moment[inside], place[inside]
        cell = place * _CELLS + ((moment - self.bases[place]) >> np.uint64(self.shift)).astype(np.intp)
        mass = np.bincount(cell, None if weight is None else weight[inside], len(self.bases) * _CELLS)
        return Counts(mass.astype(np.float64, copy=False).reshape(-1, _CELLS))


class AddUp(Protocol):
    """The sum of a kernel over all rows, wherever they lie."""

    def __call__(self, kernel: Callable[[Rows], Partial]) -> Partial: ...


def extent(rows: Rows) -> Extent:
    """The range of a span; rows of weight 0 do not exist."""
    assert rows.time is not None  # noqa: S101 - the pass asked for times
    moment = ordered(rows.time if rows.weight is None else rows.time[rows.weight > 0])
    return Extent(int(moment.min()), int(moment.max())) if len(moment) else Extent(int(_ALL), 0)


@dataclass(frozen=True)
class Reached:
    """The moment at which the rows, in order of time, reach a weight; and the weight before and at it."""

    moment: float
    before: float
    at: float


def quantile_edges(add_up: AddUp, bins: int) -> Floats:
    """Edges of equal-count bins over all rows that ``add_up`` sums over.

    >>> rows = Rows(np.zeros(10, np.int32), np.zeros(10, np.int8), np.zeros(10), time=np.arange(10.0))
    >>> quantile_edges(lambda kernel: kernel(rows), 2).tolist()
    [0.0, 4.0, 9.0]
    """
    span = add_up(extent)
    low, high = moment_of(span.low), moment_of(span.high)
    if low == high:
        return np.array([low, np.nextafter(high, np.inf)])
    inner = [edge.moment for edge in _select(add_up, span, np.arange(1, bins), bins)]
    return np.unique(np.array([low, *inner, high]))


def moment_reached(add_up: AddUp, part: int, of: int) -> Reached:
    """Where the rows in order of time reach so many of that many equal parts of their weight."""
    return _select(add_up, add_up(extent), np.array([part]), of)[0]


def span_of_time(add_up: AddUp) -> Extent:
    """The range of all rows that count."""
    return add_up(extent)


def order_statistics(add_up: AddUp, ranks: NDArray[np.int_], n_rows: int) -> Floats:
    """The moments at these places (from 1) in the order of time, of so many rows without weights."""
    return np.array([each.moment for each in _select(add_up, add_up(extent), ranks, n_rows)])


def _select(add_up: AddUp, span: Extent, parts: NDArray[np.int_], of: int) -> list[Reached]:
    first_shift = shift = max(0, (span.high - span.low).bit_length() - _DIGIT)
    digit = partial(Digit, span.low, first_shift)
    mass = add_up(digit(None, np.array([span.low], np.uint64), 0, shift)).mass
    ranks = float(mass.sum()) * parts / of
    bases = [span.low] * len(ranks)
    rows, before, at = np.zeros(len(ranks), np.intp), np.zeros(len(ranks)), np.zeros(len(ranks))
    first = np.full(_CELLS, -1, np.int32)
    while True:
        upto = np.cumsum(mass, axis=1)
        for k, rank in enumerate(ranks):
            row, line = mass[rows[k]], before[k] + upto[rows[k]]
            cell = min(int(np.searchsorted(line, rank, side="left")), int(np.flatnonzero(row)[-1]))
            before[k], at[k] = line[cell] - row[cell], row[cell]
            if shift == first_shift:
                first[cell] = 0
            bases[k] += cell << shift
        if shift == 0:
            where = zip(map(moment_of, bases), before.tolist(), at.tolist(), strict=True)
            return [Reached(moment, below, here) for moment, below, here in where]
        distinct, rows = np.unique(np.array(bases, np.uint64), return_inverse=True)
        width, shift = 1 << shift, max(0, shift - _DIGIT)
        mass = add_up(digit(first, distinct, width, shift)).mass


def ordered(time: Floats) -> Ordered:
    """The bits of each moment, turned so that they order like the moments.

    >>> ordered(np.array([-np.inf, -1.0, -0.0, 0.0, 2.0])).argsort().tolist()
    [0, 1, 2, 3, 4]
    """
    bits: Ordered = (np.asarray(time, dtype=np.float64) + 0.0).view(np.uint64)
    return bits ^ np.where(bits & _SIGN, _ALL, _SIGN)


def moment_of(bits: int) -> float:
    """The moment of its ordered bits."""
    turned = np.uint64(bits) ^ (_SIGN if np.uint64(bits) & _SIGN else _ALL)
    return float(np.array([turned], np.uint64).view(np.float64)[0])
