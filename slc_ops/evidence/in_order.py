"""All rows of a log in the order of one method's probabilities: slices are cut from it, not sorted again.

For rows in memory without weights. One sort of indices then answers everything that needs an order: the
metrics of all rows and of every slice, and the users' placement sums. Placement values are whole and half
numbers far below 2⁵³, so their sums are exact in any order; sums of losses are taken in the rows' own order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.evidence.auc import area
from slc_ops.evidence.metrics import totals
from slc_ops.evidence.ordering import Exact, Sums
from slc_ops.evidence.row_sums import RowSums
from slc_ops.evidence.uncertainty import UserSums, averaged
from slc_ops.numerics.ranking import BLOCK, Ranked, order_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Partition:
    """Rows by slice, each slice in the order of its probabilities; slice ``k`` lies at bounds[k:k + 2]."""

    rows: NDArray[np.intp]
    ranked: Ranked
    bounds: NDArray[np.intp]

    def slices(self) -> Iterator[tuple[int, Ranked]]:
        """The slices that have rows."""
        for k, (first, last) in enumerate(zip(self.bounds[:-1], self.bounds[1:], strict=True)):
            if last > first:
                yield k, Ranked(self.ranked.score[first:last], self.ranked.positive[first:last])

    def placements(self) -> Floats:
        """Each row's placement value (:func:`slc_ops.evidence.auc.placements`) within its slice."""
        values = np.empty(len(self.rows))
        for k, rows in self.slices():
            _place(rows, values[self.bounds[k] : self.bounds[k + 1]])
        return values


def _place(rows: Ranked, out: Floats) -> None:
    """Block by block, whose temporaries stay in the processor's cache; equal scores share a block."""
    score, positive, size = rows.score, rows.positive, rows.score.size
    total, ones, first = np.count_nonzero(positive), 0, 0  # positives of all rows, and before this block
    while first < size:
        last = int(np.searchsorted(score, score[min(first + BLOCK, size) - 1], side="right"))
        here, part = positive[first:last], score[first:last]
        starts = np.flatnonzero(np.append(True, part[1:] != part[:-1]))
        sizes = np.diff(np.append(starts, len(part)))
        tied = np.add.reduceat(here, starts, dtype=np.int64)
        below = ones + np.cumsum(tied) - tied
        beaten = (first + starts - below) + (sizes - tied) / 2
        beating = total - below - tied / 2
        out[first:last] = np.where(here, np.repeat(beaten, sizes), np.repeat(beating, sizes))
        ones, first = ones + int(np.count_nonzero(here)), last


@dataclass(frozen=True)
class InOrder:
    """The rows' labels and probabilities."""

    label: NDArray[Any]
    probability: Floats

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The rows by probability; the negatives of one probability come first."""
        return order_of(self.label, self.probability)

    @cached_property
    def whole(self) -> Partition:
        """All rows as one slice."""
        return self._partition(self.order, np.array([0, self.label.size]))

    def cut(self, number: NDArray[Any], parts: int) -> Partition:
        """The rows by the number of their slice, below ``parts``; those of none (−1) are left out."""
        small = number.astype(np.int16, copy=False)  # which NumPy sorts by counting
        counts = np.bincount(small + 1, minlength=parts + 1)
        by_slice = np.argsort(small[self.order], kind="stable")[counts[0] :]
        return self._partition(self.order[by_slice], np.append(0, np.cumsum(counts[1:])))

    def _partition(self, rows: NDArray[np.intp], bounds: NDArray[Any]) -> Partition:
        return Partition(rows, Ranked(self.probability[rows], self.label[rows] != 0), bounds)

    @cached_property
    def losses(self) -> dict[str, Floats]:
        """By metric that is a mean over rows and gets intervals: what each row adds."""
        return {name: per_row(self.label, self.probability) for name, per_row in averaged().items()}

    def user_sums(
        self, partition: Partition, number: NDArray[Any] | None, cluster: NDArray[Any], count: int
    ) -> Iterator[tuple[int, UserSums]]:
        """The users' sums of every slice that has rows; without ``number`` all rows are one slice."""
        parts = len(partition.bounds) - 1
        sizes = np.diff(partition.bounds)
        keys = np.repeat(np.arange(parts) * count, sizes)
        keys += cluster[partition.rows]

        def per_cluster(values: NDArray[Any]) -> Floats:
            return (
                np.bincount(keys, values, parts * count).reshape(parts, count).astype(np.float64, copy=False)
            )

        rows = np.bincount(keys, minlength=parts * count).reshape(parts, count).astype(np.float64)
        positive = per_cluster(partition.ranked.positive)
        placement = per_cluster(partition.placements())
        if number is not None:  # in the rows' own order, the rows of no slice first
            own = np.multiply(number + 1, count, dtype=np.intp) + cluster
            means = {
                name: np.bincount(own, loss, (parts + 1) * count).reshape(-1, count)[1:]
                for name, loss in self.losses.items()
            }
        else:
            means = {name: np.bincount(cluster, loss, count)[None] for name, loss in self.losses.items()}
        for k in np.flatnonzero(sizes):
            own_means = {name: sums[k] for name, sums in means.items()}
            yield int(k), UserSums(positive[k], rows[k] - positive[k], placement[k], own_means, int(sizes[k]))


def sums_of(rows: Ranked) -> Sums:
    """The sums and the exact area of rows in order."""
    return Sums(RowSums.of_ranked(rows, totals()), Exact(area(rows)))
