"""The regime map: no drift, no gain; more drift, more gain."""

import numpy as np
import pytest

from slc_ops.paper.regime import cell, regime_map, world


@pytest.fixture(scope="module", params=["1pl", "2pl"])
def map_of(request):
    return regime_map(request.param, drifts=(0.0, 0.05, 0.2), densities=(50, 300), seeds=3)


def column(rows, name, obs):
    return [row[name] for row in rows if row["obs_per_item"] == obs]


def test_without_drift_there_is_nothing_to_gain(map_of):
    assert all(row["static_gain"] <= 0.001 for row in map_of if row["q"] == 0)


@pytest.mark.parametrize("obs", [50, 300])
def test_the_gain_grows_with_the_drift(map_of, obs):
    gains = column(map_of, "static_gain", obs)
    assert gains == sorted(gains)
    assert gains[-1] > 0.03


def test_tracking_adds_little_even_where_it_can(map_of):
    assert all(row["tracking_gain"] < 0.015 for row in map_of)


def test_offsets_are_recovered_where_nothing_drifts(map_of):
    still = {row["obs_per_item"]: row["offset_mse"] for row in map_of if row["q"] == 0}
    assert still[300] < 0.06
    assert still[300] < still[50]
    errors = column(map_of, "offset_mse", 300)
    assert errors == sorted(errors)


def test_the_same_seed_gives_the_same_world():
    assert cell("2pl", 0.05, 40, seed=1, items=30) == cell("2pl", 0.05, 40, seed=1, items=30)
    assert cell("2pl", 0.05, 40, seed=1, items=30) != cell("2pl", 0.05, 40, seed=2, items=30)


def test_a_world_is_what_it_says():
    made = world("1pl", 0.1, 400, seed=3, items=50)
    assert made.calibration.n_rows == 50 * 200
    assert made.calibration.time.max() < made.test.time.min()
    still = world("1pl", 0.0, 400, seed=3, items=50)
    assert np.all(still.bias == 0)
    p = 1 / (1 + np.exp(-still.test.logit))
    assert still.test.label.mean() == pytest.approx(p.mean(), abs=0.02)
