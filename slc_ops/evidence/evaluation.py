"""One parameter set on a log: metrics, slices, users' and items' sums, whatever its size and place.

All of them are sums of kernels over spans of rows. A log in memory is one span, its probabilities are worked
out once, and its AUC is exact; beyond 33 million rows (half a million that lie on a cluster) spans stream by
and the AUC comes from a fine histogram of the scores. That is the only difference, and the two ways lie in
:mod:`slc_ops.evidence.ordering`.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from slc_ops.evidence.auc import Auc
from slc_ops.evidence.in_order import InOrder, sums_of
from slc_ops.evidence.metrics import Metrics, check_scored, log_loss, totals
from slc_ops.evidence.ordering import Exact, OnGrid, Ordering, Placed, Scored, Sorted, Sums
from slc_ops.evidence.row_sums import Block, RowSums
from slc_ops.evidence.slices import Kind, Slicing
from slc_ops.evidence.uncertainty import MAX_CLUSTERS, Clusters, UserSums, cluster_sums
from slc_ops.evidence.user_keys import UsersOf, clusters_of, n_users
from slc_ops.methods.fitting.options import FitOptions
from slc_ops.numerics.kernels import slices
from slc_ops.numerics.score_grid import SPAN_ROWS, ScoreGrid
from slc_ops.parameters.parameter_set import Apply, ParameterSet
from slc_ops.rows.passes import Addable, Partial, Totals, evenly_spaced
from slc_ops.rows.rows import NO_COLUMNS, Columns, Kernel, Log, Rows

ALL_ROWS = "all"
SLICE_CELLS = 1 << 14  # of a slice's grid, which keeps its AUC within 1e-4

Each = TypeVar("Each", bound=Addable)


@dataclass(frozen=True)
class Part:
    """A slice with its metrics."""

    kind: Kind
    name: str
    label: str
    metrics: Metrics

    @property
    def key(self) -> str:
        """Its name among the users' sums."""
        return f"{self.kind}:{self.name}"


def evaluate(
    parameters: ParameterSet,
    test: Log,
    threads: int | None = None,
    *,
    users: UsersOf | None = None,
    out: NDArray[np.float64] | None = None,
) -> "Evaluation":
    """What a parameter set is worth on a log, evaluated where its rows lie.

    ``users`` are the log's, where several sets are evaluated on it; ``out`` is memory for the probabilities
    of its rows.
    """
    log = test.in_memory()
    if log is not None:
        ordering = Sorted(log, parameters.apply(log, threads=threads, out=out))
        if log.weighted:
            return Evaluation(log, ordering, ordering)
        # A set that is evaluated alone would pay for the order of the logits itself.
        score_alone = users is not None and parameters.items is None and not parameters.needs_time
        shared = users or UsersOf(log)
        return EvaluationInOrder(log, ordering, ordering, shared=shared, score_alone=score_alone)
    apply = parameters.on(test.items)
    sample = test.sample(*evenly_spaced(test.n_rows), apply.columns)
    scores = np.concatenate([apply.score(rows) for rows in sample])
    whole, slices = OnGrid(apply, ScoreGrid.of(scores)), OnGrid(apply, ScoreGrid.of(scores, SLICE_CELLS))
    return Evaluation(test, whole, slices, FitOptions(threads=threads).workers)


def mean_log_loss(parameters: ParameterSet, test: Log, threads: int = 1) -> float | None:
    """The NLL alone, by one pass without a sort; None where no row counts.

    Equal to :func:`evaluate`'s up to rounding, which is enough to choose by.
    """
    apply = parameters.on(test.items)
    kernel = partial(_losses, apply)
    weight, loss = test.add_up(kernel, threads=threads, columns=apply.columns).values
    return float(loss / weight) if weight > 0 else None


class Evaluator:
    """The metrics of one parameter set after the other on a log.

    Each thread keeps the memory of its probabilities: memory that was never used costs more than a sort.
    """

    def __init__(self) -> None:
        self._kept = threading.local()

    def __call__(self, parameters: ParameterSet, test: Log, threads: int | None = None) -> Metrics:
        """The metrics of a set."""
        log = test.in_memory()
        if log is None:
            return evaluate(parameters, test, threads).metrics()
        probability = parameters.apply(log, threads=threads, out=self.memory(log.n_rows))
        ordering = Sorted(log, probability, overwrite=True)
        return Evaluation(log, ordering, ordering).metrics()

    def memory(self, rows: int) -> NDArray[np.float64]:
        """This thread's memory for the probabilities of so many rows."""
        kept: NDArray[np.float64] | None = getattr(self._kept, "probability", None)
        if kept is None or len(kept) != rows:
            kept = self._kept.probability = np.empty(rows)
        return kept


