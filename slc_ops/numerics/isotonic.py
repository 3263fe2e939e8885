"""Isotonic regression of labels on a score: the non-decreasing function with the least squared error.

Pool adjacent violators: adjacent scores whose mean labels do not increase are pooled, until none are left.
The order of pooling does not matter, so each round pools *all* runs of non-increasing means at once, the
first round by the labels alone; after a few rounds few are left, and those are pooled one by one. The result
equals scikit-learn's ``IsotonicRegression(out_of_bounds="clip")``, without its import time of a second:
linear between its knots, constant beyond them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.numerics.curves import Isotonic
from slc_ops.numerics.kernels import Floats, sigmoid
from slc_ops.numerics.ranking import ranked
from slc_ops.numerics.score_grid import GridCounts

RESOLUTION = float(np.finfo(np.float64).resolution)


def isotonic_map(score: Floats, label: NDArray[Any], weight: NDArray[Any] | None = None) -> Isotonic:
    """Fit a score in [0, 1] against 0/1 labels.

    >>> curve = isotonic_map(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 0, 1]))
    >>> curve.x.tolist(), curve.y.tolist()
    ([0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 1.0])
    """
    if weight is None:
        _, score, positive = ranked(label, score)
        weight = np.ones(len(score))
    else:
        kept = np.flatnonzero(weight > 0)
        order = kept[np.argsort(score[kept], kind="stable")]
        score, positive, weight = score[order], label[order] != 0, weight[order].astype(np.float64)
    # Scores within float64's resolution are equal, as in scikit-learn.
    new = np.append(True, np.diff(score) >= RESOLUTION)
    begin = np.flatnonzero(_unpooled(new, positive))
    mass, ones = np.add.reduceat(weight, begin), np.add.reduceat(weight * positive, begin)
    distinct = np.flatnonzero(new)
    last = distinct[np.searchsorted(distinct, np.append(begin[1:], len(new))) - 1]
    return _steps(score[begin], score[last], mass, ones)


def isotonic_of_counts(counts: GridCounts) -> Isotonic:
    """Fit counts on a grid of logits; :mod:`slc_ops.numerics.score_grid` has the error bound."""
    assert counts.score is not None  # noqa: S101 - counted with it
    mass, ones = counts.positive + counts.negative, counts.positive
    seen = np.flatnonzero(mass)
    mass, ones, score = mass[seen], ones[seen], sigmoid(counts.score[seen] / mass[seen])
    return _steps(score, score, mass, ones)


def _steps(first: Floats, last: Floats, mass: Floats, ones: Floats) -> Isotonic:
    """Fit runs of scores with their first and last score: a pool of several scores has two knots."""
    starts, level = pooled_levels(mass, ones)
    ends = np.append(starts[1:], len(mass)) - 1
    x, y = np.column_stack([first[starts], last[ends]]).ravel(), np.repeat(level, 2)
    # The knots of a pool of one score coincide; so do cells of scores very close to 0 or 1.
    knots = np.append(True, np.diff(x) >= RESOLUTION)
    return Isotonic(x[knots], y[knots])


def pooled_levels(mass: Floats, ones: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the start of each pool and its mean label; the means increase.

    >>> starts, level = pooled_levels(np.ones(5), np.array([0.0, 1.0, 1.0, 0.0, 1.0]))
    >>> starts.tolist(), level.round(3).tolist()
    ([0, 1, 4], [0.0, 0.667, 1.0])
    """
    starts = np.arange(len(mass))
    while True:
        level = ones / mass
        rising = np.append(True, level[1:] > level[:-1])
        kept = np.flatnonzero(rising)
        if len(kept) == len(level):
            return starts, level
        if len(kept) > 0.9 * len(level):
            return _one_by_one(starts, mass, ones)
        starts, mass, ones = starts[kept], np.add.reduceat(mass, kept), np.add.reduceat(ones, kept)


def _one_by_one(starts: NDArray[np.intp], mass: Floats, ones: Floats) -> tuple[NDArray[np.intp], Floats]:
    pools: list[tuple[int, float, float]] = []
    for start, weight, positive in zip(starts.tolist(), mass.tolist(), ones.tolist(), strict=True):
        pool = (start, weight, positive)
        while pools and pools[-1][2] * pool[1] >= pool[2] * pools[-1][1]:
            before = pools.pop()
            pool = (before[0], before[1] + pool[1], before[2] + pool[2])
        pools.append(pool)
    first, weights, positives = zip(*pools, strict=True)
    return np.array(first), np.array(positives) / np.array(weights)


def _unpooled(new: NDArray[np.bool_], positive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark possible starts of pools: adjacent single-row scores with non-increasing labels are one pool."""
    single = (positive[1:] <= positive[:-1]) & new[:-1] & np.append(new[2:], True)
    return np.asarray(new & ~np.append(False, single))
