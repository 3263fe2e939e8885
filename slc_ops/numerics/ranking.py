"""Sort rows by their scores together with their labels, for isotonic maps and the AUC.

The bits of a non-negative float, read as an unsigned integer, keep its order, so ``bits << 1 | label`` is one
integer per row with score *and* label. The bits of a negative float are flipped, and negative floats precede
the others. Sorting these integers is several times faster than sorting indices, and needs no further memory.
For indices, the index replaces the score's lowest bits (:func:`ranked_rows`). Weights do not fit, so weighted
rows are sorted by their indices.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

BLOCK = 1 << 17  # rows whose temporaries fit into the processor's cache
_SORT_ALONE = 1 << 21  # below this a second thread does not pay
_ONE = np.uint64(1)


@dataclass(frozen=True)
class Ranked:
    """Rows in ascending order of their scores; without weights, the negatives of one score come first."""

    score: np.ndarray
    positive: np.ndarray
    weight: np.ndarray | None = None


def ranked(label: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> Ranked:
    """Return the rows in order.

    >>> rows = ranked(np.array([1, 1, 0]), np.array([0.5, -2.0, 0.5]))
    >>> rows.score.tolist(), rows.positive.tolist()
    ([-2.0, 0.5, 0.5], [True, False, True])
    """
    if weight is not None:
        order = np.argsort(score, kind="stable")
        return Ranked(score[order], label[order] != 0, np.asarray(weight, dtype=np.float64)[order])
    keys, below = _packed(label, score)
    _sort(keys[:below])
    _sort(keys[below:])
    positive = np.empty(keys.size, np.bool_)
    for start in range(0, keys.size, BLOCK):
        block = keys[start : start + BLOCK]
        np.not_equal(block & _ONE, 0, out=positive[start : start + BLOCK])
        block >>= _ONE
    keys[:below] ^= np.uint64((1 << 64) - 1)  # restores the bits of a negative float, with its sign
    return Ranked(keys.view(np.float64), positive)


def ranked_rows(label: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, Ranked]:
    """Return the indices of non-negative scores in the order of :func:`ranked`, and the rows in that order.

    One integer per row holds the upper bits of its score, its label and its index, so that sorting indices
    costs as little as sorting numbers. The few rows whose scores differ only in the omitted bits are sorted
    afterwards.

    >>> order, rows = ranked_rows(np.array([1, 0, 0]), np.array([0.5, 0.5, 0.25]))
    >>> order.tolist(), rows.score.tolist(), rows.positive.tolist()
    ([2, 1, 0], [0.25, 0.5, 0.5], [False, False, True])
    """
    if score.size and float(score.min()) < 0:
        raise ValueError(f"{int(np.count_nonzero(score < 0))} scores are below 0; expected none")
    low, index_bits, dropped = _layout(score)
    keys = np.empty(score.size, np.uint64)
    for start in range(0, score.size, BLOCK):
        here = keys[start : start + BLOCK]
        np.subtract((score[start : start + BLOCK] + 0.0).view(np.uint64), low, out=here)  # -0.0 is 0.0
        here >>= np.uint64(dropped)
        here <<= _ONE
        here |= label[start : start + BLOCK] != 0
        here <<= np.uint64(index_bits)
        here |= np.arange(start, start + here.size, dtype=np.uint64)
    _sort(keys)
    rows = Ranked(np.empty(score.size), np.empty(score.size, np.bool_))
    order, mask = keys.view(np.int64), np.int64((1 << index_bits) - 1)
    for start in range(0, score.size, BLOCK):
        part = slice(start, start + BLOCK)
        np.not_equal((keys[part] >> np.uint64(index_bits)) & _ONE, 0, out=rows.positive[part])
        order[part] &= mask
        np.take(score, order[part], out=rows.score[part], mode="clip")
    if dropped:
        _settle(order, rows, low, dropped)
    return order, rows


def _layout(score: np.ndarray) -> tuple[np.uint64, int, int]:
    """Return the bits of the smallest score, the number of index bits and of omitted score bits."""
    if not score.size:
        return np.uint64(0), 0, 0
    least, most = (np.array([value + 0.0]).view(np.uint64)[0] for value in (score.min(), score.max()))
    index_bits = (score.size - 1).bit_length()
    return least, index_bits, max(0, int(most - least).bit_length() + 1 + index_bits - 64)


def _settle(order: np.ndarray, rows: Ranked, low: np.uint64, dropped: int) -> None:
    """Sort the rows whose scores differ only in the omitted bits."""
    last = rows.score.size - 1
    wrong = [
        first + np.flatnonzero(rows.score[first:end] > rows.score[first + 1 : end + 1])
        for first, end in ((first, min(first + BLOCK, last)) for first in range(0, last, BLOCK))
    ]
    places = np.concatenate(wrong)
    if not places.size:
        return
    shift = np.uint64(dropped)
    upper = np.unique((rows.score[places].view(np.uint64) - low) >> shift)
    # Start and end of each run of equal upper bits; rows outside of the runs are in order.
    begin = np.searchsorted(rows.score, ((upper << shift) + low).view(np.float64))
    end = np.searchsorted(rows.score, (((upper + _ONE) << shift) + low).view(np.float64))
    sizes = end - begin
    of_runs = np.repeat(begin - np.append(0, np.cumsum(sizes)[:-1]), sizes) + np.arange(int(sizes.sum()))
    right = of_runs[np.lexsort((rows.positive[of_runs], rows.score[of_runs]))]
    for values in (order, rows.score, rows.positive):
        values[of_runs] = values[right]


def _packed(label: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, int]:
    """Return ``bits << 1 | label`` of negative scores, then of the others; and the count of negative ones."""
    starts = range(0, score.size, BLOCK)
    below = [int(np.count_nonzero(score[start : start + BLOCK] < 0)) for start in starts]
    keys = np.empty(score.size, np.uint64)
    low, high = 0, sum(below)
    for start, count in zip(starts, below, strict=True):
        block = score[start : start + BLOCK] + 0.0  # -0.0 becomes 0.0
        packed = np.left_shift(block.view(np.uint64), _ONE)
        packed |= label[start : start + BLOCK] != 0
        if count:
            # The shift has dropped the sign. Larger bits mean lower scores here, so all bits are flipped,
            # and the label's bit is flipped back.
            side = packed.take(np.flatnonzero(block < 0))
            keys[low : low + count] = ~side ^ _ONE
            packed = packed.take(np.flatnonzero(block >= 0))
        keys[high : high + packed.size] = packed
        low, high = low + count, high + packed.size
    return keys, sum(below)


def _sort(keys: np.ndarray) -> None:
    """Sort in place; partition many keys at their median first, so that two threads sort one half each."""
    if keys.size < _SORT_ALONE:
        keys.sort()
        return
    half = keys.size // 2
    keys.partition(half)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(np.ndarray.sort, (keys[:half], keys[half:])))  # NumPy's sort releases the GIL
