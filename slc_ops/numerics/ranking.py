"""Rows in the order of their scores, labels carried along: what isotonic maps and the AUC begin with.

The bits of a non-negative float, read as an unsigned integer, keep its order, so ``bits << 1 | label`` is one
integer per row that carries score *and* label; a negative float works too once its bits are flipped, and
always lies before the others. Sorting those integers is several times faster than sorting indices, and needs
no memory beside them. Weights do not fit in, so weighted rows are sorted by their indices.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

BLOCK = 1 << 17  # rows whose temporaries stay in the processor's cache
_SORT_ALONE = 1 << 21  # below this a second thread costs more than it sorts
_ONE = np.uint64(1)


@dataclass(frozen=True)
class Ranked:
    """Rows in ascending order of their scores; without weights, the negatives of one score come first."""

    score: np.ndarray
    positive: np.ndarray
    weight: np.ndarray | None = None


def ranked(
    label: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None, *, overwrite: bool = False
) -> Ranked:
    """The rows in order; with ``overwrite`` they may be put in order where they are.

    >>> rows = ranked(np.array([1, 1, 0]), np.array([0.5, -2.0, 0.5]))
    >>> rows.score.tolist(), rows.positive.tolist()
    ([-2.0, 0.5, 0.5], [True, False, True])
    """
    if weight is not None:
        order = np.argsort(score, kind="stable")
        return Ranked(score[order], label[order] != 0, np.asarray(weight, dtype=np.float64)[order])
    keys, below = _packed(label, score, overwrite)
    _sort(keys[:below])
    _sort(keys[below:])
    positive = np.empty(keys.size, np.bool_)
    for start in range(0, keys.size, BLOCK):
        block = keys[start : start + BLOCK]
        np.not_equal(block & _ONE, 0, out=positive[start : start + BLOCK])
        block >>= _ONE
    keys[:below] ^= np.uint64((1 << 64) - 1)  # the bits of a negative float, sign included
    return Ranked(keys.view(np.float64), positive)


def order_of(label: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The indices of rows of scores from 0 on in the order of :func:`ranked`, without weights.

    >>> order_of(np.array([1, 0, 0]), np.array([0.5, 0.5, 0.25])).tolist()
    [2, 1, 0]
    """
    keys, below = _packed(label, score)
    if below:
        raise ValueError(f"{below} scores are below 0; expected none")
    return np.argsort(keys)


def _packed(label: np.ndarray, score: np.ndarray, overwrite: bool = False) -> tuple[np.ndarray, int]:
    """``bits << 1 | label`` of the scores below zero, then of the others; and how many are below zero."""
    starts = range(0, score.size, BLOCK)
    below = [int(np.count_nonzero(score[start : start + BLOCK] < 0)) for start in starts]
    # A block is read before it is written; blocks are written elsewhere only where scores lie below zero.
    keys = score.view(np.uint64) if overwrite and not any(below) else np.empty(score.size, np.uint64)
    low, high = 0, sum(below)
    for start, count in zip(starts, below, strict=True):
        block = score[start : start + BLOCK] + 0.0  # -0.0 becomes 0.0
        packed = np.left_shift(block.view(np.uint64), _ONE)
        packed |= label[start : start + BLOCK] != 0
        if count:
            # The shift has dropped the sign. Larger means lower here, so all bits are flipped (the label's
            # too), and the label is put back.
            side = packed.take(np.flatnonzero(block < 0))
            keys[low : low + count] = ~side ^ _ONE
            packed = packed.take(np.flatnonzero(block >= 0))
        keys[high : high + packed.size] = packed
        low, high = low + count, high + packed.size
    return keys, sum(below)


def _sort(keys: np.ndarray) -> None:
    """Sort in place; many keys are first cut at their median, so that two threads sort one half each."""
    if keys.size < _SORT_ALONE:
        keys.sort()
        return
    half = keys.size // 2
    keys.partition(half)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(np.ndarray.sort, (keys[:half], keys[half:])))  # NumPy's sort releases the GIL
