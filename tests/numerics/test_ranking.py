"""Sorting rows by score, with their indices."""

import numpy as np
import pytest

from slc_ops.numerics.ranking import ranked


def scores(kind: str, rng: np.random.Generator) -> np.ndarray:
    size = 150_000  # more than a block
    return {
        "spread out": rng.random(size),
        "crowded": 0.5 + rng.integers(0, 400, size) * 2.0**-52,  # differing only in the last bits
        "crowded, and one far off": np.append(0.5 + rng.integers(0, 400, size) * 2.0**-52, 1e-300),
        "logits of both signs": rng.normal(0, 2, size),
        "crowded logits": -0.5 - rng.integers(0, 400, size) * 2.0**-52,
        "crowded around 0, and far": np.append(rng.integers(-400, 400, size) * 5e-324, [1e300, -1e300]),
        "few values": rng.integers(0, 7, size) / 7,
        "one value": np.full(size, 0.25),
        "zeros of both signs": np.where(rng.random(size) < 0.5, -0.0, 0.0),
        "one row": np.array([0.3]),
        "none": np.empty(0),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "spread out", "crowded", "crowded, and one far off", "logits of both signs", "crowded logits",
        "crowded around 0, and far", "few values", "one value", "zeros of both signs", "one row", "none",
    ],
)  # fmt: skip
def test_rows_are_sorted_by_score_then_label(kind: str) -> None:
    rng = np.random.default_rng(7)
    score = scores(kind, rng)
    label = rng.integers(0, 2, score.size).astype(np.int8)
    order, found, positive = ranked(label, score)
    expected = np.lexsort((label, score))
    assert np.array_equal(found, score[expected])
    assert np.array_equal(positive, label[expected] != 0)
    assert np.array_equal(score[order], found)
    assert np.array_equal(label[order] != 0, positive)
    assert np.array_equal(np.sort(order), np.arange(score.size))
