"""Timestamps at given ranks of a log: quantiles (the edges of time bins) and order statistics.

The edges are observed timestamps (the inverse of the empirical distribution function, no interpolation), so a
row of weight 2 counts like the row twice. Equal edges are one edge: where many rows share a timestamp there
are fewer bins, never an empty bin between two equal edges.

No row is sorted or collected. The bits of a float, mapped to preserve order, are a 64-bit number. A pass
counts rows by the upper 16 bits of the remaining range around each edge, and three or four passes leave one
number. The result of a pass is small and adds up, so the rows may be local or on a cluster.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.additive import Additive
from slc_ops.numerics.kernels import Floats, slices
from slc_ops.numerics.time_bins import Ordered, ordered, unordered
from slc_ops.rows.passes import Partial
from slc_ops.rows.rows import Rows

_DIGIT = 16  # bits that one pass determines
_CELLS = 1 << _DIGIT


@dataclass
class Extent:
    """The smallest and largest timestamp of rows with positive weight, as ordered bits."""

    low: int
    high: int

    @property
    def timestamps(self) -> tuple[float, float]:
        """The smallest and the largest timestamp."""
        low, high = unordered(np.array([self.low, self.high], np.uint64)).tolist()
        return low, high

    def merge(self, other: "Extent") -> None:
        """Add another part."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)


@dataclass
class Counts(Additive):
    """Σw per cell of each searched range; a range without rows may be absent."""

    mass: dict[int, Floats]


@dataclass(frozen=True)
class Digit:
    """One pass: count the timestamps of the ranges ``[base, base + width)`` by their next 16 bits.

    ``first`` marks the cells of the first pass that contain such a range: a row outside of them costs one
    lookup.
    """

    low: int
    first_shift: int
    first: NDArray[np.bool_] | None
    bases: Ordered
    width: int
    shift: int

    def __call__(self, rows: Rows) -> Counts:
        """Count the rows of a span."""
        assert rows.time is not None  # noqa: S101 - the pass requires times
        found: dict[int, list[tuple[Ordered, Any]]] = {}
        for part in slices(len(rows)):
            time, weight = rows.time[part], None if rows.weight is None else rows.weight[part]
            if weight is not None:
                kept = weight > 0
                time, weight = time[kept], weight[kept]
            for number, cell, mass in self._cells(time, weight) if len(time) else ():
                found.setdefault(number, []).append((cell, mass))
        return Counts({number: _counted(pieces) for number, pieces in found.items()})

    def _cells(
        self, time: Floats, weight: NDArray[np.floating] | None
    ) -> Iterator[tuple[int, Ordered, NDArray[np.floating] | None]]:
        """Yield each range's number, the cells of a slice's rows in it, and their weights."""
        least, most = ordered(np.array([time.min(), time.max()])).tolist()
        numbers = [
            k for k, base in enumerate(self.bases.tolist()) if base <= most and least < base + self.width
        ]
        if not numbers:
            return
        bits = ordered(time)
        if self.first is not None:
            cell = bits - np.uint64(self.low)
            cell >>= np.uint64(self.first_shift)
            hit = np.flatnonzero(self.first.take(cell.view(np.intp)))
            bits, weight = bits[hit], None if weight is None else weight[hit]
        for number in numbers:
            # Below the base the difference wraps around to a number beyond any width.
            inner = bits - self.bases[number]
            inside = np.flatnonzero(inner < np.uint64(self.width))
            if len(inside) < len(inner):
                inner = inner[inside]
            inner >>= np.uint64(self.shift)
            yield number, inner, None if weight is None else weight[inside]


def _counted(pieces: list[tuple[Ordered, Any]]) -> Floats:
    cells = np.concatenate([cell for cell, _ in pieces]).view(np.intp)
    weight = None if pieces[0][1] is None else np.concatenate([mass for _, mass in pieces])
    return np.bincount(cells, weight, _CELLS).astype(np.float64, copy=False)


class AddUp(Protocol):
    """The sum of a kernel over all rows, local or on a cluster."""

    def __call__(self, kernel: Callable[[Rows], Partial]) -> Partial: ...


def extent(rows: Rows) -> Extent:
    """Return the range of a span, without rows of weight 0."""
    assert rows.time is not None  # noqa: S101 - the pass requires times
    time = rows.time if rows.weight is None else rows.time[rows.weight > 0]
    if len(time) == 0:
        return Extent((1 << 64) - 1, 0)
    low, high = ordered(np.array([time.min(), time.max()]))
    return Extent(int(low), int(high))


def quantile_edges(add_up: AddUp, bins: int) -> Floats:
    """Return edges of equal-count bins over all rows of ``add_up``.

    >>> rows = Rows(np.zeros(10, np.int32), np.zeros(10, np.int8), np.zeros(10), time=np.arange(10.0))
    >>> quantile_edges(lambda kernel: kernel(rows), 2).tolist()
    [0.0, 4.0, 9.0]
    """
    span = add_up(extent)
    low, high = span.timestamps
    if low == high:
        return np.array([low, np.nextafter(high, np.inf)])
    return np.unique(np.array([low, *_select(add_up, span, np.arange(1, bins), bins), high]))


def order_statistics(add_up: AddUp, ranks: NDArray[np.int_], n_rows: int) -> Floats:
    """Return the timestamps at these ranks (from 1) among ``n_rows`` rows without weights."""
    return _select(add_up, add_up(extent), ranks, n_rows)


def _select(add_up: AddUp, span: Extent, parts: NDArray[np.int_], of: int) -> Floats:
    """Return the timestamps at which the cumulative weight reaches ``parts / of`` of the total."""
    first_shift = shift = max(0, (span.high - span.low).bit_length() - _DIGIT)
    digit = partial(Digit, span.low, first_shift)
    mass = add_up(digit(None, np.array([span.low], np.uint64), span.high - span.low + 1, shift)).mass
    ranks = float(mass[0].sum()) * parts / of
    bases = [span.low] * len(ranks)
    rows, before = np.zeros(len(ranks), np.intp), np.zeros(len(ranks))
    first = np.zeros(_CELLS, np.bool_)
    while True:
        for k, rank in enumerate(ranks):
            row = mass[int(rows[k])]
            line = before[k] + np.cumsum(row)
            cell = min(int(np.searchsorted(line, rank, side="left")), int(np.flatnonzero(row)[-1]))
            before[k] = line[cell] - row[cell]
            if shift == first_shift:
                first[cell] = True
            bases[k] += cell << shift
        if shift == 0:
            return unordered(np.array(bases, np.uint64))
        distinct, rows = np.unique(np.array(bases, np.uint64), return_inverse=True)
        width, shift = 1 << shift, max(0, shift - _DIGIT)
        mass = add_up(digit(first, distinct, width, shift)).mass
