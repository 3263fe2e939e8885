"""The monotone map of σ(η₀ + δ) to the label, on any engine."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.methods.fitting.calibration import Calibration, Offsets
from slc_ops.numerics.curves import Isotonic
from slc_ops.numerics.isotonic import isotonic_map, isotonic_of_counts
from slc_ops.numerics.kernels import Floats, sigmoid, slices
from slc_ops.numerics.score_grid import SPAN_ROWS, GridCounts, ScoreGrid
from slc_ops.rows.passes import Pieces, evenly_spaced
from slc_ops.rows.rows import NO_COLUMNS, Rows

EXACT_ROWS = 1 << 22  # beyond, scores are counted on a grid of CELLS cells instead of sorted
CELLS = 1 << 21


def fit_isotonic(calibration: Calibration, offsets: Offsets | None = None) -> Isotonic:
    """Fit the isotonic map of σ(η₀ + δ) to the label."""
    calibration.require_two_classes()
    log, columns = calibration.log, NO_COLUMNS if offsets is None else offsets.columns
    if log.n_rows <= EXACT_ROWS:
        every = calibration.add_up(partial(_gather, offsets), columns=columns)
        return isotonic_map(*_together(every.all))
    sample = log.sample(*evenly_spaced(log.n_rows), columns)
    grid = ScoreGrid.of(np.concatenate([_logits(offsets, rows) for rows in sample]), CELLS)
    counts = log.add_up(
        partial(_count, offsets, grid),
        threads=calibration.options.workers,
        columns=columns,
        n_keys=3 * grid.cells,
        span_rows=SPAN_ROWS,
    )
    return isotonic_of_counts(counts)


Scored = tuple[Floats, NDArray[Any], NDArray[Any] | None]  # scores, labels and weights of some rows


def _together(pieces: list[Scored]) -> Scored:
    score, label, weight = zip(*pieces, strict=True)
    weights = None if weight[0] is None else np.concatenate(weight).astype(np.float64)
    return np.concatenate(score), np.concatenate(label), weights


def _gather(offsets: Offsets | None, rows: Rows) -> Pieces[Scored]:
    return Pieces([(sigmoid(_logits(offsets, rows)), rows.label, rows.weight)])


def _count(offsets: Offsets | None, grid: ScoreGrid, rows: Rows) -> GridCounts:
    score = _logits(offsets, rows)
    return GridCounts.of(grid, grid.place(score), rows.label, rows.weight, score)


def _logits(offsets: Offsets | None, rows: Rows) -> Floats:
    score = rows.logit.astype(np.float64)
    if offsets is not None:
        for part in slices(len(rows)):
            score[part] += offsets.added(rows.chosen(part))
    return score
