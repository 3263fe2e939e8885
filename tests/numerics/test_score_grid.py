"""The grid of scores: monotone, exact for few scores, and within its stated bounds for many."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from slc_ops.evidence.auc import auc, in_order, placed, placed_cells
from slc_ops.evidence.metrics import metrics_of
from slc_ops.methods.fitting import monotone
from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.monotone import fit_isotonic
from slc_ops.numerics.isotonic import isotonic_map, isotonic_of_counts
from slc_ops.numerics.score_grid import GridCounts, ScoreGrid
from slc_ops.rows.interactions import InteractionLog


def world(size: int, centre: float = 0.0, spread: float = 1.2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    logit = rng.normal(centre, spread, size)
    return (rng.random(size) < 1 / (1 + np.exp(-0.8 * logit - 0.2))).astype(np.int8), logit


def counted(
    grid: ScoreGrid, label: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None
) -> GridCounts:
    """Counts from three parts, one of them serialised."""
    parts = [
        GridCounts.of(grid, grid.place(score[k::3]), label[k::3], _every_third(weight, k), score[k::3])
        for k in range(3)
    ]
    first = pickle.loads(pickle.dumps(parts[0]))  # noqa: S301 - our own
    for part in parts[1:]:
        first.merge(part)
    return first


def _every_third(weight: np.ndarray | None, k: int) -> np.ndarray | None:
    return None if weight is None else weight[k::3]


numbers = st.floats(-1e9, 1e9)


@pytest.mark.slow
@given(
    hnp.arrays(float, st.integers(1, 50), elements=numbers),
    hnp.arrays(float, st.integers(2, 50), elements=numbers),
)
@settings(max_examples=200)
def test_cells_increase_with_scores(sample: np.ndarray, scores: np.ndarray) -> None:
    grid = ScoreGrid.of(sample)
    cells = grid.place(np.sort(scores))
    assert (np.diff(cells) >= 0).all()
    assert cells[0] >= 0
    assert cells[-1] < grid.cells


@pytest.mark.parametrize("weighted", [False, True])
def test_few_scores_are_counted_exactly(weighted: bool) -> None:
    label, score = world(5000)
    score = score.round(2)
    weight = np.random.default_rng(0).integers(0, 3, 5000).astype(float) if weighted else None
    grid = ScoreGrid.of(score)
    counts = counted(grid, label, score, weight)
    exact = auc(label, score, weight)
    table, found = placed_cells(counts.mass)
    assert found.value == pytest.approx(exact.value, abs=1e-13)
    assert found.tied == pytest.approx(exact.tied, abs=1e-13)
    p = 1 / (1 + np.exp(-score))
    order, rows = in_order(label, p, weight)
    by_cell = table[2 * grid.place(score[order]) + label[order]]
    kept = rows.weight > 0
    np.testing.assert_allclose(by_cell[kept], placed(rows)[0][kept], rtol=1e-12)
    curve, other = isotonic_map(p, label, weight), isotonic_of_counts(counts)
    np.testing.assert_allclose(other.x, curve.x, rtol=0, atol=1e-15)
    np.testing.assert_allclose(other.y, curve.y, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.2), (-5.0, 0.05), (0.0, 3.0), (2.0, 30.0)])
def test_many_scores_keep_the_auc_within_its_bound(centre: float, spread: float) -> None:
    label, score = world(3_000_000, centre, spread)
    counts = counted(ScoreGrid.of(score[::8]), label, score)
    found = placed_cells(counts.mass)[1]
    error = abs(found.value - auc(label, score).value)
    assert error <= found.tied / 2 < 1e-5
    assert error < 1e-7


def test_a_few_extreme_scores_cost_no_precision() -> None:
    label, score = world(2_000_000)
    score[::1000] *= 1e9
    counts = counted(ScoreGrid.of(score[::8]), label, score)
    found = placed_cells(counts.mass)[1]
    assert abs(found.value - auc(label, score).value) <= found.tied / 2 < 1e-5


@pytest.mark.slow
def test_many_scores_keep_the_isotonic_map_within_its_bound() -> None:
    label, logit = world(6_000_000)
    rng = np.random.default_rng(1)
    item, offset = rng.integers(0, 50, len(label)), rng.normal(0, 0.5, 50)
    log = InteractionLog.from_table(pa.table({"item_id": item, "label": label, "logit": logit}))
    delta = offset[log.items.to_numpy()]  # by code
    assert log.n_rows > monotone.EXACT_ROWS
    curve = fit_isotonic(Calibration(log), ItemOffsets(delta))
    eta = logit + delta[log.item_codes]
    exact_curve = isotonic_map(1 / (1 + np.exp(-eta)), label)
    exact, gridded = (
        metrics_of(label, each.probability(logit, delta[log.item_codes], None))
        for each in (exact_curve, curve)
    )
    grid = ScoreGrid.of(eta[::6], monotone.CELLS)
    bound = 3 * np.bincount(grid.place(eta)).max() / len(eta)
    assert 0 <= gridded["brier"] - exact["brier"] <= bound < 1e-5
    for name in ("auc", "nll", "brier"):
        assert abs(gridded[name] - exact[name]) < 1e-6


def test_a_large_log_with_a_constant_logit_gives_one_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monotone, "EXACT_ROWS", 10)
    log = InteractionLog.from_table(
        pa.table({"item_id": [1] * 40, "label": [0, 1] * 20, "logit": [0.3] * 40})
    )
    curve = fit_isotonic(Calibration(log))
    assert curve.probability(np.array([-5.0, 0.3, 5.0]), 0.0, None).tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("weighted", [False, True])
def test_maps_from_rows_and_from_the_grid_agree(monkeypatch: pytest.MonkeyPatch, weighted: bool) -> None:
    label, logit = world(40_000)
    columns = {"item_id": np.arange(40_000) % 7, "label": label, "logit": logit.round(1)}
    if weighted:
        columns["weight"] = np.random.default_rng(0).integers(0, 3, 40_000).astype(np.float32)
    log = InteractionLog.from_table(pa.table(columns))
    exact = fit_isotonic(Calibration(log))
    monkeypatch.setattr(monotone, "EXACT_ROWS", 1000)
    gridded = fit_isotonic(Calibration(log))
    np.testing.assert_allclose(gridded.x, exact.x, atol=1e-14)
    np.testing.assert_allclose(gridded.y, exact.y, atol=1e-12)
