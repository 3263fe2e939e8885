"""Compute metrics of probabilities against 0/1 labels, all defined in one table.

    AUC = share of (positive, negative) pairs in the right order, ties counting half
    NLL = −mean( y·log p + (1−y)·log(1−p) )     with p clipped to [1e-6, 1 − 1e-6]
    Brier = mean (p − y)²
    ECE = Σ_bins share of rows · | mean y − mean p |,  15 equal-width bins, closed on the right
    accuracy = share of rows with y = 1[p ≥ ½]

All means are weighted if weights are given. To add a metric, add one entry to :data:`METRICS`: evaluation,
self-test, intervals, report, command line, page and MLflow read the table. An undefined metric is ``None``,
with an entry in ``reasons``; it is never NaN and never a placeholder number.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.base.json_form import OwnForm
from slc_ops.base.text import number, signed
from slc_ops.evidence.auc import BLOCK, Auc, check_weights, in_order, placed
from slc_ops.evidence.row_sums import EDGES, PerRow, RowSums, by_bin

CLIP = 1e-6
NOT_COMPUTED = "it was not computed in that evaluation"

Formula = Callable[[RowSums, Auc], float | None]


@dataclass(frozen=True)
class Metric:
    """One metric: its formula from sums over rows, its range, and its display."""

    name: str
    """The name in JSON, in MLflow and in code."""
    title: str
    """The display name."""
    range: tuple[float, float]
    """The range of the definition; the self-test stops a run on a value outside."""
    better: Literal[1, -1]
    """1 if higher is better, −1 if lower is better."""
    per_row: PerRow | None = None
    """The value per row, from labels and probabilities; the metric is its weighted mean."""
    formula: Formula | None = None
    """For a metric that is not a mean over rows: the value from the sums and the area."""
    paired: bool = False
    """True if differences of two methods get intervals; only for the AUC and for means over rows."""
    headline: bool = False
    """True if short tables show the metric."""
    digits: int = 4

    def __post_init__(self) -> None:
        if (self.per_row is None) == (self.formula is None):
            raise ValueError(f"the metric {self.name} needs either per_row or a formula")
        if self.paired and self.per_row is None and self.name != "auc":
            raise ValueError(f"the metric {self.name} is no mean over rows, so it has no intervals")

    def of(self, sums: RowSums, found: Auc) -> float | None:
        """Return the metric of rows with these sums and this area."""
        if self.formula is not None:
            return self.formula(sums, found)
        return sums.totals[self.name] / sums.total_weight

    def text(self, value: float | None) -> str:
        """Format a value."""
        return number(value, self.digits)

    def signed(self, value: float | None) -> str:
        """Format a difference, with its sign."""
        return signed(value, self.digits)

    @property
    def arrow(self) -> str:
        """The axis label: the title with an arrow towards better values."""
        return f"{self.title}   better →" if self.better > 0 else f"{self.title}   ← better"


def log_loss(label: NDArray[Any], probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each row's negative log-likelihood in nats, with the contract's clipping.

    >>> log_loss(np.array([1, 0]), np.array([1.0, 1.0])).round(4).tolist()
    [0.0, 13.8155]
    """
    # The probability of the label: |p − 0| for a positive, |p − 1| for a negative. np.where is slower.
    of_label: NDArray[np.float64] = np.abs(np.subtract(1.0, label, dtype=np.float64) - probability)
    np.clip(of_label, CLIP, 1.0 - CLIP, out=of_label)
    np.log(of_label, out=of_label)
    np.negative(of_label, out=of_label)
    return of_label


def squared_error(label: NDArray[Any], probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each row's squared error."""
    return np.asarray((probability - label) ** 2)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "auc", "AUC", (0.0, 1.0), 1, formula=lambda _, found: found.value, paired=True, headline=True
        ),
        Metric(
            "nll", "NLL", (0.0, -math.log(CLIP)), -1,
            per_row=log_loss, paired=True, headline=True,
        ),
        Metric("brier", "Brier", (0.0, 1.0), -1, per_row=squared_error),
        Metric(
            "ece", "ECE", (0.0, 1.0), -1,
            formula=lambda sums, _: sums.calibration_gap() / sums.total_weight, headline=True,
        ),
        Metric(
            "accuracy", "accuracy", (0.0, 1.0), 1, formula=lambda sums, _: sums.right() / sums.total_weight
        ),
    )
}  # fmt: skip


def paired_metrics() -> list[Metric]:
    """Return the metrics whose differences get intervals."""
    return [metric for metric in METRICS.values() if metric.paired]


