"""One method's probabilities on a test log: metrics, slices, users' and items' sums, wherever the rows lie.

In this process the probabilities of all rows are one array, and the AUC is exact. On a cluster they are
worked out span by span in kernels, and the AUC and the placement values come from a fine histogram of the
scores (:mod:`slc_ops.correction.scorecells` states its error); everything else is the same sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slc_ops.correction.parameters import Apply, ParameterSet
from slc_ops.correction.ranking import ranked
from slc_ops.correction.scorecells import MOST_CELLS, SPAN_ROWS, ScoreCells
from slc_ops.evidence.auc import Auc, auc, one_class, placements
from slc_ops.evidence.metrics import Metrics, RowSums, evaluate, log_loss, metrics_of, no_rows, row_sums
from slc_ops.evidence.slices import Kind, Slicing
from slc_ops.evidence.uncertainty import MAX_CLUSTERS, Clusters, UserSums, cluster_sums, user_sums
from slc_ops.logs.interactions import InteractionLog
from slc_ops.logs.passes import Totals
from slc_ops.logs.rows import Log, Rows

ALL_ROWS = "all"
SLICE_CELLS = 1 << 14  # of a slice's histogram: exact up to so many different scores, then within 1e-4


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


class Judged(Protocol):
    """What one method is worth on a test log."""

    def metrics(self) -> Metrics: ...

    def tied_logits(self) -> float: ...

    def parts(self, slicings: Sequence[Slicing]) -> list[Part]: ...

    def users(self, slicings: Sequence[Slicing]) -> dict[str, UserSums]: ...

    def items(self) -> NDArray[np.float64]:
        """Per item of the log: rows, Σ label, Σ prediction, Σ loss."""
        ...


def judge(parameters: ParameterSet, test: Log) -> Judged:
    """The method's probabilities on the log, judged where its rows lie."""
    if isinstance(test, InteractionLog):
        return JudgedHere(test, parameters.apply(test))
    return JudgedThere(test, parameters.on(test.items))


@dataclass(frozen=True)
class JudgedHere:
    """All rows in this process."""

    test: InteractionLog
    probability: NDArray[np.float64]

    @property
    def weight(self) -> NDArray[np.float64] | None:
        """The rows' weights, where the log has them."""
        return self.test.weight if self.test.weighted else None

    def metrics(self) -> Metrics:
        """Of all rows."""
        return evaluate(self.test.label, self.probability, self.weight)

    def tied_logits(self) -> float:
        """The share of pairs that the backbone itself cannot tell apart."""
        return auc(self.test.label, self.test.logit, self.weight).tied

    def parts(self, slicings: Sequence[Slicing]) -> list[Part]:
        """Metrics of every slice."""
        found = []
        for slicing in slicings:
            for part in slicing.of(self.test):
                label, probability, weight, _ = self._rows(part.rows)
                metrics = evaluate(label, probability, weight)
                found.append(Part(part.kind, part.name, part.label, metrics))
        return found

    def users(self, slicings: Sequence[Slicing]) -> dict[str, UserSums]:
        """The users' sums of all rows and of every slice that has any."""
        clusters = Clusters.of(self.test.user_codes, self.test.n_rows)
        found = {ALL_ROWS: user_sums(self.test.label, self.probability, clusters, self.weight)}
        for slicing in slicings:
            for part in slicing.of(self.test):
                if part.rows.any():
                    label, probability, weight, rows = self._rows(part.rows)
                    sums = user_sums(label, probability, clusters.take(rows), weight)
                    found[f"{part.kind}:{part.name}"] = sums
        return found

    def items(self) -> NDArray[np.float64]:
        """Per item: rows, Σ label, Σ prediction, Σ loss."""
        log = self.test
        return item_sums(log.item_codes, log.label, self.probability, len(log.items)).values

    def _rows(self, mask: NDArray[Any]) -> tuple[Any, Any, Any, NDArray[np.intp]]:
        rows = np.flatnonzero(mask)
        weight = None if self.weight is None else self.weight[rows]
        return self.test.label[rows], self.probability[rows], weight, rows


def item_sums(codes: NDArray[Any], label: NDArray[Any], probability: NDArray[Any], size: int) -> Totals:
    """Per item: rows, Σ label, Σ prediction, Σ loss."""
    columns = (None, label, probability, log_loss(label, probability))
    return Totals(np.array([np.bincount(codes, values, size) for values in columns], dtype=np.float64))


# --- on a cluster ----------------------------------------------------------------------------


@dataclass
class Sums:
    """Sums over some rows, and the histogram of their scores."""

    rows: RowSums
    cells: ScoreCells

    def add(self, other: "Sums") -> None:
        """Take up further rows."""
        self.rows.add(other.rows)
        self.cells.add(other.cells)

    @classmethod
    def of(
        cls, label: NDArray[Any], probability: NDArray[Any], weight: NDArray[Any] | None, limit: int
    ) -> "Sums":
        """Of some rows."""
        in_order = ranked(label, probability, weight)
        return cls(
            row_sums(in_order),
            ScoreCells.of_ranked(in_order.score, in_order.positive, in_order.weight, limit),
        )

    def metrics(self) -> Metrics:
        """All metrics; the AUC from the histogram."""
        return metrics_of(self.rows, area_of(self.cells, int(self.rows.n.sum())))


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


