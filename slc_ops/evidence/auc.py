"""Compute the exact area under the ROC curve, with mid-ranks for ties, from rows sorted by score.

With weights w (ones where none are given), P the weight of the positives and N that of the negatives,

    AUC = 1/(P·N) · Σ_{i positive} Σ_{j negative} wᵢwⱼ ( 1[s_i > s_j] + ½·1[s_i = s_j] ).

Each row has a *placement value* V (DeLong): the weight in the other class that a positive beats, or that
beats a negative, ties counting half. Then Σ_{positive} wV = Σ_{negative} wV = P·N·AUC, and intervals of the
AUC follow from the sums of V by user. Sorted rows need one pass. Without weights every V is a multiple of ½
far below 2⁵³, so nothing is rounded.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.numerics.kernels import dot
from slc_ops.numerics.ranking import ranked

Floats = NDArray[np.float64]
BLOCK = 1 << 15  # rows per block, so that temporaries fit into the processor's cache


@dataclass(frozen=True)
class Auc:
    """The area and the share of tied (positive, negative) pairs; ``reason`` explains a missing value."""

    value: float | None
    tied: float = 0.0
    reason: str | None = None


@dataclass(frozen=True)
class Scored:
    """Scores (probabilities or any value to rank by) with labels and weights."""

    score: Floats
    positive: NDArray[np.bool_]
    weight: Floats

    def take(self, rows: NDArray[np.intp]) -> "Scored":
        """Return the rows at these indices, in their order."""
        weight = self.weight
        weight = ones(len(rows)) if _all_ones(weight) else weight.take(rows, mode="clip")
        return Scored(self.score.take(rows, mode="clip"), self.positive.take(rows, mode="clip"), weight)


def ones(rows: int) -> Floats:
    """Return unit weights as a broadcast view, which takes no memory."""
    return np.broadcast_to(np.float64(1.0), rows)


def weights(rows: int, weight: NDArray[Any] | None) -> Floats:
    """Return the weights as float64, ones for None."""
    return ones(rows) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)


def _all_ones(weight: Floats) -> bool:
    return weight.strides == (0,)


def auc(label: NDArray[Any], score: NDArray[Any], weight: NDArray[Any] | None = None) -> Auc:
    """Return the AUC of ``score``, probabilities or logits, for 0/1 labels.

    >>> auc(np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.4, 0.8]))
    Auc(value=0.875, tied=0.25, reason=None)
    >>> auc(np.array([1, 1]), np.array([0.1, 0.4])).reason
    'AUC needs both classes; all 2 labels are 1'
    """
    label, score = np.asarray(label), np.asarray(score, dtype=np.float64)
    if label.shape != score.shape or label.ndim != 1:
        raise InputError(f"AUC needs two columns of equal length; got {label.shape} and {score.shape}")
    if score.size and not (np.isfinite(score.min()) and np.isfinite(score.max())):
        raise InputError("AUC needs finite scores; found NaN or infinity")
    if weight is not None:
        check_weights(label, weight)
    return placed(in_order(label, score, weight)[1])[1]


def check_weights(label: NDArray[Any], weight: NDArray[Any]) -> None:
    """Raise :class:`InputError` unless weights are finite, at least 0 and one per row."""
    if np.shape(weight) != label.shape or (
        label.size and not (np.min(weight) >= 0 and np.isfinite(np.max(weight)))
    ):
        raise InputError("weights must be finite, at least 0, and one per row")


def in_order(
    label: NDArray[Any], probability: Floats, weight: NDArray[Any] | None = None
) -> tuple[NDArray[np.intp], Scored]:
    """Sort rows by probability and return (indices, rows); an evaluation sorts only here."""
    order, score, positive = ranked(label, probability)
    weight = None if weight is None else weight.take(order, mode="clip")
    return order, Scored(score, positive, weights(probability.size, weight))


def placed(rows: Scored) -> tuple[Floats, Auc]:
    """Return the placement value of each row and the area; the rows must be sorted by score.

    >>> V, area = placed(in_order(np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.4, 0.8]))[1])
    >>> V.tolist(), area.value
    ([2.0, 1.5, 1.5, 2.0], 0.875)
    """
    score, size, V = rows.score, rows.score.size, np.empty(rows.score.size)
    P, total = float(np.einsum("i,i->", rows.weight, rows.positive)), float(rows.weight.sum())
    below_positive = below_negative = tied = 0.0
    first = 0
    while first < size:
        last = min(first + BLOCK, size)
        if last < size and score[last] == score[last - 1]:  # equal scores share a block
            last = int(np.searchsorted(score, score[last], side="right"))
        here, weight = rows.positive[first:last], rows.weight[first:last]
        positive = weight * here
        negative = weight - positive
        new = np.append(True, score[first + 1 : last] != score[first : last - 1])
        starts = None if new.all() else np.flatnonzero(new)
        if starts is not None:
            positive, negative = np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)
            tied += dot(positive, negative)
        beaten, beating = np.cumsum(negative), np.cumsum(positive)
        upto_negative, upto_positive = float(beaten[-1]), float(beating[-1])
        beaten += below_negative
        np.subtract(P - below_positive, beating, out=beating)
        if starts is not None:
            beaten -= negative / 2
            beating += positive / 2
            sizes = np.diff(np.append(starts, last - first))
            beaten, beating = np.repeat(beaten, sizes), np.repeat(beating, sizes)
        np.copyto(beating, beaten, where=here)
        V[first:last] = beating
        below_negative, below_positive = below_negative + upto_negative, below_positive + upto_positive
        first = last
    N = below_negative
    if not (P > 0 and N > 0):
        counted = size if _all_ones(rows.weight) else int(np.count_nonzero(rows.weight))
        return V, Auc(None, reason=_one_class(counted if total > 0 else 0, P > 0))
    return V, Auc(dot(rows.weight, V) / 2 / (P * N), tied / (P * N))


def placed_cells(mass: NDArray[Any]) -> tuple[Floats, Auc]:
    """Return :func:`placed` for the cells of a grid; each cell is a negative and a positive row of one score.

    ``mass`` alternates between the weight of a cell's negatives and that of its positives.
    """
    index = np.arange(mass.size)
    cells = (index // 2).astype(np.float64)
    return placed(Scored(cells, index % 2 == 1, mass.astype(np.float64)))


def _one_class(rows: int, positive: bool) -> str:
    """Return the reason for a missing AUC."""
    if rows == 0:
        return "AUC needs both classes; there are no rows"
    return f"AUC needs both classes; all {rows} labels are {int(positive)}"