@dataclass(frozen=True)
class Evaluation:
    """One parameter set on one log; ``ordering`` is that of all rows, ``slice_ordering`` that of a slice."""

    test: Log
    ordering: Ordering
    slice_ordering: Ordering
    threads: int = 1

    def metrics(self) -> Metrics:
        """Of all rows."""
        return self._all.metrics()

    def tied_logits(self) -> float:
        """Of the backbone itself: the share of pairs that its logits cannot tell apart."""
        return self.ordering.tied_logits(self.metrics())

    def parts(self, slicings: Sequence[Slicing]) -> list[Part]:
        """Metrics of every slice."""
        found = self._of_slices(slicings)
        empty = Sums(RowSums.empty(totals()), Exact(Auc(None)))
        return [
            Part(kind, name, label, found.get(f"{kind}:{name}", empty).metrics())
            for slicing in slicings
            for kind, name, label in slicing.parts
        ]

    def users(self, slicings: Sequence[Slicing]) -> dict[str, UserSums]:
        """The users' sums of all rows and of every slice that has any."""
        placed = self._placed(slicings)
        users = n_users(self.test)
        names = [ALL_ROWS, *(f"{kind}:{name}" for each in slicings for kind, name, _ in each.parts)]
        kernel = partial(_user_sums, self.ordering, tuple(slicings), placed, users)
        n_keys = len(names) * min(users, MAX_CLUSTERS)
        found = self._over(kernel, slicings, n_keys, extra={"user"}).by_name
        return {name: found[name] for name in names if name in found}

    def items(self) -> NDArray[np.float64]:
        """Per item of the log: Σ weight, Σ label, Σ prediction, Σ loss, all weighted."""
        size = len(self.test.items)
        return self._over(partial(_item_sums, self.ordering, size), (), size).values

    @cached_property
    def _all(self) -> Sums:
        return self._over(partial(_sums, self.ordering), (), self.ordering.n_keys, SPAN_ROWS)

    def _of_slices(self, slicings: Sequence[Slicing]) -> dict[str, Sums]:
        if not any(slicing.parts for slicing in slicings):
            return {}
        kernel = partial(_slice_sums, self.slice_ordering, tuple(slicings))
        n_keys = self.slice_ordering.n_keys * sum(len(slicing.parts) for slicing in slicings)
        return self._over(kernel, slicings, n_keys, SPAN_ROWS).by_name

    def _placed(self, slicings: Sequence[Slicing]) -> dict[str, Placed]:
        """Placement values by cell, of all rows and of every slice; none where rows are sorted anyway."""
        whole, slices = self.ordering, self.slice_ordering
        if not (isinstance(whole, OnGrid) and isinstance(slices, OnGrid)):
            return {}
        found = {name: slices.placed(sums) for name, sums in self._of_slices(slicings).items()}
        return {ALL_ROWS: whole.placed(self._all), **found}

    def _over(
        self,
        kernel: Kernel[Partial],
        slicings: Sequence[Slicing],
        n_keys: int,
        span_rows: int | None = None,
        extra: Columns = NO_COLUMNS,
    ) -> Partial:
        """The kernel's sums over all rows, with the columns that it needs."""
        return self.test.add_up(
            kernel,
            threads=self.threads,
            columns=self.ordering.columns | extra | {name for each in slicings for name in each.columns},
            n_keys=n_keys,
            span_rows=self.ordering.span_rows or span_rows,
        )