def headline_metrics() -> list[Metric]:
    """Return the metrics for short tables."""
    return [metric for metric in METRICS.values() if metric.headline]


def means_over_rows() -> dict[str, PerRow]:
    """Return the function per row of each metric that is a mean over rows."""
    return {metric.name: metric.per_row for metric in METRICS.values() if metric.per_row is not None}


@dataclass(frozen=True)
class Metrics(OwnForm):
    """All metrics of one method on one set of rows."""

    n: int
    weight: float
    positive_rate: float | None
    values: Mapping[str, float | None]
    tied: float = 0.0
    reasons: dict[str, str] = field(default_factory=dict)
    reliability: tuple[dict[str, Any], ...] = ()
    """The bars of the reliability diagram: rows with ``low < p ≤ high`` (the first bin includes 0)."""

    def __getitem__(self, name: str) -> float | None:
        """Return a metric by name; None if it is undefined."""
        return self.values[name]

    @property
    def auc(self) -> float | None:
        """The quality of the ranking; verdicts use the AUC and the NLL."""
        return self.values["auc"]

    @property
    def nll(self) -> float | None:
        """The quality of the probabilities; verdicts use the AUC and the NLL."""
        return self.values["nll"]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form, without the reliability bins."""
        counts = {"n": self.n, "weight": self.weight, "positive_rate": self.positive_rate}
        return {**counts, **self.values, "reasons": dict(self.reasons)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Metrics":
        """Read the form of :meth:`as_dict`; metrics that it lacks become None with a reason."""
        absent = {name: NOT_COMPUTED for name in METRICS if name not in value}
        return cls(
            n=value["n"],
            weight=value["weight"],
            positive_rate=value["positive_rate"],
            values={name: value.get(name) for name in METRICS},
            tied=value.get("tied", 0.0),
            reasons={**value.get("reasons", {}), **absent},
        )


def metrics_of(label: NDArray[Any], probability: NDArray[Any], weight: NDArray[Any] | None = None) -> Metrics:
    """Return all metrics of rows in memory, with one sort and one pass.

    Raises :class:`InputError` for labels other than 0 and 1, probabilities outside [0, 1], or negative
    weights.

    >>> m = metrics_of(np.array([0, 1, 1, 0]), np.array([0.2, 0.8, 0.6, 0.6]))
    >>> m.auc, round(m.nll, 4), round(m["brier"], 2), m["accuracy"]
    (0.875, 0.4684, 0.15, 0.75)
    >>> metrics_of(np.array([1, 1]), np.array([0.9, 0.8])).reasons["auc"]
    'AUC needs both classes; all 2 labels are 1'
    """
    label, probability = np.asarray(label), np.asarray(probability, dtype=np.float64)
    check_scored(label, probability, weight)
    _, rows = in_order(label, probability, weight)
    return metrics_from(RowSums.of(rows, means_over_rows()), placed(rows)[1])


def metrics_from(sums: RowSums, found: Auc) -> Metrics:
    """Return all metrics from the sums over rows and the area."""
    total = sums.total_weight
    if total <= 0:
        reason = "there are no rows" if sums.rows == 0 else "all weights are 0"
        return Metrics(sums.rows, 0.0, None, dict.fromkeys(METRICS), reasons=dict.fromkeys(METRICS, reason))
    return Metrics(
        n=sums.rows,
        weight=total,
        positive_rate=sums.total_label / total,
        values={name: metric.of(sums, found) for name, metric in METRICS.items()},
        tied=found.tied,
        reasons={} if found.reason is None else {"auc": found.reason},
        reliability=_reliability(sums),
    )


def _reliability(sums: RowSums) -> tuple[dict[str, Any], ...]:
    def mean(total: float, mass: float) -> float | None:
        return total / mass if mass > 0 else None

    columns = (by_bin(each).tolist() for each in (sums.n, sums.weight, sums.prediction, sums.label))
    return tuple(
        {
            "low": float(low),
            "high": float(high),
            "n": int(n),
            "weight": mass,
            "mean_prediction": mean(prediction, mass),
            "mean_label": mean(label, mass),
        }
        for low, high, n, mass, prediction, label in zip(EDGES[:-1], EDGES[1:], *columns, strict=True)
    )


def check_scored(label: NDArray[Any], probability: NDArray[Any], weight: NDArray[Any] | None = None) -> None:
    """Raise :class:`InputError` for columns that cannot be scored (see :func:`metrics_of`)."""
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
