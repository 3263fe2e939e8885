"""Timestamps at given ranks of a log: quantiles (the edges of time bins) and order statistics.

The edges are observed timestamps (the inverse of the empirical distribution function, no interpolation), so a
row of weight 2 counts like the row twice. Equal edges are one edge: where many rows share a timestamp there
are fewer bins, never an empty bin between two equal edges.

No row is sorted or collected. The bits of a float, mapped to preserve order, are a 64-bit number. A pass
counts rows by the upper 16 bits of the remaining range around each edge, and three or four passes leave one
number. The result of a pass is small and adds up, so the rows may be local or on a cluster.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.time_bins import Ordered, ordered, unordered
from slc_ops.rows.passes import Pieces, Totals
from slc_ops.rows.rows import Kernel, Rows

_DIGIT = 16  # bits that one pass determines
_CELLS = 1 << _DIGIT


AddUp = Callable[[Kernel[Any]], Any]
"""The sum of a kernel over all rows, local or on a cluster."""


def time_range(add_up: AddUp) -> tuple[float, float]:
    """Return the smallest and the largest timestamp of rows with positive weight."""
    low, high = unordered(np.array(_extent(add_up), np.uint64)).tolist()
    return low, high


def _extent(add_up: AddUp) -> tuple[int, int]:
    """Return the same timestamps as ordered bits."""
    found = add_up(_ends).all
    return min(found), max(found)


def _ends(rows: Rows) -> Pieces[int]:
    """Return the smallest and the largest timestamp of a span, without rows of weight 0."""
    assert rows.time is not None  # noqa: S101 - the pass requires times
    time = rows.time if rows.weight is None else rows.time[rows.weight > 0]
    return Pieces(ordered(np.array([time.min(), time.max()])).tolist() if len(time) else [])


def _masses(bases: Ordered, width: int, shift: int, rows: Rows) -> Totals:
    """Return Σw of the ranges ``[base, base + width)`` by the next 16 bits of a timestamp."""
    assert rows.time is not None  # noqa: S101 - the pass requires times
    bits = ordered(rows.time)
    number = np.searchsorted(bases, bits, side="right") - 1
    # Below the first base the difference wraps around to a number beyond any width.
    inner = bits - bases[number]
    inside = inner < np.uint64(width)
    if rows.weight is not None:
        inside &= rows.weight > 0
    cell = number[inside] * _CELLS + (inner[inside] >> np.uint64(shift)).view(np.intp)
    weight = None if rows.weight is None else rows.weight[inside]
    mass = np.bincount(cell, weight, len(bases) * _CELLS)
    return Totals(mass.astype(np.float64, copy=False))


def quantile_edges(add_up: AddUp, bins: int) -> Floats:
    """Return edges of equal-count bins over all rows of ``add_up``.

    >>> rows = Rows(np.zeros(10, np.int32), np.zeros(10, np.int8), np.zeros(10), time=np.arange(10.0))
    >>> quantile_edges(lambda kernel: kernel(rows), 2).tolist()
    [0.0, 4.0, 9.0]
    """
    first, last = _extent(add_up)
    low, high = unordered(np.array([first, last], np.uint64)).tolist()
    if low == high:
        return np.array([low, np.nextafter(high, np.inf)])
    return np.unique(np.array([low, *_select(add_up, first, last, np.arange(1, bins), bins), high]))


def order_statistics(add_up: AddUp, ranks: NDArray[np.int_], n_rows: int) -> Floats:
    """Return the timestamps at these ranks (from 1) among ``n_rows`` rows without weights."""
    return _select(add_up, *_extent(add_up), ranks, n_rows)


def _select(add_up: AddUp, low: int, high: int, parts: NDArray[np.int_], of: int) -> Floats:
    """Return the timestamps at which the cumulative weight reaches ``parts / of`` of the total."""
    width = high - low + 1
    shift = max(0, (width - 1).bit_length() - _DIGIT)
    bases, before, ranks = [low] * len(parts), np.zeros(len(parts)), np.empty(0)
    while True:
        distinct, rows = np.unique(np.array(bases, np.uint64), return_inverse=True)
        mass = add_up(partial(_masses, distinct, width, shift)).values.reshape(-1, _CELLS)
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
