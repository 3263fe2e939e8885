"""The area under the ROC curve: exact, with mid-ranks for ties, at the speed of a sort.

With P positives and N negatives

    AUC = 1/(P·N) · Σ_{i positive} Σ_{j negative} ( 1[s_i > s_j] + ½·1[s_i = s_j] ).

Unweighted, the double sum needs no ranks and no index array: of rows in order of their scores
(:mod:`slc_ops.numerics.ranking`) the positives stand at known positions, and Σ position − P(P−1)/2 counts
the pairs that are in order. Nothing is rounded.
"""

from dataclasses import dataclass

import numpy as np

from slc_ops.base.errors import InputError
from slc_ops.numerics.ranking import BLOCK, Ranked, ranked


@dataclass(frozen=True)
class Auc:
    """The area, the share of (positive, negative) pairs that are tied, or the reason why there is none."""

    value: float | None
    tied: float = 0.0
    reason: str | None = None


def auc(label: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> Auc:
    """AUC of ``score`` for 0/1 labels; ``score`` may be probabilities or logits.

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
    return area(ranked(label, score, weight))


def check_weights(label: np.ndarray, weight: np.ndarray) -> None:
    """Refuse weights that are no weights."""
    if np.shape(weight) != label.shape or (
        label.size and not (np.min(weight) >= 0 and np.isfinite(np.max(weight)))
    ):
        raise InputError("weights must be finite, at least 0, and one per row")


def area(rows: Ranked) -> Auc:
    """The area under the curve of ranked rows."""
    if rows.weight is not None:
        return _weighed_pairs(rows.score, rows.positive, rows.weight)
    positives = int(np.count_nonzero(rows.positive))
    negatives = rows.positive.size - positives
    if positives == 0 or negatives == 0:
        return Auc(None, reason=one_class(rows.positive.size, positives > 0))
    in_order = _positions(rows.positive) - positives * (positives - 1) // 2
    tied, pairs = _tied_pairs(rows.score, rows.positive), positives * negatives
    return Auc((in_order - tied / 2) / pairs, tied / pairs)


def placements(
    label: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, float, float]:
    """Each row's weight in the other class that it beats (a positive) or that beats it (a negative).

    These are DeLong's placement values before division, ties counting half: Σ_{i positive} wᵢVᵢ / (P·N) is
    the AUC, and so is the sum over the negatives. Returns (V, P, N).

    >>> V, P, N = placements(np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.4, 0.8]))
    >>> V.tolist(), P, N
    ([2.0, 1.5, 1.5, 2.0], 2.0, 2.0)
    """
    order = np.argsort(score, kind="stable")
    ranked = score[order]
    positive = label[order] != 0
    mass = np.ones(label.size) if weight is None else np.asarray(weight, dtype=np.float64)[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    ends = np.r_[starts[1:], label.size]
    below_negative, tied_negative, N = _masses(np.where(positive, 0.0, mass), starts, ends)
    below_positive, tied_positive, P = _masses(np.where(positive, mass, 0.0), starts, ends)
    group = np.repeat(np.arange(starts.size), ends - starts)
    beaten = below_negative + tied_negative / 2
    beating = P - below_positive - tied_positive / 2
    V = np.empty(label.size)
    V[order] = np.where(positive, beaten[group], beating[group])
    return V, P, N


def _masses(mass: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Per group of equal scores: the mass before it and in it; and the total."""
    cumulated = np.r_[0.0, np.cumsum(mass)]
    return cumulated[starts], cumulated[ends] - cumulated[starts], float(cumulated[-1])


def _weighed_pairs(score: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> Auc:
    """The same area with observation weights; rows of weight 0 do not exist."""
    kept = weight > 0
    score, positive, mass = score[kept], positive[kept], weight[kept]
    positives = int(np.count_nonzero(positive))
    if positives in (0, score.size):
        return Auc(None, reason=one_class(score.size, positives > 0))
    starts = np.flatnonzero(np.r_[True, score[1:] != score[:-1]])
    ends = np.r_[starts[1:], score.size]
    below, tied, N = _masses(np.where(positive, 0.0, mass), starts, ends)
    _, won, P = _masses(np.where(positive, mass, 0.0), starts, ends)
    return Auc(float(won @ (below + tied / 2)) / (P * N), float(won @ tied) / (P * N))


def one_class(rows: int, positive: bool) -> str:
    """Why there is no AUC."""
    if rows == 0:
        return "AUC needs both classes; there are no rows"
    return f"AUC needs both classes; all {rows} labels are {int(positive)}"


def _positions(positive: np.ndarray) -> int:
    """Σ of the positions of the positives."""
    total = 0
    for start in range(0, positive.size, BLOCK):
        places = np.flatnonzero(positive[start : start + BLOCK])
        total += int(places.sum()) + places.size * start
    return total


def _tied_pairs(score: np.ndarray, positive: np.ndarray) -> int:
    """Σ over scores that both classes share of (positives · negatives)."""
    total = 0
    for start in range(0, score.size - 1, BLOCK):
        part, mark = score[start : start + BLOCK + 1], positive[start : start + BLOCK + 1]
        # Of one score the negatives come first; where they meet the positives the label changes.
        meeting = np.flatnonzero((part[1:] == part[:-1]) & (mark[1:] > mark[:-1]))
        if meeting.size:
            shared = part[meeting]
            before = np.searchsorted(score, shared, side="left")
            after = np.searchsorted(score, shared, side="right")
            middle = meeting + start + 1
            total += int((middle - before) @ (after - middle))
    return total
