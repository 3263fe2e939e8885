"""The area under the ROC curve: exact, with mid-ranks for ties, at the speed of a sort.

With P positives and N negatives

    AUC = 1/(P·N) · Σ_{i positive} Σ_{j negative} ( 1[s_i > s_j] + ½·1[s_i = s_j] ).

Unweighted, the double sum needs no ranks and no index array. The bits of a non-negative float, read as an
unsigned integer, keep its order, so ``bits << 1 | label`` is one integer per row that carries score *and*
label; a negative float works too once its bits are flipped, and always lies before the others. Those
integers are sorted in place (two halves on two threads, then one merge); afterwards the positives stand at
known positions, and Σ position − P(P−1)/2 counts the pairs that are in order. Nothing is rounded.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from slc_ops.errors import InputError

BLOCK = 1 << 18
_ONE = np.uint64(1)


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
        return _weighted(label, score, np.asarray(weight, dtype=np.float64))
    positives = int(np.count_nonzero(label))
    negatives = label.size - positives
    if positives == 0 or negatives == 0:
        return Auc(None, reason=_one_class(label.size, positives > 0))
    in_order, tied = _count_pairs(label, score, positives)
    pairs = positives * negatives
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


def _weighted(label: np.ndarray, score: np.ndarray, weight: np.ndarray) -> Auc:
    """The same area with observation weights; rows of weight 0 do not exist."""
    if weight.shape != label.shape or (weight.size and not (weight.min() >= 0 and np.isfinite(weight.max()))):
        raise InputError("weights must be finite, at least 0, and one per row")
    kept = weight > 0
    label, score, weight = label[kept], score[kept], weight[kept]
    positives = int(np.count_nonzero(label))
    if positives in (0, label.size):
        return Auc(None, reason=_one_class(label.size, positives > 0))
    order = np.argsort(score, kind="stable")
    ranked, positive, mass = score[order], label[order] != 0, weight[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    ends = np.r_[starts[1:], ranked.size]
    below, tied, N = _masses(np.where(positive, 0.0, mass), starts, ends)
    _, won, P = _masses(np.where(positive, mass, 0.0), starts, ends)
    return Auc(float(won @ (below + tied / 2)) / (P * N), float(won @ tied) / (P * N))


def _one_class(rows: int, positive: bool) -> str:
    if rows == 0:
        return "AUC needs both classes; there are no rows"
    return f"AUC needs both classes; all {rows} labels are {int(positive)}"


def _count_pairs(label: np.ndarray, score: np.ndarray, positives: int) -> tuple[int, int]:
    """(pairs with the negative not above the positive, pairs that are tied)."""
    position_sum, tied, offset = 0, 0, 0
    for keys in _packed(label, score):
        _sort(keys)
        position_sum += _positions(keys, offset)
        tied += _tied_pairs(keys)
        offset += keys.size
    return position_sum - positives * (positives - 1) // 2, tied


def _packed(label: np.ndarray, score: np.ndarray) -> list[np.ndarray]:
    """``bits << 1 | label`` of the scores below zero and of the others, in blocks: one copy in memory."""
    starts = np.arange(0, score.size, BLOCK)
    below = np.array([np.count_nonzero(score[start : start + BLOCK] < 0) for start in starts])
    ends = np.cumsum(below)
    low, high = np.empty(ends[-1], np.uint64), np.empty(score.size - ends[-1], np.uint64)

    def pack(number: int) -> None:
        start = starts[number]
        block = score[start : start + BLOCK] + 0.0  # -0.0 becomes 0.0
        positive = label[start : start + BLOCK] != 0
        first = ends[number] - below[number]
        if below[number]:
            side = block < 0
            low[first : ends[number]] = ~block[side].view(np.uint64) << _ONE | positive[side]
            block, positive = block[~side], positive[~side]
        into = high[start - first : start - first + block.size]
        np.left_shift(block.view(np.uint64), _ONE, out=into)
        np.bitwise_or(into, positive, out=into)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(pack, range(len(starts))))
    return [part for part in (low, high) if part.size]


def _sort(keys: np.ndarray) -> None:
    """Sort in place: the halves side by side (NumPy's sort releases the GIL), then one merge of two runs."""
    if keys.size < BLOCK:
        keys.sort()
        return
    half = keys.size // 2
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(np.ndarray.sort, (keys[:half], keys[half:])))
    keys.sort(kind="stable")  # timsort: finds the two runs and merges them


def _positions(keys: np.ndarray, offset: int) -> int:
    """Σ of the positions of the positives."""
    total = 0
    for start in range(0, keys.size, BLOCK):
        places = np.flatnonzero(keys[start : start + BLOCK] & _ONE)
        total += int(places.sum()) + places.size * (start + offset)
    return total


def _tied_pairs(keys: np.ndarray) -> int:
    """Σ over scores that both classes share of (positives · negatives)."""
    total = 0
    for start in range(0, keys.size - 1, BLOCK):
        block = keys[start : start + BLOCK + 1]
        # Of one score the negatives come first; where they meet the positives only the label bit changes.
        last_negative = block[:-1][(block[1:] ^ block[:-1]) == _ONE]
        if last_negative.size:
            first = np.searchsorted(keys, last_negative, side="left")
            middle = np.searchsorted(keys, last_negative, side="right")
            end = np.searchsorted(keys, last_negative | _ONE, side="right")
            total += int((middle - first) @ (end - middle))
    return total
