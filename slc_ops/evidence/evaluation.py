"""What can be asked about one method on a test log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slc_ops.evidence.metrics import Metrics, log_loss
from slc_ops.evidence.slices import Kind, Slicing
from slc_ops.evidence.uncertainty import UserSums
from slc_ops.rows.passes import Totals

ALL_ROWS = "all"


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


def item_sums(codes: NDArray[Any], label: NDArray[Any], probability: NDArray[Any], size: int) -> Totals:
    """Per item: rows, Σ label, Σ prediction, Σ loss."""
    columns = (None, label, probability, log_loss(label, probability))
    return Totals(np.array([np.bincount(codes, values, size) for values in columns], dtype=np.float64))
