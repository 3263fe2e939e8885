"""Sorting rows by score, with their indices."""

import numpy as np
import pytest

from slc_ops.numerics.ranking import ranked, ranked_rows


def scores(kind: str, rng: np.random.Generator) -> np.ndarray:
    size = 150_000  # more than a block
    return {
        "spread out": rng.random(size),
        "crowded": 0.5 + rng.integers(0, 400, size) * 2.0**-52,  # differing only in the last bits
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
def test_sorting_with_and_without_indices_gives_the_same_order(kind: str) -> None:
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


def test_scores_below_0_are_refused() -> None:
    with pytest.raises(ValueError, match="1 scores are below 0"):
        ranked_rows(np.array([0, 1]), np.array([0.5, -0.5]))
