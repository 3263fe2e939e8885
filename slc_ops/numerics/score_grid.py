"""A fine histogram of scores whose cells contain about equally many rows: order without a sort.

A *grid* is built from a sample of the scores. It divides their range into 65,536 strips of equal width, and
a strip into cells: half of the cells go to the strips in proportion to the sample's rows in them, the other
half evenly. So a million cells follow the density of the scores, and finding a row's cell takes two lookups.
Counts on one grid add up across processes.

Any number that orders the rows is a score. Logits are preferable: they do not accumulate at the ends as
probabilities do. A few scores far beyond all others share the first or the last cell.

**Error bounds.** Rows of one cell count as tied.

* AUC: a pair of rows in one cell counts ½ instead of 0 or 1, so the error is at most half the share of
  (positive, negative) pairs that share a cell, which follows from the counts.
* Isotonic map: let g be the exact fit and h the fit on cells. Both are projections of the labels onto convex
  cones, and the cell means of g are one candidate for h. So the mean squared error of h on its rows is above
  that of g by at most Σ_c m_c·(3·Δ_c), where m_c is a cell's share of the weight and Δ_c the increase of g
  within it; g increases by at most 1 in total, so by at most 3·max m_c.

Both bounds are below 1e-5 when the scores are spread out. The errors are far smaller, because rows within a
cell are in random order; rows that share one score add no error.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.additive import Additive
from slc_ops.numerics.kernels import Floats, slices
from slc_ops.numerics.kernels import total as sum_by_key

CELLS = 1 << 20
SPAN_ROWS = 1 << 20  # rows per count: enough to outweigh clearing a million counters
_STRIPS = 1 << 16
_MARGIN = 1 / 16  # share of the sample's range, for scores beyond it
_FAR = 8.0  # times the range of 98 % of the rows


@dataclass(frozen=True)
class ScoreGrid:
    """Strips of equal width from ``low`` on, ``per_unit`` of them per unit of score.

    ``first`` and ``width`` are the first cell and the number of cells of each strip.
    """

    low: float
    per_unit: float
    first: Floats
    width: Floats

    @classmethod
    def of(cls, sample: Floats, cells: int = CELLS) -> "ScoreGrid":
        """Build a grid for scores like these.

        >>> grid = ScoreGrid.of(np.array([0.0, 0.5, 0.5, 1.0]), cells=100_000)
        >>> placed = grid.place(np.array([-9.0, 0.0, 0.2, 0.5, 0.6, 1.0]))
        >>> bool((np.diff(placed) > 0).all()), bool(placed[-1] < grid.cells)
        (True, True)
        """
        low, high = _range_of(sample)
        grid = cls(low, _STRIPS / (high - low), np.zeros(_STRIPS), np.zeros(_STRIPS))
        rows = np.zeros(_STRIPS)
        for part in slices(len(sample)):
            rows += np.bincount(grid._strips(sample[part])[0], minlength=_STRIPS)
        width = 1.0 + np.floor(cells / 2 * (rows / len(sample) + 1 / _STRIPS))
        return cls(low, grid.per_unit, np.cumsum(width) - width, width)

    @property
    def cells(self) -> int:
        """Return the number of cells; one more than the strips have, for a position that was rounded up."""
        return int(self.first[-1] + self.width[-1]) + 1

    def place(self, score: Floats) -> NDArray[np.intp]:
        """Return the cell of each score."""
        cells = np.empty(len(score), np.intp)
        for part in slices(len(score)):
            strip, inside = self._strips(score[part])
            # Exact: the strip is the integer part of ``inside``.
            inside -= strip
            inside *= self.width.take(strip, mode="clip")
            inside += self.first.take(strip, mode="clip")
            cells[part] = inside
        return cells

    def _strips(self, score: Floats) -> tuple[NDArray[np.intp], Floats]:
        """Return the strip of each score, and the scores in units of strips."""
        inside = np.subtract(score, self.low, dtype=np.float64)
        inside *= self.per_unit
        # The largest float below the last strip's end keeps its last row inside.
        np.clip(inside, 0.0, np.nextafter(_STRIPS, 0.0), out=inside)
        return inside.astype(np.intp), inside


def _range_of(sample: Floats) -> tuple[float, float]:
    low, high = float(sample.min()), float(sample.max())
    first, last = (float(value) for value in np.quantile(sample, [0.01, 0.99], method="nearest"))
    if last > first:
        low = max(low, first - _FAR * (last - first))
        high = min(high, last + _FAR * (last - first))
    margin = (high - low) * _MARGIN or 1.0
    return low - margin, high + margin


@dataclass
class GridCounts(Additive):
    """Weight by cell and label (label y of cell c at index 2c + y); with ``score`` also Σw·score by cell."""

    mass: NDArray[Any]
    score: Floats | None = None

    @classmethod
    def of(
        cls,
        grid: ScoreGrid,
        cell: NDArray[np.intp],
        label: NDArray[Any],
        weight: NDArray[Any] | None = None,
        score: Floats | None = None,
    ) -> "GridCounts":
        """Count rows with known cells."""
        total = None
        if score is not None:
            total = sum_by_key(cell, score if weight is None else score * weight, grid.cells)
        pair = cell * 2
        pair += label.astype(np.int8, copy=False)
        return cls(np.bincount(pair, weight, 2 * grid.cells), total)

    def __getstate__(self) -> dict[str, Any]:
        """Serialise counts of rows as small integers."""
        return {"mass": _small(self.mass), "score": self.score}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the counts."""
        mass = state["mass"]
        self.mass = mass if mass.dtype == np.float64 else mass.astype(np.int64)
        self.score = state["score"]

    @property
    def negative(self) -> Floats:
        """Return the weight of the negative labels by cell."""
        return self.mass[0::2].astype(np.float64)

    @property
    def positive(self) -> Floats:
        """Return the weight of the positive labels by cell."""
        return self.mass[1::2].astype(np.float64)


def _small(mass: NDArray[Any]) -> NDArray[Any]:
    if mass.dtype == np.float64:
        return mass
    return mass.astype(np.uint16 if mass.max(initial=0) < 1 << 16 else np.uint32)
