"""Evaluate one parameter set on a log of any size: metrics, slices, sums by user and by item.

Rows in memory are sorted once by probability. Slices keep that order, and all sums use it: stretches by
``reduceat``, placement values in one pass, so the AUC is exact. Beyond 33 million rows (half a million on a
cluster) rows are streamed in spans. A span is sorted and cut in the same way, but its order is stored as
counts on a fine grid of scores: rows of one cell count as tied (:mod:`slc_ops.numerics.score_grid` states the
error). A second pass then computes placement values from the cells.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.additive import Additive
from slc_ops.evidence.auc import Floats, Scored, auc, in_order, placed, placed_cells, weights
from slc_ops.evidence.metrics import (
    Metrics,
    check_scored,
    log_loss,
    means_over_rows,
    metrics_from,
    metrics_of,
)
from slc_ops.evidence.row_sums import RowSums
from slc_ops.evidence.slices import Kind, Slicing
from slc_ops.evidence.uncertainty import MAX_CLUSTERS, Clusters, UserSums, cluster_sums
from slc_ops.evidence.within import Within, auc_within
from slc_ops.methods.fitting.options import FitOptions
from slc_ops.numerics.kernels import slices
from slc_ops.numerics.score_grid import SPAN_ROWS, GridCounts, ScoreGrid
from slc_ops.parameters.parameter_set import Apply, ParameterSet
from slc_ops.rows.passes import Addable, Totals, evenly_spaced
from slc_ops.rows.rows import Columns, Log, Rows

ALL_ROWS = "all"
SLICE_CELLS = 1 << 14  # cells of a slice's grid; the error of its AUC is below 1e-4

Each = TypeVar("Each", bound=Addable)


@dataclass(frozen=True)
class SliceMetrics:
    """The metrics of a slice; ``users`` is None without rows or without intervals."""

    kind: Kind
    name: str
    label: str
    metrics: Metrics
    users: UserSums | None = None

    @property
    def key(self) -> str:
        """The key of the slice in the users' sums."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of one parameter set on one log; ``parts`` are its slices.

    ``items``, if requested, has the rows Σ weight, Σ label, Σ prediction and Σ loss, all weighted, with one
    column per item of the log. ``within``, if requested and the rows are in memory, has the AUC over pairs
    of rows of the same user and of the same item.
    """

    metrics: Metrics
    users: UserSums
    parts: tuple[SliceMetrics, ...] = ()
    items: NDArray[np.float64] | None = None
    within: Within = field(default_factory=dict)

    def users_by_slice(self) -> dict[str, UserSums]:
        """Return the users' sums by slice key, for slices that have them."""
        return {part.key: part.users for part in self.parts if part.users is not None}


Found = tuple[Metrics, UserSums | None]
"""The results for all rows or for one slice; without users' sums where it needs no intervals."""


def evaluate(
    parameters: ParameterSet,
    test: Log,
    slicings: Sequence[Slicing] = (),
    *,
    items: bool = False,
    within: bool = False,
    threads: int | None = None,
) -> Evaluation:
    """Evaluate a parameter set on a log; ``items`` and ``within`` request the optional results."""
    log, workers = test.in_memory(), FitOptions(threads=threads).workers
    pairs: Within = {}
    if log is not None:
        rows = log.rows(0, log.n_rows, _columns(slicings))
        probability = parameters.apply(log, threads=threads)
        check_scored(rows.label, probability)
        order, scored = in_order(rows.label, probability, rows.weight)
        found = dict(_in_memory(rows, order, scored, _clusters(rows, _n_users(log)), slicings))
        pairs = _within(rows, order, scored) if within else {}
        by_item = _item_sums(rows, probability, len(log.items)) if items else None
    else:
        apply, size = parameters.on(test), len(test.items)
        found = _streamed(apply, test, slicings, workers)
        kernel = partial(_applied_item_sums, apply, size)
        by_item = test.add_up(kernel, threads=workers, columns=apply.columns, n_keys=size) if items else None
    metrics, users = found[ALL_ROWS]
    assert users is not None  # noqa: S101 - all rows always get them
    nothing = metrics_of(np.zeros(0), np.zeros(0)), None
    parts = tuple(
        SliceMetrics(kind, name, label, *found.get(f"{kind}:{name}", nothing))
        for slicing in slicings
        for kind, name, label in slicing.parts
    )
    return Evaluation(metrics, users, parts, None if by_item is None else by_item.values, pairs)


