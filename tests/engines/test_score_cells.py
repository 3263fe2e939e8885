"""The fine histogram of scores: exact while scores are few, within its stated bounds when they are many."""

import numpy as np
import pytest

from slc_ops.correction.monotone import isotonic_map, isotonic_of_cells
from slc_ops.correction.scorecells import ISOTONIC_CELLS, MOST_CELLS, ScoreCells
from slc_ops.evidence.auc import auc, placements
from slc_ops.evidence.judging import Placed, area_of
from slc_ops.evidence.metrics import evaluate


def world(size: int, centre: float = 0.0, spread: float = 1.2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    logit = rng.normal(centre, spread, size)
    label = (rng.random(size) < 1 / (1 + np.exp(-0.8 * logit - 0.2))).astype(np.int8)
    return label, 1 / (1 + np.exp(-logit))


def added(parts: list[ScoreCells]) -> ScoreCells:
    first, *others = parts
    for part in others:
        first.add(part)
    return first


@pytest.mark.parametrize("weighted", [False, True])
def test_few_scores_lose_nothing(weighted: bool) -> None:
    label, score = world(5000)
    score = score.round(3)
    weight = np.random.default_rng(0).integers(0, 3, 5000).astype(float) if weighted else None
    chunks = np.array_split(np.arange(5000), 3)
    cells = added([ScoreCells.of(label[c], score[c], None if weight is None else weight[c]) for c in chunks])
    exact = auc(label, score, weight)
    assert cells.level == 0
    assert area_of(cells, 5000).value == pytest.approx(exact.value, abs=1e-13)
    assert cells.tied == pytest.approx(exact.tied, abs=1e-13)
    counts = slice(None) if weight is None else weight > 0
    found = Placed.of(cells).values(label[counts], score[counts])
    expected, _, _ = placements(label, score, weight)
    np.testing.assert_allclose(found, expected[counts], rtol=1e-12)
    curve, other = isotonic_map(score, label, weight), isotonic_of_cells(cells)
    np.testing.assert_allclose(other.x, curve.x, rtol=0, atol=1e-15)
    np.testing.assert_allclose(other.y, curve.y, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.2), (-5.0, 0.05), (0.0, 3.0)])
def test_many_scores_stay_within_the_bound_of_the_auc(centre: float, spread: float) -> None:
    label, score = world(1_500_000, centre, spread)
    cells = added([ScoreCells.of(label[k::3], score[k::3]) for k in range(3)])
    assert cells.level > 0
    assert len(cells.cell) <= MOST_CELLS
    exact = auc(label, score).value
    error = abs(area_of(cells, len(label)).value - exact)
    assert error <= cells.tied / 2 < 1e-5
    assert error < 1e-7


def test_many_scores_stay_within_the_bound_of_the_isotonic_map() -> None:
    label, score = world(6_000_000)
    cells = added([ScoreCells.of(label[k::3], score[k::3], None, ISOTONIC_CELLS) for k in range(3)])
    assert cells.level > 0
    logit = np.log(score) - np.log1p(-score)
    exact, binned = (
        evaluate(label, curve.probability(logit, 0.0, None))
        for curve in (isotonic_map(score, label), isotonic_of_cells(cells))
    )
    mass = cells.positive + cells.negative
    bound = 3 * mass.max() / mass.sum()
    assert 0 <= binned.brier - exact.brier <= bound < 1e-5
    for name in ("auc", "nll", "brier"):
        assert abs(getattr(binned, name) - getattr(exact, name)) < 1e-5
