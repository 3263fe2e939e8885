"""One method on a log whose rows stream by: a pass for the metrics, one for the slices, users and items each.

Each span of rows is reduced to sums and to counts by cell of a fine grid of scores, from which the AUC and
the placement values follow (:mod:`slc_ops.numerics.score_grid` states their error).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.evidence.auc import Auc, one_class
from slc_ops.evidence.evaluation import ALL_ROWS, Part, item_sums
from slc_ops.evidence.metrics import Metrics, RowSums, metrics_of, no_rows, unordered_sums
from slc_ops.evidence.slices import Slicing
from slc_ops.evidence.uncertainty import MAX_CLUSTERS, Clusters, UserSums, cluster_sums
from slc_ops.numerics.score_grid import SPAN_ROWS, GridCounts, ScoreGrid
from slc_ops.parameters.parameter_set import Apply
from slc_ops.rows.passes import Totals, evenly_spaced
from slc_ops.rows.rows import Columns, Log, Rows

SLICE_CELLS = 1 << 14  # of a slice's grid, which keeps its AUC within 1e-4


@dataclass
class Sums:
    """Sums over some rows, and how many of either label lie in each cell."""

    rows: RowSums
    counts: GridCounts

    def add(self, other: "Sums") -> None:
        """Take up further rows."""
        self.rows.add(other.rows)
        self.counts.add(other.counts)

    def metrics(self) -> Metrics:
        """All metrics; ``tied`` bounds what the grid cannot tell apart."""
        return metrics_of(self.rows, _area(self.counts, int(self.rows.n.sum())))


def _area(counts: GridCounts, rows: int) -> Auc:
    both = counts.positive.sum() > 0, counts.negative.sum() > 0
    return Auc(counts.auc, counts.tied) if all(both) else Auc(None, reason=one_class(rows, both[0]))


@dataclass
class Named:
    """Sums by name."""

    by_name: dict[str, Any]

    def add(self, other: "Named") -> None:
        """Take up further rows."""
        for name, sums in other.by_name.items():
            if name in self.by_name:
                self.by_name[name].add(sums)
            else:
                self.by_name[name] = sums


@dataclass(frozen=True)
class Placed:
    """Placement values by cell: of a positive row, and of a negative one."""

    grid: ScoreGrid
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]

    def values(self, label: NDArray[Any], score: NDArray[np.float64]) -> NDArray[np.float64]:
        """The placement value of each row."""
        place = self.grid.place(score)
        return np.asarray(np.where(label != 0, self.positive[place], self.negative[place]))


@dataclass(frozen=True)
class JudgedInPasses:
    """A method on a log of any size, in memory that does not grow with its rows."""

    test: Log
    apply: Apply
    threads: int = 1

    def metrics(self) -> Metrics:
        """Of all rows."""
        return self._sums.metrics()

    def tied_logits(self) -> float:
        """Logits that the grid cannot tell apart count as tied, too."""
        return self._sums.metrics().tied

    def parts(self, slicings: Sequence[Slicing]) -> list[Part]:
        """Metrics of every slice."""
        found = self._of_slices(slicings)
        parts = [part for slicing in slicings for part in slicing.parts]
        empty = Sums(no_rows(), GridCounts(np.zeros(2 * self._slice_grid.cells, np.int64)))
        return [
            Part(kind, name, label, found.get(f"{kind}:{name}", empty).metrics())
            for kind, name, label in parts
        ]

    def users(self, slicings: Sequence[Slicing]) -> dict[str, UserSums]:
        """The users' sums of all rows and of every slice that has any."""
        found = self._of_slices(slicings)
        placed = {name: Placed(self._slice_grid, *sums.counts.placements()) for name, sums in found.items()}
        placed[ALL_ROWS] = Placed(self._grid, *self._sums.counts.placements())
        n_users = self.test.n_rows if self.test.users is None else len(self.test.users)
        kernel = partial(_user_sums, self.apply, tuple(slicings), placed, n_users)
        n_keys = len(placed) * min(n_users, MAX_CLUSTERS)
        sums = self.test.add_up(
            kernel, threads=self.threads, columns=self._columns(slicings) | {"user"}, n_keys=n_keys
        )
        order = [ALL_ROWS, *(f"{kind}:{name}" for each in slicings for kind, name, _ in each.parts)]
        return {name: sums.by_name[name] for name in order if name in sums.by_name}

    def items(self) -> NDArray[np.float64]:
        """Per item: rows, Σ label, Σ prediction, Σ loss."""
        size = len(self.test.items)
        kernel = partial(_item_sums, self.apply, size)
        return self.test.add_up(kernel, threads=self.threads, columns=self.apply.columns, n_keys=size).values

    @cached_property
    def _scores(self) -> NDArray[np.float64]:
        """Scores of evenly spaced rows."""
        rows = self.test.sample(*evenly_spaced(self.test.n_rows), self.apply.columns)
        return np.concatenate([self.apply.score(each) for each in rows])

    @cached_property
    def _grid(self) -> ScoreGrid:
        return ScoreGrid.of(self._scores)

    @cached_property
    def _slice_grid(self) -> ScoreGrid:
        return ScoreGrid.of(self._scores, SLICE_CELLS)

    @cached_property
    def _sums(self) -> Sums:
        kernel = partial(_sums, self.apply, self._grid)
        return self.test.add_up(
            kernel,
            threads=self.threads,
            columns=self.apply.columns,
            n_keys=2 * self._grid.cells,
            span_rows=SPAN_ROWS,
        )

    def _of_slices(self, slicings: Sequence[Slicing]) -> dict[str, Sums]:
        if not slicings:
            return {}
        kernel = partial(_slice_sums, self.apply, self._slice_grid, tuple(slicings))
        keys = 2 * self._slice_grid.cells * sum(len(slicing.parts) for slicing in slicings)
        found: Named = self.test.add_up(
            kernel, threads=self.threads, columns=self._columns(slicings), n_keys=keys, span_rows=SPAN_ROWS
        )
        return found.by_name

    def _columns(self, slicings: Sequence[Slicing]) -> Columns:
        return self.apply.columns | {name for slicing in slicings for name in slicing.columns}


