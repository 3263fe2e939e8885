"""All rows of a log in the order of one method's probabilities: slices are cut from it, not sorted again.

For rows in memory without weights. One sort of indices then answers everything that needs an order: the
metrics of all rows and of every slice, and the users' placement sums. Placement values are whole and half
numbers far below 2⁵³, so their sums are exact in any order; sums of losses are taken in the rows' own order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.evidence.auc import area
from slc_ops.evidence.metrics import log_loss, totals
from slc_ops.evidence.ordering import Exact, Sums
from slc_ops.evidence.row_sums import RowSums
from slc_ops.evidence.uncertainty import averaged
from slc_ops.evidence.user_keys import UserKeys
from slc_ops.numerics.ranking import BLOCK, Ranked, ranked_again, ranked_rows

Floats = NDArray[np.float64]
PLACED = 1 << 15  # rows whose placement values are worked out together


@dataclass(frozen=True)
class Slice:
    """Some rows in the order of their probabilities, and the cluster of users that each belongs to."""

    ranked: Ranked
    cluster: NDArray[np.int16]

    def placements(self, count: int) -> Floats:
        """By cluster, of which there are ``count``: Σ of the rows' placement values within the slice.

        What a placement value is: :func:`slc_ops.evidence.auc.placements`.
        """
        sums = np.zeros(count)
        for first, values in _placed(self.ranked):
            sums += np.bincount(self.cluster[first : first + len(values)], values, count)
        return sums


def _placed(rows: Ranked) -> Iterator[tuple[int, Floats]]:
    """The rows' placement values, block by block: where a block begins, and its values.

    A block's temporaries stay in the processor's cache; equal scores share a block.
    """
    score, positive, size = rows.score, rows.positive, rows.score.size
    total, ones, first = int(np.count_nonzero(positive)), 0, 0  # positives of all rows, and before this block
    while first < size:
        last = min(first + PLACED, size)
        if last < size and score[last] == score[last - 1]:
            last = int(np.searchsorted(score, score[last], side="right"))
        here, part = positive[first:last], score[first:last]
        new = part[1:] != part[:-1]
        if new.all():
            below = np.cumsum(here, dtype=np.float64)  # whole numbers, so nothing is rounded
            upto = below[-1:].copy()
            below -= here
            below += ones
            beaten = np.arange(first, last, dtype=np.float64)
            beaten -= below
            np.subtract(total, below, out=below)
            np.copyto(below, beaten, where=here)
            yield first, below
        else:
            upto = np.cumsum(here)
            starts = np.flatnonzero(np.append(True, new))
            sizes = np.diff(np.append(starts, len(part)))
            tied = np.diff(np.append(0, upto[starts + sizes - 1]))
            below = ones + upto[starts + sizes - 1] - tied
            beaten = (first + starts - below) + (sizes - tied) / 2
            beating = total - below - tied / 2
            yield first, np.where(here, np.repeat(beaten, sizes), np.repeat(beating, sizes))
        ones, first = ones + int(upto[-1]), last


@dataclass(frozen=True)
class InOrder:
    """The rows' labels and probabilities, and the clusters of users that they belong to.

    ``likely`` gives an order in which the probabilities probably rise: that is cheaper to see than to sort.
    """

    label: NDArray[Any]
    probability: Floats
    cluster: NDArray[np.int16]
    likely: Callable[[], NDArray[np.intp]] | None = None

    @cached_property
    def _ranked(self) -> tuple[NDArray[np.intp], Ranked]:
        known = None if self.likely is None else ranked_again(self.likely(), self.label, self.probability)
        return known or ranked_rows(self.label, self.probability)

    @cached_property
    def whole(self) -> Slice:
        """All rows; the negatives of one probability come first."""
        order, ranked = self._ranked
        return Slice(ranked, self.cluster.take(order, mode="clip"))

    def cut(self, number: NDArray[Any], sizes: NDArray[np.intp]) -> Iterator[tuple[int, Slice]]:
        """The slices that have rows, of rows that know the number of their slice; −1 belongs to none.

        ``sizes`` are the rows of no slice and of each. One after the other: a slice is small enough that its
        memory serves the next one. Numbers of few bits are brought together by counting them.
        """
        ranked, cluster = self.whole.ranked, self.whole.cluster
        in_order = number.take(self._ranked[0], mode="clip")
        by_slice = np.argsort(in_order, kind="stable")
        for k, (first, last) in enumerate(pairwise(np.cumsum(sizes).tolist())):
            if first < last:
                rows = by_slice[first:last]
                score, positive = (each.take(rows, mode="clip") for each in (ranked.score, ranked.positive))
                yield k, Slice(Ranked(score, positive), cluster.take(rows, mode="clip"))

    def items(self, codes: NDArray[Any], size: int) -> Floats:
        """By item, of which there are ``size``: Σ of the predictions, and Σ of the losses."""
        sums = np.zeros((2, size))
        for start in range(0, self.label.size, BLOCK):
            part = slice(start, start + BLOCK)
            indices = codes[part].astype(np.intp)
            np.add.at(sums[0], indices, self.probability[part])
            np.add.at(sums[1], indices, log_loss(self.label[part], self.probability[part]))
        return sums

    def losses(self, keysets: Sequence[UserKeys]) -> list[dict[str, Floats]]:
        """For each of the keys, by metric that is a mean over rows with intervals: Σ by slice and cluster.

        Block by block, in the rows' own order.
        """
        per_row = averaged()
        sums = [{name: keys.empty() for name in per_row} for keys in keysets]
        for start in range(0, self.label.size, BLOCK):
            part = slice(start, start + BLOCK)
            losses = {
                name: formula(self.label[part], self.probability[part]) for name, formula in per_row.items()
            }
            for keys, into in zip(keysets, sums, strict=True):
                indices = keys.of_row[part].astype(np.intp)
                for name, loss in losses.items():
                    np.add.at(into[name], indices, loss)  # one row after the other, as a bincount does
        return [
            {name: keys.by_slice(each) for name, each in found.items()}
            for keys, found in zip(keysets, sums, strict=True)
        ]


def sums_of(rows: Ranked) -> Sums:
    """The sums and the exact area of rows in order."""
    return Sums(RowSums.of_ranked(rows, totals()), Exact(area(rows)))
