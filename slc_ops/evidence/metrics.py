"""What a column of probabilities is worth against 0/1 labels.

    NLL = −mean( y·log p + (1−y)·log(1−p) )     with p clipped to [1e-6, 1 − 1e-6]
    Brier = mean (p − y)²
    ECE = Σ_bins share of rows · | mean y − mean p |,  15 equal-width bins, closed on the right
    accuracy = share of rows with y = 1[p ≥ ½]

All means are weighted when weights are given. The AUC needs the rows in the order of their probabilities; in
that order a bin is a stretch of rows, so everything is summed stretch by stretch. Without weights, the
order in which the rows came changes no bit. A metric that is undefined is ``None`` and ``reasons`` says
why; it is never NaN and never a number that looks like a result.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from slc_ops.base.errors import InputError
from slc_ops.evidence.auc import Auc, area, check_weights
from slc_ops.numerics.curves import bin_of
from slc_ops.numerics.kernels import dot, sum_of_logs
from slc_ops.numerics.ranking import BLOCK, Ranked, ranked

CLIP = 1e-6
BINS = 15
NAMES = ("auc", "nll", "brier", "ece", "accuracy")
_FACTORS = 32  # CLIP to this power is far above the smallest float
_EDGES = np.linspace(0.0, 1.0, BINS + 1)


@dataclass(frozen=True)
class ReliabilityBin:
    """One bar of the reliability diagram: rows with ``low < p ≤ high`` (the first bin includes 0)."""

    low: float
    high: float
    n: int
    weight: float
    mean_prediction: float | None
    mean_label: float | None


@dataclass(frozen=True)
class Metrics:
    """All metrics of one method on one set of rows."""

    n: int
    weight: float
    positive_rate: float | None
    auc: float | None
    nll: float | None
    brier: float | None
    ece: float | None
    accuracy: float | None
    tied: float = 0.0
    reasons: dict[str, str] = field(default_factory=dict)
    reliability: tuple[ReliabilityBin, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, without the reliability bins."""
        values = {name: getattr(self, name) for name in ("n", "weight", "positive_rate", *NAMES)}
        return {**values, "reasons": dict(self.reasons)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Metrics":
        """Read what :meth:`as_dict` wrote."""
        return cls(**value)


def evaluate(
    label: np.ndarray, probability: np.ndarray, weight: np.ndarray | None = None, *, overwrite: bool = False
) -> Metrics:
    """All metrics by one sort and one pass; with ``overwrite`` the probabilities may be put in disorder.

    >>> m = evaluate(np.array([0, 1, 1, 0]), np.array([0.2, 0.8, 0.6, 0.6]))
    >>> m.auc, round(m.nll, 4), round(m.brier, 2), m.accuracy
    (0.875, 0.4684, 0.15, 0.75)
    >>> evaluate(np.array([1, 1]), np.array([0.9, 0.8])).reasons["auc"]
    'AUC needs both classes; all 2 labels are 1'
    """
    label, probability = np.asarray(label), np.asarray(probability, dtype=np.float64)
    _check(label, probability, weight)
    if label.size == 0 or (weight is not None and not np.any(weight)):
        return metrics_of(no_rows(label.size), Auc(None))
    rows = ranked(label, probability, weight, overwrite=overwrite)
    return metrics_of(row_sums(rows), area(rows))


def metrics_of(sums: "RowSums", found: Auc) -> Metrics:
    """All metrics from the sums over the rows and the area under their curve."""
    total = float(sums.weight.sum())
    if total <= 0:
        reason = "there are no rows" if sums.n.sum() == 0 else "all weights are 0"
        return Metrics(int(sums.n.sum()), 0.0, *(None,) * 6, reasons=dict.fromkeys(NAMES, reason))
    gaps = np.abs(sums.label - sums.prediction)
    return Metrics(
        n=int(sums.n.sum()),
        weight=total,
        positive_rate=float(sums.label.sum()) / total,
        auc=found.value,
        nll=sums.loss / total,
        brier=sums.squared / total,
        ece=float(gaps.sum()) / total,
        accuracy=sums.right / total,
        tied=found.tied,
        reasons={} if found.reason is None else {"auc": found.reason},
        reliability=_bins(sums),
    )


def log_loss(label: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Each row's negative log likelihood, with the contract's clipping.

    >>> log_loss(np.array([1, 0]), np.array([1.0, 1.0])).round(4).tolist()
    [0.0, 13.8155]
    """
    of_label = np.where(label != 0, probability, 1.0 - probability)
    loss: np.ndarray = -np.log(np.clip(of_label, CLIP, 1.0 - CLIP))
    return loss


@dataclass
class RowSums:
    """Sums over the rows of each bin; the last three over all rows."""

    n: np.ndarray
    weight: np.ndarray
    prediction: np.ndarray
    label: np.ndarray
    loss: float
    squared: float
    right: float

    def add(self, other: "RowSums") -> None:
        """Take up further rows."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def no_rows(count: int = 0) -> RowSums:
    """The sums of rows that do not count."""
    n = np.zeros(BINS)
    n[0] = count
    return RowSums(n, np.zeros(BINS), np.zeros(BINS), np.zeros(BINS), 0.0, 0.0, 0.0)


def row_sums(rows: Ranked) -> RowSums:
    """Everything but the AUC."""
    p, y, w = rows.score, rows.positive, rows.weight
    edges = np.searchsorted(p, _EDGES[1:-1], side="right")
    half = np.searchsorted(p, 0.5, side="left")
    cuts = np.unique([0, *edges, half, p.size])
    starts, n = cuts[:-1], np.diff(cuts)
    weight = n if w is None else np.add.reduceat(w, starts)
    # Counted stretch by stretch: a sum of booleans would turn all rows into numbers first.
    label = np.add.reduceat(w * y, starts) if w is not None else _counts(y, cuts)
    prediction = np.add.reduceat(p if w is None else w * p, starts)
    loss, squared = np.sum([_errors(rows, start) for start in range(0, p.size, BLOCK)], axis=0)
    bins = np.searchsorted(edges, starts, side="right")

    def per_bin(values: np.ndarray) -> np.ndarray:
        return np.bincount(bins, values, BINS)

    return RowSums(
        n=per_bin(n),
        weight=per_bin(weight),
        prediction=per_bin(prediction),
        label=per_bin(label),
        loss=float(loss),
        squared=float(squared),
        right=float(np.sum(np.where(starts >= half, label, weight - label))),
    )


def _counts(marked: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """How many are marked between each cut and the next."""
    stretches = pairwise(cuts)
    return np.array([np.count_nonzero(marked[first:last]) for first, last in stretches], dtype=np.float64)


def unordered_sums(label: np.ndarray, probability: np.ndarray, weight: np.ndarray | None) -> RowSums:
    """The same of rows in any order, block by block."""
    total = no_rows()
    for start in range(0, label.size, BLOCK):
        block = slice(start, start + BLOCK)
        total.add(_block_sums(Ranked(probability[block], label[block], _part(weight, block))))
    return total


def _block_sums(rows: Ranked) -> RowSums:
    bins = bin_of(rows.score, BINS)

    def per_bin(values: np.ndarray | None) -> np.ndarray:
        mass = values if rows.weight is None else rows.weight if values is None else values * rows.weight
        return np.bincount(bins, mass, BINS).astype(np.float64)

    loss, squared = _errors(rows, 0)
    right = (rows.score >= 0.5) == (rows.positive != 0)
    return RowSums(
        n=np.bincount(bins, minlength=BINS).astype(np.float64),
        weight=per_bin(None),
        prediction=per_bin(rows.score),
        label=per_bin(rows.positive.astype(np.float64)),
        loss=loss,
        squared=squared,
        right=float(np.count_nonzero(right) if rows.weight is None else rows.weight[right].sum()),
    )


def _part(values: np.ndarray | None, part: slice) -> np.ndarray | None:
    return None if values is None else values[part]


def _errors(rows: Ranked, start: int) -> tuple[float, float]:
    """Σ −log-likelihood and Σ squared error of a block."""
    span = slice(start, start + BLOCK)
    of_label = np.abs((1.0 - rows.positive[span]) - rows.score[span])
    wrong = 1.0 - of_label
    np.clip(of_label, CLIP, 1.0 - CLIP, out=of_label)
    weight = _part(rows.weight, span)
    if weight is None:
        return -sum_of_logs(of_label, _FACTORS), dot(wrong, wrong)
    return -dot(weight, np.log(of_label)), dot(weight, wrong * wrong)


def _bins(sums: RowSums) -> tuple[ReliabilityBin, ...]:
    def mean(total: float, mass: float) -> float | None:
        return total / mass if mass > 0 else None

    return tuple(
        ReliabilityBin(
            low=float(_EDGES[k]),
            high=float(_EDGES[k + 1]),
            n=int(sums.n[k]),
            weight=float(sums.weight[k]),
            mean_prediction=mean(float(sums.prediction[k]), float(sums.weight[k])),
            mean_label=mean(float(sums.label[k]), float(sums.weight[k])),
        )
        for k in range(BINS)
    )


def _check(label: np.ndarray, probability: np.ndarray, weight: np.ndarray | None) -> None:
    if label.shape != probability.shape or label.ndim != 1:
        raise InputError(
            f"labels and probabilities must be two columns of equal length; got {label.shape} "
            f"and {probability.shape}"
        )
    if label.size == 0:
        return
    if not (probability.min() >= 0.0 and probability.max() <= 1.0):  # NaN fails both comparisons
        raise InputError("probabilities must lie in [0, 1]; found a value outside, or NaN")
    blocks = (label[start : start + BLOCK] for start in range(0, label.size, BLOCK))
    if not all(((block == 0) | (block == 1)).all() for block in blocks):
        raise InputError("labels must be 0 or 1; found another value")
    if weight is not None:
        check_weights(label, weight)