def _sums(apply: Apply, grid: ScoreGrid, rows: Rows) -> Sums:
    return _sums_of(grid, rows.label, apply.of(rows), grid.place(apply.score(rows)), rows.weight)


def _sums_of(
    grid: ScoreGrid,
    label: NDArray[Any],
    probability: NDArray[np.float64],
    cell: NDArray[np.intp],
    weight: NDArray[Any] | None,
) -> Sums:
    return Sums(unordered_sums(label, probability, weight), GridCounts.of(grid, cell, label, weight))


def _item_sums(apply: Apply, size: int, rows: Rows) -> Totals:
    return item_sums(rows.codes, rows.label, apply.of(rows), size)


def _slice_sums(apply: Apply, grid: ScoreGrid, slicings: tuple[Slicing, ...], rows: Rows) -> Named:
    probability, cell = apply.of(rows), grid.place(apply.score(rows))
    found = {}
    for name, chosen in _slices_of(slicings, rows):
        weight = None if rows.weight is None else rows.weight[chosen]
        found[name] = _sums_of(grid, rows.label[chosen], probability[chosen], cell[chosen], weight)
    return Named(found)


def _user_sums(
    apply: Apply, slicings: tuple[Slicing, ...], placed: dict[str, Placed], n_users: int, rows: Rows
) -> Named:
    assert rows.user is not None  # noqa: S101 - the pass asked for users
    probability, score, label = apply.of(rows), apply.score(rows), rows.label.astype(np.float64)
    count = min(n_users, MAX_CLUSTERS)
    clusters = Clusters(rows.user % count, count)
    found = {}
    every = np.arange(len(rows))
    for name, chosen in [(ALL_ROWS, every), *_slices_of(slicings, rows)]:
        weight = None if rows.weight is None else rows.weight[chosen]
        value = placed[name].values(label[chosen], score[chosen])
        found[name] = cluster_sums(label[chosen], probability[chosen], value, clusters.take(chosen), weight)
    return Named(found)


def _slices_of(slicings: Sequence[Slicing], rows: Rows) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The slices that have rows here, with their rows."""
    for slicing in slicings:
        number = slicing.number_of(rows)
        for k, (kind, name, _) in enumerate(slicing.parts):
            chosen = np.flatnonzero(number == k)
            if len(chosen):
                yield f"{kind}:{name}", chosen
