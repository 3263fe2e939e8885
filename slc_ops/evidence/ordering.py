"""Two ways to bring rows in the order of their probabilities, which is all that an AUC needs.

* :class:`Sorted`: the rows are in memory, as one span. They are sorted, the AUC is exact.
* :class:`OnGrid`: the rows stream by, span by span, wherever they lie. They are counted by cell of a fine
  grid of scores, and rows of one cell count as tied (:mod:`slc_ops.numerics.score_grid` states the error).

Everything else about a method is summed by the same kernels (:mod:`slc_ops.evidence.evaluation`).
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slc_ops.evidence.auc import Auc, auc, one_class, placements
from slc_ops.evidence.metrics import Metrics, metrics_from, sorted_sums, totals
from slc_ops.evidence.row_sums import RowSums
from slc_ops.numerics.score_grid import GridCounts, ScoreGrid
from slc_ops.parameters.parameter_set import Apply
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.rows import NO_COLUMNS, Columns, Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scored:
    """Rows with their probabilities; ``score`` orders them as the probabilities do."""

    label: NDArray[Any]
    probability: Floats
    score: Floats
    weight: Floats | None

    def chosen(self, rows: NDArray[np.intp]) -> "Scored":
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return Scored(self.label[rows], self.probability[rows], self.score[rows], weight)


@dataclass
class Exact:
    """The area under the curve of rows that were sorted."""

    found: Auc

    def add(self, other: Any) -> None:
        """Two sorted spans have no area in common."""
        raise TypeError("an exact area is of all rows at once; rows in several spans need a grid")

    def area(self, rows: int) -> Auc:
        """As it was found."""
        return self.found


@dataclass
class Counted:
    """How many rows of either label lie in each cell of a grid."""

    counts: GridCounts

    def add(self, other: Any) -> None:
        """Take up further rows, counted on the same grid."""
        self.counts.add(other.counts)

    def area(self, rows: int) -> Auc:
        """The area; ``tied`` bounds what the grid cannot tell apart."""
        positive, negative = self.counts.positive.sum() > 0, self.counts.negative.sum() > 0
        if not (positive and negative):
            return Auc(None, reason=one_class(rows, bool(positive)))
        return Auc(self.counts.auc, self.counts.tied)


@dataclass
class Sums:
    """Sums over some rows, and what is known of their order."""

    rows: RowSums
    order: Exact | Counted

    def add(self, other: "Sums") -> None:
        """Take up further rows."""
        self.rows.add(other.rows)
        self.order.add(other.order)

    def metrics(self) -> Metrics:
        """All metrics."""
        return metrics_from(self.rows, self.order.area(self.rows.rows))


class Ordering(Protocol):
    """How one method's rows are ordered."""

    @property
    def columns(self) -> Columns:
        """The columns that the probabilities of a span depend on, beside the usual ones."""
        ...

    @property
    def span_rows(self) -> int | None:
        """The rows of a span, where they cannot be chosen freely."""
        ...

    @property
    def n_keys(self) -> int:
        """The length of the sums of some rows."""
        ...

    def scored(self, rows: Rows) -> Scored:
        """The method's probabilities of some rows."""
        ...

    def sums(self, rows: Scored) -> Sums: ...

    def placements(self, rows: Scored, placed: "Placed | None") -> Floats:
        """Each row's placement value (:func:`slc_ops.evidence.auc.placements`) among the rows of a slice."""
        ...

    def tied_logits(self, found: Metrics) -> float:
        """Of the backbone itself: the share of pairs that its logits cannot tell apart."""
        ...


@dataclass(frozen=True)
class Sorted:
    """All rows of a log in memory, with their probabilities; with ``overwrite`` these may be spoilt.

    The sums are taken in the order of the probabilities (:meth:`RowSums.of_ranked`), which costs less than
    :meth:`RowSums.of` once the rows are sorted and makes them independent of the rows' own order.
    """

    log: InteractionLog
    probability: Floats
    overwrite: bool = False
    columns: Columns = NO_COLUMNS
    n_keys: int = 1

    @property
    def span_rows(self) -> int:
        """All rows."""
        return self.log.n_rows

    def scored(self, rows: Rows) -> Scored:
        """The one span that holds all rows."""
        return Scored(rows.label, self.probability, self.probability, _weight(rows))

    def sums(self, rows: Scored) -> Sums:
        """By one sort."""
        sums, area = sorted_sums(rows.label, rows.probability, rows.weight, overwrite=self.overwrite)
        return Sums(sums, Exact(area))

    def placements(self, rows: Scored, placed: "Placed | None") -> Floats:
        """By one sort."""
        return placements(rows.label, rows.probability, rows.weight)[0]

    def tied_logits(self, found: Metrics) -> float:
        """Logits that are equal."""
        weight = self.log.weight if self.log.weighted else None
        return auc(self.log.label, self.log.logit, weight).tied


@dataclass(frozen=True)
class OnGrid:
    """Rows that stream by, span by span, wherever they lie."""

    apply: Apply
    grid: ScoreGrid
    span_rows: int | None = None

    @property
    def columns(self) -> Columns:
        """Those of the method."""
        return self.apply.columns

    @property
    def n_keys(self) -> int:
        """Both labels of each cell."""
        return 2 * self.grid.cells

    def scored(self, rows: Rows) -> Scored:
        """Any span."""
        return Scored(rows.label, self.apply.of(rows), self.apply.score(rows), _weight(rows))

    def sums(self, rows: Scored) -> Sums:
        """By counting."""
        counts = GridCounts.of(self.grid, self.grid.place(rows.score), rows.label, rows.weight)
        return Sums(RowSums.of(rows.label, rows.probability, rows.weight, totals()), Counted(counts))

    def placements(self, rows: Scored, placed: "Placed | None") -> Floats:
        """By cell."""
        assert placed is not None  # noqa: S101 - the rows were counted before
        return placed.values(rows.label, rows.score)

    def placed(self, sums: Sums) -> "Placed":
        """The placement values of rows that were counted."""
        assert isinstance(sums.order, Counted)  # noqa: S101 - this ordering counted them
        return Placed(self.grid, *sums.order.counts.placements())

    def tied_logits(self, found: Metrics) -> float:
        """Logits that the grid cannot tell apart count as tied, too."""
        return found.tied


@dataclass(frozen=True)
class Placed:
    """Placement values by cell: of a positive row, and of a negative one."""

    grid: ScoreGrid
    positive: Floats
    negative: Floats

    def values(self, label: NDArray[Any], score: Floats) -> Floats:
        """The placement value of each row."""
        cell = self.grid.place(score)
        return np.asarray(np.where(label != 0, self.positive[cell], self.negative[cell]))


def _weight(rows: Rows) -> Floats | None:
    return None if rows.weight is None else rows.weight.astype(np.float64, copy=False)
