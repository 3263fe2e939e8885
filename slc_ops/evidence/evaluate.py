"""One method's probabilities on a test log: metrics, slices, users' and items' sums, wherever the rows lie.

While all rows are at hand, their probabilities are one array, and the AUC is exact. Beyond 33 million rows
(half a million that lie on a cluster) they are worked out span by span in kernels
(:mod:`slc_ops.evidence.streaming`), and the AUC comes from a fine histogram of the scores; everything
else is the same sums.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.evidence.auc import auc
from slc_ops.evidence.evaluation import ALL_ROWS, Judged, Part, item_sums
from slc_ops.evidence.metrics import Metrics, evaluate
from slc_ops.evidence.slices import Slicing
from slc_ops.evidence.streaming import JudgedInPasses
from slc_ops.evidence.uncertainty import Clusters, UserSums, user_sums
from slc_ops.numerics.options import FitOptions
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.rows import Log


class Metering:
    """What one parameter set after the other is worth on a log.

    Each thread keeps the memory of its probabilities: memory that was never used costs more than a sort.
    """

    def __init__(self) -> None:
        self._kept = threading.local()

    def __call__(self, parameters: ParameterSet, test: Log, threads: int | None = None) -> Metrics:
        """The metrics of a set."""
        here = test.in_memory()
        if here is None:
            return judge(parameters, test, threads).metrics()
        kept: NDArray[np.float64] | None = getattr(self._kept, "probability", None)
        if kept is None or len(kept) != here.n_rows:
            kept = self._kept.probability = np.empty(here.n_rows)
        weight = here.weight if here.weighted else None
        return evaluate(here.label, parameters.apply(here, threads=threads, out=kept), weight, overwrite=True)


def judge(parameters: ParameterSet, test: Log, threads: int | None = None) -> Judged:
    """The method's probabilities on the log, judged where its rows lie."""
    here = test.in_memory()
    if here is not None:
        return JudgedHere(here, parameters.apply(here, threads=threads))
    return JudgedInPasses(test, parameters.on(test.items), FitOptions(threads=threads).workers)


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
