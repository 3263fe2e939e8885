"""Rows in the order of their scores, with their indices."""

import numpy as np
import pytest

from slc_ops.numerics.ranking import ranked, ranked_again, ranked_rows


def scores(kind: str, rng: np.random.Generator) -> np.ndarray:
    size = 150_000  # more than a block
    return {
        "spread out": rng.random(size),
        "crowded": 0.5 + rng.integers(0, 400, size) * 2.0**-52,  # apart in their last bits only
        "crowded, and one far off": np.append(0.5 + rng.integers(0, 400, size) * 2.0**-52, 1e-300),
        "few values": rng.integers(0, 7, size) / 7,
        "one value": np.full(size, 0.25),
        "zeros of both signs": np.where(rng.random(size) < 0.5, -0.0, 0.0),
        "one row": np.array([0.3]),
        "none": np.empty(0),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "spread out", "crowded", "crowded, and one far off", "few values", "one value",
        "zeros of both signs", "one row", "none",
    ],
)  # fmt: skip
def test_rows_with_indices_are_in_the_order_of_rows_without(kind: str) -> None:
    rng = np.random.default_rng(7)
    score = scores(kind, rng)
    label = rng.integers(0, 2, score.size).astype(np.int8)
    order, found = ranked_rows(label, score)
    expected = ranked(label, score)
    assert np.array_equal(found.score, expected.score)
    assert np.array_equal(found.positive, expected.positive)
    assert np.array_equal(score[order], expected.score)
    assert np.array_equal(label[order] != 0, expected.positive)
    assert np.array_equal(np.sort(order), np.arange(score.size))


@pytest.mark.parametrize("curve", ["line", "steps", "few values", "many short steps"])
def test_scores_that_rise_with_others_need_no_sort(curve: str) -> None:
    rng = np.random.default_rng(8)
    logit = rng.normal(size=300_000).round(4)  # with ties of its own
    label = rng.integers(0, 2, logit.size).astype(np.int8)
    base = 1 / (1 + np.exp(-logit))
    score = {
        "line": 1 / (1 + np.exp(-0.5 * logit - 0.1)), "steps": base.round(2), "few values": base.round(0),
        "many short steps": base.round(4),
    }[curve]  # fmt: skip
    by_logit, _ = ranked_rows(label, base)
    kept = by_logit.copy()
    again = ranked_again(by_logit, label, score)
    assert again is not None
    order, found = again
    expected = ranked(label, score)
    assert np.array_equal(found.score, expected.score)
    assert np.array_equal(found.positive, expected.positive)
    assert np.array_equal(score[order], expected.score)
    assert np.array_equal(label[order] != 0, expected.positive)
    assert np.array_equal(np.sort(order), np.arange(logit.size))
    assert np.array_equal(by_logit, kept)  # which other methods use, too


def test_scores_that_do_not_rise_are_left_to_a_sort() -> None:
    score = np.linspace(0.1, 0.9, 300_000)
    order = np.arange(score.size)
    label = np.zeros(score.size, np.int8)
    swapped = score.copy()
    swapped[[131_071, 131_072]] = swapped[[131_072, 131_071]]  # at the border of two blocks
    assert ranked_again(order, label, score) is not None
    assert ranked_again(order, label, swapped) is None
    assert ranked_again(order, label, score[::-1].copy()) is None


def test_scores_below_0_are_refused() -> None:
    with pytest.raises(ValueError, match="1 scores are below 0"):
        ranked_rows(np.array([0, 1]), np.array([0.5, -0.5]))
