"""A fine histogram of scores whose cells hold about equally many rows: order without a sort.

A *grid* is made from a sample of the scores. It cuts their range into 65,536 strips of equal width, and a
strip into cells: one cell in two is given to the strips in proportion to the sample's rows in them, the other
half evenly. So a million cells follow the scores wherever they crowd, and finding a row's cell takes two
look-ups. Counts of one grid add up, whoever counted.

A score is whatever orders the rows. Logits are the better choice where there are any: they do not crowd at
the ends as probabilities do. A few scores that lie far beyond all others share the first or the last cell.

**Error bounds.** Rows of one cell count as tied.

* AUC: a pair of rows in one cell counts ½ instead of 0 or 1, so the error is at most half the share of
  (positive, negative) pairs that share a cell, which the counts themselves tell.
* Isotonic map: let g be the exact fit and h the fit on cells. Both are projections of the labels onto convex
  cones, and the cell means of g are one candidate for h. So the mean squared error of h on its rows is above
  that of g by at most Σ_c m_c·(3·Δ_c), where m_c is a cell's share of the weight and Δ_c how far g rises
  within it; g rises by at most 1 in all, so by at most 3·max m_c.

On scores that are spread out both bounds are below 1e-5. The errors themselves are far smaller, because
neighbours within a cell are in random order; rows that share one score lose nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.numerics.kernels import Floats, slices
from slc_ops.numerics.kernels import total as sum_by_key

CELLS = 1 << 20
SPAN_ROWS = 1 << 20  # rows counted together: enough that clearing a million counters costs little
_STRIPS = 1 << 16
_MARGIN = 1 / 16  # of the sample's range: room for scores beyond it
_FAR = 8.0  # times the range of 98 % of the rows


@dataclass(frozen=True)
class ScoreGrid:
    """Strips of equal width from ``low`` on, ``per_unit`` of them; of each the first cell and its cells."""

    low: float
    per_unit: float
    first: Floats
    width: Floats

    @classmethod
    def of(cls, sample: Floats, cells: int = CELLS) -> "ScoreGrid":
        """A grid for scores like these.

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
        """How many cells; one more than the strips have, for a score whose position was rounded up."""
        return int(self.first[-1] + self.width[-1]) + 1

    def place(self, score: Floats, out: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
        """The cell of each score."""
        cells = np.empty(len(score), np.intp) if out is None else out
        for part in slices(len(score)):
            strip, inside = self._strips(score[part])
            # Exact: the strip is the whole part of the number that ``inside`` holds.
            inside -= strip
            inside *= self.width.take(strip, mode="clip")
            inside += self.first.take(strip, mode="clip")
            cells[part] = inside
        return cells

    def _strips(self, score: Floats) -> tuple[NDArray[np.intp], Floats]:
        """The strip of each of a few scores, and the scores in units of strips."""
        inside = np.subtract(score, self.low, dtype=np.float64)
        inside *= self.per_unit
        # The largest float below the last strip's end, so that even its last row stays in it.
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
class GridCounts:
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
        """Of some rows, whose cells are known."""
        total = None
        if score is not None:
            total = sum_by_key(cell, score if weight is None else score * weight, grid.cells)
        pair = cell * 2
        pair += label.astype(np.int8, copy=False)
        return cls(np.bincount(pair, weight, 2 * grid.cells), total)

    def merge(self, other: "GridCounts") -> None:
        """Take up further rows."""
        self.mass += other.mass
        if self.score is not None and other.score is not None:
            self.score += other.score

    def __getstate__(self) -> dict[str, Any]:
        """Counts of rows travel as small integers."""
        return {"mass": _small(self.mass), "score": self.score}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The other way round."""
        mass = state["mass"]
        self.mass = mass if mass.dtype == np.float64 else mass.astype(np.int64)
        self.score = state["score"]

    @property
    def negative(self) -> Floats:
        """Weight of the negative labels by cell."""
        return self.mass[0::2].astype(np.float64)

    @property
    def positive(self) -> Floats:
        """Weight of the positive labels by cell."""
        return self.mass[1::2].astype(np.float64)


def _small(mass: NDArray[Any]) -> NDArray[Any]:
    if mass.dtype == np.float64:
        return mass
    return mass.astype(np.uint16 if mass.max(initial=0) < 1 << 16 else np.uint32)
