"""Timestamps at given ranks of a log: quantiles (the edges of time bins) and order statistics.

The edges are observed timestamps (the inverse of the empirical distribution function, no interpolation), so a
row of weight 2 counts like the row twice. Equal edges are one edge: where many rows share a timestamp there
are fewer bins, never an empty bin between two equal edges.

No row is sorted or collected. The bits of a float, mapped to preserve order, are a 64-bit number. A pass
counts rows by the upper 16 bits of the remaining range around each edge, and three or four passes leave one
number. The result of a pass is small and adds up, so the rows may be local or on a cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.time_bins import Ordered, ordered, unordered
from slc_ops.rows.passes import Partial, Totals
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


@dataclass(frozen=True)
class Digit:
    """One pass: sum the weights of the ranges ``[base, base + width)`` by the next 16 bits of a timestamp."""

    bases: Ordered
    width: int
    shift: int

    def __call__(self, rows: Rows) -> Totals:
        """Return Σw per range and cell."""
        assert rows.time is not None  # noqa: S101 - the pass requires times
        bits = ordered(rows.time)
        number = np.searchsorted(self.bases, bits, side="right") - 1
        # Below the first base the difference wraps around to a number beyond any width.
        inner = bits - self.bases[number]
        inside = inner < np.uint64(self.width)
        if rows.weight is not None:
            inside &= rows.weight > 0
        cell = number[inside] * _CELLS + (inner[inside] >> np.uint64(self.shift)).view(np.intp)
        weight = None if rows.weight is None else rows.weight[inside]
        mass = np.bincount(cell, weight, len(self.bases) * _CELLS)
        return Totals(mass.astype(np.float64, copy=False))


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
    width = span.high - span.low + 1
    shift = max(0, (width - 1).bit_length() - _DIGIT)
    bases, before, ranks = [span.low] * len(parts), np.zeros(len(parts)), np.empty(0)
    while True:
        distinct, rows = np.unique(np.array(bases, np.uint64), return_inverse=True)
        mass = add_up(Digit(distinct, width, shift)).values.reshape(-1, _CELLS)
        if not len(ranks):
            ranks = float(mass[0].sum()) * parts / of
        for k, rank in enumerate(ranks):
            row = mass[rows[k]]
            line = before[k] + np.cumsum(row)
            cell = min(int(np.searchsorted(line, rank, side="left")), int(np.flatnonzero(row)[-1]))
            before[k] = line[cell] - row[cell]
            bases[k] += cell << shift
        if shift == 0:
            return unordered(np.array(bases, np.uint64))
        width, shift = 1 << shift, max(0, shift - _DIGIT)
