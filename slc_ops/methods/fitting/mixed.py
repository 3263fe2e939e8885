"""The crossed model of ``slc_mix`` on rows: cells, the passes of a Newton step, and forgetting.

Line, items and groups need only sums per cell, so their passes run on any engine. A model with users crosses
every user with many cells: its rows are held in this process, sorted by user.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.base.additive import Additive
from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.methods.fitting.logistic import MANY_ITEMS, SPAN_ROWS, standardised
from slc_ops.methods.fitting.options import Forgetting
from slc_ops.numerics.crossed import CellSums, Codes, Crossed, Shape, UserCurve, Variances
from slc_ops.numerics.kernels import Floats, RowsAt, slices, stable_order, total
from slc_ops.numerics.newton import Minimum, State, minimise
from slc_ops.rows.passes import Totals, add_up, in_spans
from slc_ops.rows.rows import NO_COLUMNS, Columns, Log, Rows, RowSource

MOST_PAIRS = 1 << 24  # maximum pairs of items and groups in a table of all pairs


@dataclass(frozen=True)
class Cells:
    """The pairs of item and group that occur; each is a cell with a number."""

    n_items: int
    n_groups: int = 0
    pairs: NDArray[np.int64] | None = None
    """The pairs, ascending, as item · (groups + 1) + group; None without groups."""
    table: NDArray[np.int32] | None = field(default=None, repr=False)
    """The cell of every pair, if a table of all of them is small."""
    nested: bool = True
    """True if every item has one group: then the cell is the item, and a pass does not read groups."""

    @classmethod
    def of_pairs(cls, n_items: int, n_groups: int, pairs: NDArray[np.int64]) -> "Cells":
        """Return the cells of the pairs that occur."""
        table, size = None, n_items * (n_groups + 1)
        nested = np.array_equal(pairs // (n_groups + 1), np.arange(n_items))
        if size <= MOST_PAIRS and not nested:
            table = np.zeros(size, np.int32)
            table[pairs] = np.arange(len(pairs), dtype=np.int32)
        return cls(n_items, n_groups, pairs, table, nested)

    @property
    def columns(self) -> Columns:
        """Columns that a pass needs."""
        return NO_COLUMNS if self.nested else frozenset({"group"})

    def of(self, rows: Rows) -> NDArray[np.integer]:
        """Return the cell of each row; rows without a group share the last one of their item."""
        if self.pairs is None or self.nested:
            return rows.codes
        pair = pair_of(self.n_groups, rows)
        return np.searchsorted(self.pairs, pair) if self.table is None else self.table[pair]

    def shape(self, n_users: int = 0, mean: Floats | None = None) -> Shape:
        """Return the shape of a model's coefficients; ``mean`` is the items' prior mean."""
        if self.pairs is None:
            one = np.arange(self.n_items, dtype=np.intp)
            return Shape(self.n_items, 0, n_users, one, np.zeros_like(one), mean)
        item, group = np.divmod(self.pairs, self.n_groups + 1)
        return Shape(self.n_items, self.n_groups, n_users, item.astype(np.intp), group.astype(np.intp), mean)


def pair_of(n_groups: int, rows: Rows) -> NDArray[np.int64]:
    """Return the number of each row's item and group; a missing group counts as one after the last."""
    assert rows.group is not None  # noqa: S101 - the pass requests groups
    group = np.where(rows.group < 0, n_groups, rows.group)
    pair: NDArray[np.int64] = rows.codes.astype(np.int64) * (n_groups + 1) + group
    return pair


def pairs_of(n_groups: int, rows: Rows) -> NDArray[np.int64]:
    """Return the pairs that occur, ascending; hashing is four times as fast as sorting the rows."""
    return np.sort(as_numpy(pc.unique(as_arrow(pair_of(n_groups, rows)))))


@dataclass
class _Pairs:
    found: NDArray[np.int64]

    def merge(self, other: "_Pairs") -> None:
        self.found = np.union1d(self.found, other.found)


def cells_of(log: Log, *, groups: bool) -> Cells:
    """Return the cells of a log, from one pass with groups and from none without."""
    if not groups or log.groups is None:
        return Cells(len(log.items))
    size = len(log.groups)
    found = log.add_up(partial(_pairs, size), columns=frozenset({"group"})).found
    return Cells.of_pairs(len(log.items), size, found)