@dataclass(frozen=True)
class EvaluationInOrder(Evaluation):
    """The same of rows in memory without weights, which are sorted once for all slices and all users.

    ``shared`` is what all parameter sets on the log have in common. Where a set looks at the ``score_alone``,
    its probabilities mostly rise with the logits, and its rows need no sort of their own.
    """

    shared: UsersOf = field(kw_only=True)
    score_alone: bool = field(kw_only=True, default=False)

    @cached_property
    def _in_order(self) -> InOrder:
        scored = self.ordering.scored(self._rows(NO_COLUMNS))
        check_scored(scored.label, scored.probability)
        shared = self.shared  # not self: a circle would keep the rows' order until somebody looks for circles
        likely = (lambda: shared.by_logit) if self.score_alone else None
        return InOrder(scored.label, scored.probability, self.shared.clusters[0], likely)

    @cached_property
    def _all(self) -> Sums:
        return sums_of(self._in_order.whole.ranked)

    def _of_slices(self, slicings: Sequence[Slicing]) -> dict[str, Sums]:
        found: dict[str, Sums] = {}
        for slicing in (each for each in slicings if each.parts):
            if slicing.parts not in self._sums_of_slices:
                self._cut(slicing)
            found |= self._sums_of_slices[slicing.parts]
        return found

    def users(self, slicings: Sequence[Slicing]) -> dict[str, UserSums]:
        """The users' sums of all rows and of every slice that has any."""
        cut = [each for each in slicings if each.parts]
        keysets = [self.shared.keys(), *(self.shared.keys(each) for each in cut)]
        losses = self._in_order.losses(keysets)
        whole = {0: self._in_order.whole.placements(self.shared.clusters[1])}
        placements = [whole, *(self._cut(each, users=True) for each in cut)]
        found = {}
        for slicing, keys, means, placed in zip([None, *cut], keysets, losses, placements, strict=True):
            for k, placement in placed.items():
                name = ALL_ROWS if slicing is None else _key(slicing, k)
                positive, rows = keys.positive[k], keys.rows[k]
                own = {metric: sums[k] for metric, sums in means.items()}
                found[name] = UserSums(positive, rows - positive, placement, own, int(rows.sum()))
        return found

    def items(self) -> NDArray[np.float64]:
        """Per item of the log: Σ weight, Σ label, Σ prediction, Σ loss."""
        codes, size = self._rows(NO_COLUMNS).codes, len(self.test.items)
        return np.concatenate([self.shared.items, self._in_order.items(codes, size)])

    def _cut(self, slicing: Slicing, *, users: bool = False) -> dict[int, NDArray[np.float64]]:
        """The users' placement sums by slice, where asked for; what the slices' metrics need is kept."""
        number = slicing.number_of(self._rows(slicing.columns))
        sums, placements = self._sums_of_slices.setdefault(slicing.parts, {}), {}
        for k, rows in self._in_order.cut(number, self.shared.sizes(slicing)):
            sums[_key(slicing, k)] = sums_of(rows.ranked)
            if users:
                placements[k] = rows.placements(self.shared.clusters[1])
        return placements

    @cached_property
    def _sums_of_slices(self) -> dict[tuple[Any, ...], dict[str, Sums]]:
        return {}

    def _rows(self, columns: Columns) -> Rows:
        return self.test.sample([0], self.test.n_rows, columns)[0]


def _key(slicing: Slicing, part: int) -> str:
    kind, name, _ = slicing.parts[part]
    return f"{kind}:{name}"


@dataclass
class Named(Generic[Each]):
    """Sums by name."""

    by_name: dict[str, Each]

    def add(self, other: "Named[Each]") -> None:
        """Take up further rows."""
        for name, sums in other.by_name.items():
            if name in self.by_name:
                self.by_name[name].add(sums)
            else:
                self.by_name[name] = sums


def item_sums(codes: NDArray[Any], rows: Scored, size: int) -> Totals:
    """Per item: Σw, Σ w·label, Σ w·prediction, Σ w·loss; Σw without weights is the number of rows."""
    columns = (None, rows.label, rows.probability, log_loss(rows.label, rows.probability))

    def per_item(values: NDArray[Any] | None) -> NDArray[Any]:
        mass = values if rows.weight is None else rows.weight if values is None else rows.weight * values
        return np.bincount(codes, mass, size)

    return Totals(np.array([per_item(values) for values in columns], dtype=np.float64))


def _losses(apply: Apply, rows: Rows) -> Totals:
    """Σw and Σw·loss."""
    total, found = totals()["nll"], np.zeros(2)
    probability = apply.of(rows)
    for part in slices(len(rows)):
        weight = None if rows.weight is None else rows.weight[part].astype(np.float64)
        block = Block(rows.label[part], probability[part], weight)
        found += len(block.label) if weight is None else float(weight.sum()), total(block)
    return Totals(found)


def _sums(ordering: Ordering, rows: Rows) -> Sums:
    return ordering.sums(ordering.scored(rows))


def _slice_sums(ordering: Ordering, slicings: tuple[Slicing, ...], rows: Rows) -> Named[Sums]:
    scored = ordering.scored(rows)
    return Named({name: ordering.sums(scored.chosen(chosen)) for name, chosen in _slices(slicings, rows)})


def _user_sums(
    ordering: Ordering, slicings: tuple[Slicing, ...], placed: dict[str, Placed], users: int, rows: Rows
) -> Named[UserSums]:
    scored = ordering.scored(rows)
    clusters = Clusters(*clusters_of(rows, users))

    def sums(name: str, part: Scored, clusters: Clusters) -> UserSums:
        value = ordering.placements(part, placed.get(name))
        return cluster_sums(part.label, part.probability, value, clusters, part.weight)

    found = {ALL_ROWS: sums(ALL_ROWS, scored, clusters)}
    for name, chosen in _slices(slicings, rows):
        found[name] = sums(name, scored.chosen(chosen), clusters.take(chosen))
    return Named(found)


def _item_sums(ordering: Ordering, size: int, rows: Rows) -> Totals:
    return item_sums(rows.codes, ordering.scored(rows), size)


def _slices(slicings: Sequence[Slicing], rows: Rows) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The slices that have rows here, with their rows."""
    for slicing in slicings:
        if not slicing.parts:
            continue
        number = slicing.number_of(rows)
        for k, (kind, name, _) in enumerate(slicing.parts):
            chosen = np.flatnonzero(number == k)
            if len(chosen):
                yield f"{kind}:{name}", chosen
