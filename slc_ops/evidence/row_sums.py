"""Sums over rows, from which every metric but the AUC follows.

The probabilities are cut into *stretches*: the fifteen equal-width bins of the calibration error, closed on
the right, the middle one cut once more at ½, where a prediction changes sides. A stretch keeps its rows,
their weight, and the weighted sums of labels and predictions. Beside them stands one total for each metric
that is a mean over rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.numerics.curves import bin_of
from slc_ops.numerics.kernels import dot
from slc_ops.numerics.ranking import BLOCK, Ranked

BINS = 15
STRETCHES = BINS + 1
HALF = BINS // 2 + 1  # the first stretch whose predictions are at least ½
EDGES = np.linspace(0.0, 1.0, BINS + 1)
_BIN_OF_STRETCH = np.array([k - (k >= HALF) for k in range(STRETCHES)])

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """A few rows whose temporaries stay in the processor's cache; what several metrics need is kept."""

    label: NDArray[Any]
    probability: Floats
    weight: NDArray[Any] | None = None

    @cached_property
    def of_label(self) -> Floats:
        """The probability that was given to what happened."""
        return np.asarray(np.abs((1.0 - self.label) - self.probability))

    @cached_property
    def wrong(self) -> Floats:
        """The probability that was given to what did not happen."""
        return np.asarray(1.0 - self.of_label)

    def total(self, values: Floats) -> float:
        """The weighted sum of one value per row."""
        return float(np.sum(values)) if self.weight is None else dot(self.weight, values)


Totals = Mapping[str, Callable[[Block], float]]
"""By metric: its sum over a block."""


@dataclass
class RowSums:
    """Per stretch: rows, weight, Σ w·prediction, Σ w·label; over all rows: a total by metric."""

    n: Floats
    weight: Floats
    prediction: Floats
    label: Floats
    totals: dict[str, float] = field(default_factory=dict)

    @classmethod
    def empty(cls, totals: Totals, rows: int = 0) -> "RowSums":
        """Of no rows, or of ``rows`` that do not count."""
        n = np.zeros(STRETCHES)
        n[0] = rows
        weight, prediction, label = np.zeros((3, STRETCHES))
        return cls(n, weight, prediction, label, dict.fromkeys(totals, 0.0))

    @classmethod
    def of(
        cls, label: NDArray[Any], probability: Floats, weight: NDArray[Any] | None, totals: Totals
    ) -> "RowSums":
        """Of rows in any order, block by block."""
        found = cls.empty(totals)
        for start in range(0, label.size, BLOCK):
            rows = slice(start, start + BLOCK)
            found.add(_of_block(Block(label[rows], probability[rows], _part(weight, rows)), totals))
        return found

    @classmethod
    def of_ranked(cls, rows: Ranked, totals: Totals) -> "RowSums":
        """Of rows in the order of their probabilities, where a stretch is one slice.

        The same sums as :meth:`of` up to rounding, but several times faster once the rows are sorted, and
        the order in which unweighted rows came changes no bit.
        """
        p, y, w = rows.score, rows.positive, rows.weight
        ends = np.searchsorted(p, EDGES[1:-1], side="right")
        ends = np.insert(ends, HALF - 1, np.searchsorted(p, 0.5, side="left"))
        bounds = np.array([0, *ends, p.size])
        kept = np.flatnonzero(np.diff(bounds))
        starts, n = bounds[kept], np.diff(bounds)

        def per_stretch(values: NDArray[Any]) -> Floats:
            found = np.zeros(STRETCHES)
            found[kept] = np.add.reduceat(values, starts)
            return found

        by_block = []
        for start in range(0, p.size, BLOCK):
            part = slice(start, start + BLOCK)
            block = Block(y[part], p[part], _part(w, part))
            by_block.append([total(block) for total in totals.values()])
        return cls(
            n=n.astype(np.float64),
            weight=n.astype(np.float64) if w is None else per_stretch(w),
            prediction=per_stretch(p if w is None else w * p),
            label=_counts(y, bounds) if w is None else per_stretch(w * y),
            totals=dict(zip(totals, np.sum(by_block, axis=0).tolist(), strict=True)),
        )

    def add(self, other: "RowSums") -> None:
        """Take up further rows."""
        self.n += other.n
        self.weight += other.weight
        self.prediction += other.prediction
        self.label += other.label
        for name, total in other.totals.items():
            self.totals[name] += total

    @property
    def rows(self) -> int:
        """How many rows."""
        return int(self.n.sum())

    @property
    def total_weight(self) -> float:
        """Their weight."""
        return float(by_bin(self.weight).sum())

    @property
    def total_label(self) -> float:
        """The weight of the positive rows."""
        return float(by_bin(self.label).sum())

    def calibration_gap(self) -> float:
        """Σ over bins of |Σ w·label − Σ w·prediction|."""
        return float(np.abs(by_bin(self.label) - by_bin(self.prediction)).sum())

    def right(self) -> float:
        """The weight of the rows whose label is on the predicted side of ½."""
        kept = self.n > 0
        high = np.arange(STRETCHES) >= HALF
        return float(np.sum(np.where(high, self.label, self.weight - self.label)[kept]))


def by_bin(values: Floats) -> Floats:
    """Sums per stretch as sums per bin."""
    return np.asarray(np.bincount(_BIN_OF_STRETCH, values, BINS), dtype=np.float64)


def _of_block(rows: Block, totals: Totals) -> RowSums:
    stretch = bin_of(rows.probability, BINS) + (rows.probability >= 0.5)

    def per_stretch(values: NDArray[Any] | None) -> Floats:
        mass = values if rows.weight is None else rows.weight if values is None else values * rows.weight
        return np.bincount(stretch, mass, STRETCHES).astype(np.float64)

    return RowSums(
        n=np.bincount(stretch, minlength=STRETCHES).astype(np.float64),
        weight=per_stretch(None),
        prediction=per_stretch(rows.probability),
        label=per_stretch(rows.label.astype(np.float64)),
        totals={name: total(rows) for name, total in totals.items()},
    )


def _counts(marked: NDArray[Any], bounds: NDArray[Any]) -> Floats:
    """How many are marked between each bound and the next; a sum would make numbers of all of them first."""
    return np.array([np.count_nonzero(marked[low:high]) for low, high in pairwise(bounds)], dtype=np.float64)


def _part(values: NDArray[Any] | None, part: slice) -> NDArray[Any] | None:
    return None if values is None else values[part]
