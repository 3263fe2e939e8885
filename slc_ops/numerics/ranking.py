"""Sort rows by their scores together with their labels and indices, for isotonic maps and the AUC.

The bits of a float, mapped so that they order like the floats (:func:`~slc_ops.numerics.time_bins.ordered`),
its label and the row's index share one integer, and sorting integers is several times faster than sorting
indices by a key. The index replaces the score's lowest bits; the few rows whose scores differ only in these
are sorted afterwards.
"""

from typing import NamedTuple

import numpy as np

from slc_ops.numerics.time_bins import ordered, unordered

BLOCK = 1 << 17  # rows whose temporaries fit into the processor's cache
_ONE = np.uint64(1)


class Ranked(NamedTuple):
    """Rows in ascending order of their scores; the negatives of one score come first."""

    order: np.ndarray
    """Their indices before."""
    score: np.ndarray
    positive: np.ndarray


def ranked(label: np.ndarray, score: np.ndarray) -> Ranked:
    """Return the rows in order.

    >>> rows = ranked(np.array([1, 1, 0]), np.array([0.5, -2.0, 0.5]))
    >>> rows.order.tolist(), rows.score.tolist(), rows.positive.tolist()
    ([1, 2, 0], [-2.0, 0.5, 0.5], [True, False, True])
    """
    low, index_bits, dropped = _layout(score)
    keys = np.empty(score.size, np.uint64)
    for start in range(0, score.size, BLOCK):
        here = keys[start : start + BLOCK]
        np.subtract(ordered(score[start : start + BLOCK]), low, out=here)
        here >>= np.uint64(dropped)
        here <<= _ONE
        here |= label[start : start + BLOCK] != 0
        here <<= np.uint64(index_bits)
        here |= np.arange(start, start + here.size, dtype=np.uint64)
    keys.sort()
    order, mask = keys.view(np.int64), np.int64((1 << index_bits) - 1)
    rows = Ranked(order, np.empty(score.size), np.empty(score.size, np.bool_))
    for start in range(0, score.size, BLOCK):
        part = slice(start, start + BLOCK)
        np.not_equal((keys[part] >> np.uint64(index_bits)) & _ONE, 0, out=rows.positive[part])
        order[part] &= mask
        np.take(score, order[part], out=rows.score[part], mode="clip")
    if dropped:
        _settle(rows, low, dropped)
    return rows


def _layout(score: np.ndarray) -> tuple[np.uint64, int, int]:
    """Return the bits of the smallest score, the number of index bits and of omitted score bits."""
    if not score.size:
        return np.uint64(0), 0, 0
    least, most = ordered(np.array([score.min(), score.max()]))
    index_bits = (score.size - 1).bit_length()
    return least, index_bits, max(0, int(most - least).bit_length() + 1 + index_bits - 64)


def _settle(rows: Ranked, low: np.uint64, dropped: int) -> None:
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
    upper = np.unique((ordered(rows.score[places]) - low) >> shift)
    # Start and end of each run of equal upper bits; rows outside of the runs are in order.
    begin = np.searchsorted(rows.score, unordered((upper << shift) + low))
    end = np.searchsorted(rows.score, unordered(((upper + _ONE) << shift) + low))
    sizes = end - begin
    of_runs = np.repeat(begin - np.append(0, np.cumsum(sizes)[:-1]), sizes) + np.arange(int(sizes.sum()))
    right = of_runs[np.lexsort((rows.positive[of_runs], rows.score[of_runs]))]
    for values in rows:
        values[of_runs] = values[right]