def _pairs(n_groups: int, rows: Rows) -> _Pairs:
    return _Pairs(pairs_of(n_groups, rows))


@dataclass(frozen=True)
class Standard:
    """z = (η₀ − mean)/spread, 0 for equal logits (spread 0); and the weights of old rows."""

    mean: float
    spread: float
    forget: Forgetting | None = None

    @property
    def columns(self) -> Columns:
        """Columns that a pass needs."""
        return NO_COLUMNS if self.forget is None else frozenset({"time"})

    def z(self, logit: NDArray[Any]) -> Floats:
        """Return the standardised logit."""
        return standardised(logit, self.mean, self.spread)

    def weight(self, rows: Rows) -> NDArray[Any] | None:
        """Return the weight of each row."""
        if self.forget is None:
            return rows.weight
        assert rows.time is not None  # noqa: S101 - the pass requests times
        fresh = self.forget.of(rows.time)
        return fresh if rows.weight is None else fresh * rows.weight


@dataclass(frozen=True)
class Mixed:
    """The model of some rows, of a total ``weight``; with ``by_user`` it has user effects."""

    source: RowSource
    weight: float
    workers: int
    cells: Cells
    shape: Shape
    standard: Standard
    by_user: "ByUser | None" = None

    def visit(self, state: State, variances: Variances) -> Crossed:
        """Evaluate the penalised likelihood in one pass over the rows."""
        base, tilt, user = self.shape.tables(state)
        if variances.user and self.by_user is not None:
            found = self.by_user.sums(base, tilt, user, self.shape, self.workers)
            return Crossed.of(state, self.shape, variances, *found)
        kernel = partial(_cell_sums, self.cells, self.standard, base, tilt, bool(variances.slope))
        sums = self.source.add_up(
            kernel,
            threads=self.workers,
            columns=self.cells.columns | self.standard.columns,
            n_keys=len(base),
            span_rows=SPAN_ROWS if len(base) <= MANY_ITEMS else None,
        )
        return Crossed.of(state, self.shape, variances, sums, UserCurve.absent(self.shape))

    def minimise(self, start: State, variances: Variances, *, last_gain: float = 0.0) -> Minimum[Crossed]:
        """Minimise the penalised likelihood, from a state."""
        return minimise(
            partial(self.visit, variances=variances),
            self.visit(start, variances),
            self.weight,
            "the line and the effects",
            last_gain=last_gain,
        )


def losses(cells: Cells, shape: Shape, standard: Standard, state: State, rows: Rows) -> Floats:
    """Return the −log-likelihood of each row, times its weight."""
    base, tilt, user = shape.tables(state)
    found = np.empty(len(rows))
    for part in slices(len(rows)):
        here = rows.chosen(part)
        eta = base.take(cell := cells.of(here))
        eta += tilt.take(cell) * standard.z(here.logit)
        if here.user is not None and len(user) > 1:
            eta += user.take(here.user)  # −1, no user, is the last one
        found[part] = RowsAt([], eta, np.exp(-np.abs(eta)), here.label, standard.weight(here)).losses()
    return found


def _cell_sums(
    cells: Cells, standard: Standard, base: Floats, tilt: Floats, slopes: bool, rows: Rows
) -> CellSums:
    cell, z = cells.of(rows), standard.z(rows.logit)
    eta = base.take(cell)
    eta += tilt.take(cell) * z
    residual, fisher = np.empty((2, len(rows)))
    nll = _curve(eta, rows.label, standard.weight(rows), residual, fisher)
    return _by_cell(nll, cell.astype(np.intp, copy=False), len(base), z, residual, fisher)


def _curve(
    eta: Floats, label: NDArray[Any], weight: NDArray[Any] | None, residual: Floats, fisher: Floats
) -> float:
    """Fill w·r and w·h of each row; return the total loss."""
    nll = 0.0
    for part in slices(len(eta)):
        some = None if weight is None else weight[part]
        here = RowsAt([], eta[part], np.exp(-np.abs(eta[part])), label[part], some)
        nll += here.loss()
        here.residual_and_fisher(residual[part], fisher[part])
    return nll


