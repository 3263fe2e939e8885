"""Sum rows by probability bin; every metric but the AUC follows from these sums.

The probabilities are cut into *stretches*: the fifteen equal-width bins of the calibration error, closed on
the right, with the middle one cut again at ½, the threshold of the accuracy. A stretch has its number of
rows, their weight, and the weighted sums of labels and predictions. Each metric that is a mean over rows also
has one total. The rows are sorted by probability, so a stretch is one slice of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.additive import Additive
from slc_ops.evidence.auc import BLOCK, Scored
from slc_ops.numerics.kernels import dot

BINS = 15
STRETCHES = BINS + 1
HALF = BINS // 2 + 1  # the first stretch whose predictions are at least ½
EDGES = np.linspace(0.0, 1.0, BINS + 1)
_BIN_OF_STRETCH = np.array([k - (k >= HALF) for k in range(STRETCHES)])

Floats = NDArray[np.float64]
PerRow = Callable[[NDArray[Any], Floats], Floats]
"""A metric's value per row, as a function of labels and probabilities."""


@dataclass
class RowSums(Additive):
    """Per stretch: rows, weight, Σ w·prediction, Σ w·label; over all rows: a total by metric."""

    n: Floats
    weight: Floats
    prediction: Floats
    label: Floats
    totals: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Scored, means: Mapping[str, PerRow]) -> "RowSums":
        """Sum rows sorted by probability; ``means`` are the metrics that are means over rows."""
        p, y, w = rows.score, rows.positive, rows.weight
        ends = np.searchsorted(p, EDGES[1:-1], side="right")
        ends = np.insert(ends, HALF - 1, np.searchsorted(p, 0.5, side="left"))
        bounds = np.array([0, *ends, p.size])
        n = np.diff(bounds)
        kept = np.flatnonzero(n)

        def per_stretch(values: Floats) -> Floats:
            found = np.zeros(STRETCHES)
            found[kept] = np.add.reduceat(values, bounds[kept]) if kept.size else 0.0
            return found

        totals = dict.fromkeys(means, 0.0)
        for start in range(0, p.size, BLOCK):
            part = slice(start, start + BLOCK)
            for name, per_row in means.items():
                totals[name] += dot(w[part], per_row(y[part], p[part]))
        return cls(n.astype(np.float64), per_stretch(w), per_stretch(w * p), per_stretch(w * y), totals)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.n.sum())

    @property
    def total_weight(self) -> float:
        """The weight of all rows."""
        return float(by_bin(self.weight).sum())

    @property
    def total_label(self) -> float:
        """The weight of the positive rows."""
        return float(by_bin(self.label).sum())

    def calibration_gap(self) -> float:
        """Return Σ over bins of |Σ w·label − Σ w·prediction|."""
        return float(np.abs(by_bin(self.label) - by_bin(self.prediction)).sum())

    def right(self) -> float:
        """Return the weight of the rows with a correct prediction at threshold ½."""
        high = np.arange(STRETCHES) >= HALF
        return float(np.sum(np.where(high, self.label, self.weight - self.label)))


def by_bin(values: Floats) -> Floats:
    """Convert sums per stretch to sums per bin."""
    return np.asarray(np.bincount(_BIN_OF_STRETCH, values, BINS), dtype=np.float64)
