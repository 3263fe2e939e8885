"""All rows of a log in the order of one method's probabilities: slices are cut from it, not sorted again.

For rows in memory without weights. One sort of indices then answers everything that needs an order: the
metrics of all rows and of every slice, and the users' placement sums. Placement values are whole and half
numbers far below 2⁵³, so their sums are exact in any order; sums of losses are taken in the rows' own order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.evidence.auc import area
from slc_ops.evidence.metrics import totals
from slc_ops.evidence.ordering import Exact, Sums
from slc_ops.evidence.row_sums import RowSums
from slc_ops.evidence.uncertainty import averaged
from slc_ops.evidence.user_keys import UserKeys
from slc_ops.numerics.ranking import BLOCK, Ranked, ranked_rows

Floats = NDArray[np.float64]
PLACED = 1 << 15  # rows whose placement values are worked out together
FEW_SLICES = 12  # for which a look at all rows each costs less than a sort


@dataclass(frozen=True)
class Partition:
    """Rows by slice, each slice in the order of its probabilities; slice ``k`` lies at bounds[k:k + 2].

    ``cluster`` is the cluster of users that each row belongs to, in the same order.
    """

    ranked: Ranked
    bounds: NDArray[np.intp]
    cluster: NDArray[np.int16]

    def slices(self) -> Iterator[tuple[int, Ranked]]:
        """The slices that have rows."""
        for k, (first, last) in enumerate(zip(self.bounds[:-1], self.bounds[1:], strict=True)):
            if last > first:
                yield k, Ranked(self.ranked.score[first:last], self.ranked.positive[first:last])

    def placements(self, count: int) -> Floats:
        """By slice and cluster (``count`` of them): Σ of the rows' placement values within their slice.

        What a placement value is: :func:`slc_ops.evidence.auc.placements`.
        """
        sums = np.zeros((len(self.bounds) - 1, count))
        for k, rows in self.slices():
            own = self.cluster[self.bounds[k] : self.bounds[k + 1]]
            for first, values in _placed(rows):
                sums[k] += np.bincount(own[first : first + len(values)], values, count)
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
    """The rows' labels and probabilities, and the clusters of users that they belong to."""

    label: NDArray[Any]
    probability: Floats
    cluster: NDArray[np.int16]

    @cached_property
    def _ranked(self) -> tuple[NDArray[np.intp], Ranked]:
        return ranked_rows(self.label, self.probability)

    @cached_property
    def whole(self) -> Partition:
        """All rows as one slice; the negatives of one probability come first."""
        order, ranked = self._ranked
        cluster = self.cluster.take(order, mode="clip")
        return Partition(ranked, np.array([0, self.label.size]), cluster)

    def cut(self, number: NDArray[Any], parts: int) -> Partition:
        """The rows by the number of their slice, below ``parts``; those of none (−1) are left out."""
        ranked = self.whole.ranked
        small = number.astype(np.int16, copy=False)  # which NumPy sorts by counting
        counts = np.bincount(small + 1, minlength=parts + 1)
        in_order = small.take(self._ranked[0], mode="clip")
        if parts <= FEW_SLICES:
            by_slice = np.concatenate([np.flatnonzero(in_order == k) for k in range(parts)])
        else:
            by_slice = np.argsort(in_order, kind="stable")[counts[0] :]
        rows = Ranked(ranked.score[by_slice], ranked.positive[by_slice])
        return Partition(rows, np.append(0, np.cumsum(counts[1:])), self.whole.cluster.take(by_slice))

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