def _by_cell(nll: float, cell: Codes, n_cells: int, z: Floats, residual: Floats, fisher: Floats) -> CellSums:
    leaning = fisher * z
    columns = (residual, residual * z, fisher, leaning, leaning * z)
    return CellSums(nll, *(total(cell, each, n_cells) for each in columns))


@dataclass(frozen=True)
class ByUser:
    """Rows in memory, sorted by user: cell, z, label, weight and user of each; the first row of each user."""

    cell: Codes
    z: Floats
    label: NDArray[np.int8]
    weight: NDArray[Any] | None
    user: NDArray[np.integer]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, rows: Rows, cells: Cells, standard: Standard, n_users: int) -> "ByUser":
        """Sort rows by user; rows without a user share the last one."""
        assert rows.user is not None  # noqa: S101 - the caller requests users
        user = np.where(rows.user < 0, n_users, rows.user).astype(np.int32)
        order = stable_order(user)
        user, weight = user[order], standard.weight(rows)
        cell = cells.of(rows)[order].astype(np.intp, copy=False)  # converted once, not in every pass
        z, label = standard.z(rows.logit[order]), rows.label[order]
        starts = np.flatnonzero(np.append(True, user[1:] != user[:-1]))
        return cls(cell, z, label, None if weight is None else weight[order], user, starts)

    def sums(
        self, base: Floats, tilt: Floats, user: Floats, shape: Shape, workers: int
    ) -> tuple[CellSums, UserCurve]:
        """Return the cells' sums, and the sums that cross them with users."""
        fisher = np.empty(len(self.z))
        pull, curve = np.zeros((2, shape.users + 1))

        def work(first: int, last: int) -> _Both:
            part = slice(first, last)
            cell, z = self.cell[part], self.z[part]
            eta = base.take(cell)
            eta += tilt.take(cell) * z
            eta += user.take(self.user[part])
            residual = np.empty(last - first)
            weight = None if self.weight is None else self.weight[part]
            nll = _curve(eta, self.label[part], weight, residual, fisher[part])
            sums = _by_cell(nll, cell, len(base), z, residual, fisher[part])
            starts = self.starts_in(first, last)
            pulls, curves = (np.add.reduceat(each, starts - first) for each in (residual, fisher[part]))
            return _Both(sums, [(self.user[starts], pulls, curves)])

        found = add_up(work, len(self.z), workers)
        for users, pulls, curves in found.users:
            pull[users] += pulls
            curve[users] += curves
        from_cells = partial(self._from_cells, fisher, len(pull), workers)
        to_cells = partial(self._to_cells, fisher, len(base), workers)
        return found.sums, UserCurve(pull, curve, from_cells, to_cells)

    def starts_in(self, first: int, last: int) -> NDArray[np.intp]:
        """Return the first row of each user within a span."""
        inside = slice(*np.searchsorted(self.starts, (first + 1, last)))
        return np.append(first, self.starts[inside])

    def _from_cells(self, fisher: Floats, n_users: int, workers: int, flat: Floats, tilted: Floats) -> Floats:
        """Return Σ h·(flat[cell] + tilted[cell]·z) per user."""
        found = np.zeros(n_users)

        def work(first: int, last: int) -> tuple[NDArray[np.integer], Floats]:
            part = slice(first, last)
            value = tilted.take(cell := self.cell[part])
            value *= self.z[part]
            value += flat.take(cell)
            value *= fisher[part]
            starts = self.starts_in(first, last)
            return self.user[starts], np.add.reduceat(value, starts - first)

        for users, values in in_spans(work, len(fisher), workers):
            found[users] += values
        return found

    def _to_cells(self, fisher: Floats, n_cells: int, workers: int, user: Floats) -> tuple[Floats, Floats]:
        """Return Σ h·user and Σ hz·user per cell."""

        def work(first: int, last: int) -> Totals:
            part = slice(first, last)
            value = user.take(self.user[part])
            value *= fisher[part]
            cell = self.cell[part]
            return Totals(np.array([total(cell, each, n_cells) for each in (value, value * self.z[part])]))

        found = add_up(work, len(fisher), workers).values
        return found[0], found[1]


@dataclass
class _Both(Additive):
    sums: CellSums
    users: list[tuple[NDArray[np.integer], Floats, Floats]]
