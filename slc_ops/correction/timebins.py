"""Time bins: equal-count (quantile) partitions of event time.

The edges are observed moments (the inverse of the empirical distribution function, no interpolation), so a
row of weight 2 counts like the row twice. Bins are closed on the right. Edges that coincide are one edge:
where many rows share a moment there are fewer bins, never an empty one between two equal edges.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.correction.kernels import Floats

_CELLS = 1 << 16
Spans = Callable[[], Iterator[tuple[Floats, "NDArray[Any] | None"]]]


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


def quantile_edges(spans: Spans, bins: int) -> Floats:
    """Edges of equal-count bins over all (time, weight) spans, which are streamed three times.

    No sort of all rows: the range, then a fine histogram, then only the rows of the few histogram cells in
    which an edge lies.

    >>> quantile_edges(lambda: iter([(np.arange(10.0), None)]), 2).tolist()
    [0.0, 4.0, 9.0]
    """
    low, high = _range(spans)
    if low == high:
        return np.array([low, np.nextafter(high, np.inf)])
    mass = np.zeros(_CELLS)
    for time, weight in spans():
        mass += np.bincount(_cell(time, low, high), weight, _CELLS)
    upto = np.cumsum(mass)
    ranks = upto[-1] * np.arange(1, bins) / bins
    cells = np.searchsorted(upto, ranks, side="left")
    inside = _rows_of_cells(spans, low, high, np.unique(cells))
    inner = []
    for cell, rank in zip(cells, ranks, strict=True):
        values, weights = inside[int(cell)]
        reached = np.cumsum(weights) + (upto[cell] - mass[cell])
        inner.append(values[min(np.searchsorted(reached, rank, side="left"), len(values) - 1)])
    return np.unique(np.array([low, *inner, high]))


def _range(spans: Spans) -> tuple[float, float]:
    low, high = np.inf, -np.inf
    for time, weight in spans():
        counted = time if weight is None else time[weight > 0]
        if len(counted):
            low, high = min(low, float(counted.min())), max(high, float(counted.max()))
    return low, high


def _cell(time: Floats, low: float, high: float) -> NDArray[np.intp]:
    share = (time - low) * ((_CELLS - 1) / (high - low))
    return np.clip(share, 0, _CELLS - 1).astype(np.intp)


def _rows_of_cells(
    spans: Spans, low: float, high: float, wanted: NDArray[np.intp]
) -> dict[int, tuple[Floats, Floats]]:
    """Sorted moments and their weights, of the wanted histogram cells."""
    marked = np.zeros(_CELLS, np.bool_)
    marked[wanted] = True
    times, weights = [], []
    for time, weight in spans():
        hit = marked[_cell(time, low, high)]
        times.append(time[hit])
        weights.append(np.ones(int(hit.sum())) if weight is None else weight[hit].astype(np.float64))
    moments, masses = np.concatenate(times), np.concatenate(weights)
    order = np.argsort(moments, kind="stable")
    moments, masses = moments[order], masses[order]
    cells = _cell(moments, low, high)
    return {int(c): (moments[cells == c], masses[cells == c]) for c in wanted}
