import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression

from slc_ops.numerics.isotonic import isotonic_map, pooled_levels


def spread(starts, level, size):
    return np.repeat(level, np.diff(np.append(starts, size)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0, 1)), min_size=1, max_size=60))
def test_pools_equal_an_independent_library(cells):
    mass = np.array([float(weight) for weight, _ in cells])
    ones = np.array([share for _, share in cells]) * mass
    expected = isotonic_regression(ones / mass, weights=mass).x
    assert np.allclose(spread(*pooled_levels(mass, ones), len(mass)), expected, atol=1e-12)


@pytest.mark.parametrize("shape", ["random", "falling", "rising", "rising and then a fall", "stairs"])
def test_sequences_of_any_shape_are_pooled_correctly_and_fast(shape):
    rng = np.random.default_rng(0)
    size = 20_000
    ones = {
        "random": (rng.random(size) < np.linspace(0, 1, size)).astype(float),
        "falling": np.linspace(1, 0, size),
        "rising": np.linspace(0, 1, size),
        "rising and then a fall": np.append(np.linspace(0, 1, size - 1), 0.0),
        "stairs": np.repeat(rng.random(size // 100), 100),
    }[shape]
    expected = isotonic_regression(ones).x
    assert np.allclose(spread(*pooled_levels(np.ones(size), ones), size), expected, atol=1e-10)


def test_knots_equal_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    score = np.round(rng.random(3000), 3)
    label = (rng.random(3000) < score**2).astype(int)
    curve = isotonic_map(score, label)
    oracle = IsotonicRegression(out_of_bounds="clip").fit(score, label)
    assert np.array_equal(curve.x, oracle.X_thresholds_)
    assert np.allclose(curve.y, oracle.y_thresholds_, atol=1e-14)


@pytest.mark.parametrize("crowded", [False, True])
def test_the_map_is_evaluated_like_scikit_learn(crowded):
    rng = np.random.default_rng(2)
    score = rng.random(3000) * (1e-6 if crowded else 1.0)
    label = (rng.random(3000) < score / score.max()).astype(int)
    curve = isotonic_map(score, label)
    asked = np.concatenate([score, [0.0, 1.0, 0.5], rng.random(500) * score.max()])
    oracle = IsotonicRegression(out_of_bounds="clip").fit(score, label)
    logit = np.log(asked.clip(1e-300, 1 - 1e-16)) - np.log1p(-asked.clip(1e-300, 1 - 1e-16))
    assert np.allclose(curve.probability(logit, 0.0, None), oracle.predict(asked), atol=1e-6)