def tied_logits(test: Log, base: Metrics) -> float:
    """Return the share of pairs with tied backbone logits; ``base`` are the backbone's metrics.

    For streamed rows, logits of one grid cell count as tied.
    """
    log = test.in_memory()
    if log is None:
        return base.tied
    return auc(log.label, log.logit, log.weight if log.weighted else None).tied


def mean_log_loss(parameters: ParameterSet, test: Log, threads: int = 1) -> float | None:
    """Return the NLL in one pass without a sort; None if the total weight is 0.

    It equals the NLL of :func:`evaluate` up to rounding.
    """
    apply = parameters.on(test)
    weight, loss = test.add_up(partial(_losses, apply), threads=threads, columns=apply.columns).values
    return float(loss / weight) if weight > 0 else None


def _within(rows: Rows, order: NDArray[np.intp], scored: Scored) -> Within:
    codes = {"user": rows.user, "item": rows.codes}
    return {kind: auc_within(each.take(order), scored) for kind, each in codes.items() if each is not None}


def _in_memory(
    rows: Rows, order: NDArray[np.intp], scored: Scored, clusters: Clusters, slicings: Sequence[Slicing]
) -> Iterator[tuple[str, Found]]:
    """Yield the results of all rows, then of one slice at a time, so that slices reuse memory."""
    clusters = clusters.take(order)
    yield ALL_ROWS, _found(scored, clusters)
    for name, intervals, chosen in _cut(slicings, rows, order):
        yield name, _found(scored.take(chosen), clusters.take(chosen) if intervals else None)


def _found(rows: Scored, clusters: Clusters | None) -> Found:
    """Return the results of rows sorted by score."""
    placement, area = placed(rows)
    users = None if clusters is None else cluster_sums(rows, placement, clusters)
    return metrics_from(RowSums.of(rows, means_over_rows()), area), users


def _cut(
    slicings: Sequence[Slicing], rows: Rows, order: NDArray[np.intp] | None = None
) -> Iterator[tuple[str, bool, NDArray[np.intp]]]:
    """Yield (name, intervals flag, positions in ``order``) of each slice with rows.

    The slice numbers have 16 bits, so a stable argsort is a radix sort.
    """
    for slicing in slicings:
        if not slicing.parts:
            continue
        number = slicing.number_of(rows).astype(np.int16, copy=False)
        number = number if order is None else number.take(order, mode="clip")
        by_slice = np.argsort(number, kind="stable")
        bounds = np.searchsorted(number, np.arange(len(slicing.parts) + 1), sorter=by_slice)
        for (kind, name, _), (first, last) in zip(slicing.parts, pairwise(bounds.tolist()), strict=True):
            if first < last:
                yield f"{kind}:{name}", slicing.intervals, by_slice[first:last]


@dataclass
class _Counted(Additive):
    """Sums over rows, and their counts on a score grid."""

    rows: RowSums
    counts: GridCounts


@dataclass
class _Named(Additive, Generic[Each]):
    """Sums by slice key."""

    by_name: dict[str, Each]