def area_of(cells: ScoreCells, rows: int) -> Auc:
    """The area under the curve of a histogram; ``tied`` bounds what it cannot tell apart."""
    both = cells.positive.sum() > 0, cells.negative.sum() > 0
    if not all(both):
        return Auc(None, reason=one_class(rows, both[0]))
    return auc(*as_rows(cells))


def as_rows(cells: ScoreCells) -> tuple[NDArray[np.int8], NDArray[np.float64], NDArray[np.float64]]:
    """A histogram as labels, scores (the cells' numbers) and weights."""
    label, weight = cells.as_rows()
    return label, np.tile(np.arange(len(cells.cell), dtype=np.float64), 2), weight


@dataclass(frozen=True)
class Placed:
    """Placement values by cell: of a positive row, and of a negative one."""

    cells: ScoreCells
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]

    @classmethod
    def of(cls, cells: ScoreCells) -> "Placed":
        """Work them out once for all rows of a cell."""
        value, _, _ = placements(*as_rows(cells))
        return cls(cells, *np.split(value, 2))

    def values(self, label: NDArray[Any], probability: NDArray[Any]) -> NDArray[np.float64]:
        """The placement value of each row."""
        place = self.cells.place_of(probability)
        return np.asarray(np.where(label != 0, self.positive[place], self.negative[place]))


@dataclass(frozen=True)
class JudgedThere:
    """Rows on a cluster: a pass for the metrics, one for the slices, one for users and one for items."""

    test: Log
    apply: Apply

    @cached_property
    def _sums(self) -> Sums:
        return self.test.add_up(
            partial(_sums, self.apply), time=self.apply.needs_time, n_keys=MOST_CELLS, span_rows=SPAN_ROWS
        )

    def metrics(self) -> Metrics:
        """Of all rows."""
        return self._sums.metrics()

    def tied_logits(self) -> float:
        """Logits that the histogram of their probabilities cannot tell apart count as tied, too."""
        return self._sums.metrics().tied

    def parts(self, slicings: Sequence[Slicing]) -> list[Part]:
        """Metrics of every slice."""
        found = self._of_slices(slicings)
        parts = [part for slicing in slicings for part in slicing.parts]
        empty = Sums(no_rows(), ScoreCells(0, np.empty(0, np.int64), np.empty(0), np.empty(0)))
        return [
            Part(kind, name, label, found.get(f"{kind}:{name}", empty).metrics())
            for kind, name, label in parts
        ]

    def users(self, slicings: Sequence[Slicing]) -> dict[str, UserSums]:
        """The users' sums of all rows and of every slice that has any."""
        placed = {name: Placed.of(sums.cells) for name, sums in self._of_slices(slicings).items()}
        placed[ALL_ROWS] = Placed.of(self._sums.cells)
        n_users = self.test.n_rows if self.test.users is None else len(self.test.users)
        kernel = partial(_user_sums, self.apply, tuple(slicings), placed, n_users)
        found = self.test.add_up(
            kernel, user=True, **self._needs(slicings), n_keys=len(placed) * min(n_users, MAX_CLUSTERS)
        )
        order = [ALL_ROWS, *(f"{kind}:{name}" for each in slicings for kind, name, _ in each.parts)]
        return {name: found.by_name[name] for name in order if name in found.by_name}

    def items(self) -> NDArray[np.float64]:
        """Per item: rows, Σ label, Σ prediction, Σ loss."""
        size = len(self.test.items)
        kernel = partial(_item_sums, self.apply, size)
        return self.test.add_up(kernel, time=self.apply.needs_time, n_keys=size).values

    def _of_slices(self, slicings: Sequence[Slicing]) -> dict[str, Sums]:
        if not slicings:
            return {}
        kernel = partial(_slice_sums, self.apply, tuple(slicings))
        keys = SLICE_CELLS * sum(len(slicing.parts) for slicing in slicings)
        found: Named = self.test.add_up(kernel, **self._needs(slicings), n_keys=keys, span_rows=SPAN_ROWS)
        return found.by_name

    def _needs(self, slicings: Sequence[Slicing]) -> dict[str, bool]:
        time = self.apply.needs_time or any(slicing.time for slicing in slicings)
        return {"time": time, "group": any(slicing.group for slicing in slicings)}


def _sums(apply: Apply, rows: Rows) -> Sums:
    return Sums.of(rows.label, apply.of(rows), rows.weight, MOST_CELLS)


def _item_sums(apply: Apply, size: int, rows: Rows) -> Totals:
    return item_sums(rows.codes, rows.label, apply.of(rows), size)


def _slice_sums(apply: Apply, slicings: tuple[Slicing, ...], rows: Rows) -> Named:
    probability = apply.of(rows)
    found = {}
    for name, mask in _slices_of(slicings, rows):
        weight = None if rows.weight is None else rows.weight[mask]
        found[name] = Sums.of(rows.label[mask], probability[mask], weight, SLICE_CELLS)
    return Named(found)


def _user_sums(
    apply: Apply, slicings: tuple[Slicing, ...], placed: dict[str, Placed], n_users: int, rows: Rows
) -> Named:
    assert rows.user is not None  # noqa: S101 - the pass asked for users
    probability, label = apply.of(rows), rows.label.astype(np.float64)
    count = min(n_users, MAX_CLUSTERS)
    clusters = Clusters(rows.user % count, count, n_users)
    found = {}
    every = np.arange(len(rows))
    for name, chosen in [(ALL_ROWS, every), *_slices_of(slicings, rows)]:
        weight = None if rows.weight is None else rows.weight[chosen]
        value = placed[name].values(label[chosen], probability[chosen])
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