@dataclass(frozen=True)
class _OnGrid:
    """The two passes over streamed rows, as kernels that can be sent to a cluster."""

    apply: Apply
    whole: ScoreGrid
    slice: ScoreGrid
    slicings: tuple[Slicing, ...]
    users: int

    def counted(self, rows: Rows) -> _Named[_Counted]:
        """Run the first pass on a span: sort it, cut it into slices and count it on the grids."""
        order, scored = in_order(rows.label, self.apply.of(rows), rows.weight)
        score = self.apply.score(rows)[order]

        def count(grid: ScoreGrid, part: Scored, score: Floats) -> _Counted:
            weight = None if rows.weight is None else part.weight
            counts = GridCounts.of(grid, grid.place(score), part.positive, weight)
            return _Counted(RowSums.of(part, means_over_rows()), counts)

        found = {ALL_ROWS: count(self.whole, scored, score)}
        for name, _, chosen in _cut(self.slicings, rows, order):
            found[name] = count(self.slice, scored.take(chosen), score[chosen])
        return _Named(found)

    def by_user(self, tables: dict[str, Floats], rows: Rows) -> _Named[UserSums]:
        """Run the second pass: sum by user, with placement values from the tables; rows in any order."""
        weight = weights(len(rows), rows.weight)
        scored, score = Scored(self.apply.of(rows), rows.label != 0, weight), self.apply.score(rows)
        clusters = _clusters(rows, self.users)
        cell = 2 * self.whole.place(score) + scored.positive
        found = {ALL_ROWS: cluster_sums(scored, tables[ALL_ROWS][cell], clusters)}
        cell = 2 * self.slice.place(score) + scored.positive
        for name, intervals, chosen in _cut(self.slicings, rows):
            if intervals:
                placement = tables[name][cell[chosen]]
                found[name] = cluster_sums(scored.take(chosen), placement, clusters.take(chosen))
        return _Named(found)


def _streamed(apply: Apply, test: Log, slicings: Sequence[Slicing], threads: int) -> dict[str, Found]:
    sample = test.sample(*evenly_spaced(test.n_rows), apply.columns)
    scores = np.concatenate([apply.score(rows) for rows in sample])
    grids = ScoreGrid.of(scores), ScoreGrid.of(scores, SLICE_CELLS)
    passes = _OnGrid(apply, *grids, tuple(slicings), _n_users(test))
    columns, parts = apply.columns | _columns(slicings), sum(len(each.parts) for each in slicings)
    cells = 2 * (grids[0].cells + parts * grids[1].cells)
    counted = test.add_up(
        passes.counted, threads=threads, columns=columns, n_keys=cells, span_rows=SPAN_ROWS
    ).by_name
    placements = {name: placed_cells(each.counts.mass) for name, each in counted.items()}
    by_user = partial(passes.by_user, {name: table for name, (table, _) in placements.items()})
    keys = (1 + parts) * min(passes.users, MAX_CLUSTERS)
    users = test.add_up(by_user, threads=threads, columns=columns, n_keys=keys).by_name
    return {
        name: (metrics_from(each.rows, placements[name][1]), users.get(name))
        for name, each in counted.items()
    }


def _columns(slicings: Sequence[Slicing]) -> Columns:
    return {"user", *(name for each in slicings if each.parts for name in each.columns)}


def _n_users(log: Log) -> int:
    """Return the number of users; without users, each row counts as one."""
    return log.n_rows if log.users is None else len(log.users)


def _clusters(rows: Rows, users: int) -> Clusters:
    codes = np.arange(len(rows), dtype=np.int32) if rows.user is None else rows.user
    return Clusters.of_codes(codes, users)


def _losses(apply: Apply, rows: Rows) -> Totals:
    """Return Σw and Σw·loss."""
    probability, weight, found = apply.of(rows), weights(len(rows), rows.weight), np.zeros(2)
    for part in slices(len(rows)):
        loss = weight[part] * log_loss(rows.label[part], probability[part])
        found += float(weight[part].sum()), float(np.sum(loss))
    return Totals(found)


def _applied_item_sums(apply: Apply, size: int, rows: Rows) -> Totals:
    return _item_sums(rows, apply.of(rows), size)


def _item_sums(rows: Rows, probability: Floats, size: int) -> Totals:
    sums, weight = np.zeros((4, size)), weights(len(rows), rows.weight)
    for part in slices(len(rows)):
        p, y, w = probability[part], rows.label[part], weight[part]
        codes = rows.codes[part].astype(np.intp, copy=False)
        for into, values in zip(sums, (w, w * y, w * p, w * log_loss(y, p)), strict=True):
            np.add.at(into, codes, values)
    return Totals(sums)
