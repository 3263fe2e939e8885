"""Some cells of the regime map at the paper's bounds; ``benchmarks/paper_regime.py`` computes all."""

import numpy as np
import pytest

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.link import fit_link
from slc_ops.paper.regime import CALIBRATION, SCALE, SHIFT, cell, offsets, regime_map, world

pytestmark = pytest.mark.slow  # simulated cells of the map


@pytest.fixture(scope="module", params=["1pl", "2pl"])
def map_of(request):
    return regime_map(request.param, drifts=(0.0, 0.02, 0.2), densities=(30, 300))


def column(rows, name, obs):
    return [row[name] for row in rows if row["obs_per_item_and_bin"] == obs]


@pytest.mark.slow
def test_without_drift_a_dense_correction_neither_gains_nor_loses(map_of):
    still = {row["obs_per_item_and_bin"]: row["static_gain"] for row in map_of if row["q"] == 0}
    assert abs(still[300]) < 0.001
    assert -0.005 < still[30] < 0.001  # the cost of a prior variance of 1 with 120 rows per item


@pytest.mark.parametrize("obs", [30, 300])
def test_the_gain_grows_with_the_drift_and_is_positive_with_any_drift(map_of, obs):
    gains = column(map_of, "static_gain", obs)
    assert gains == sorted(gains)
    assert gains[1] > 0.01
    assert gains[2] > 0.09


def test_tracking_adds_at_most_seven_tenths_of_a_point_even_in_the_most_favourable_cell(map_of):
    assert all(row["tracking_gain"] <= 0.007 for row in map_of)
    best = max(map_of, key=lambda row: row["tracking_gain"])
    assert (best["q"], best["tracking_gain"] > 0.003) == (0.2, True)


def test_the_error_of_the_offsets_drops_to_nearly_zero_where_nothing_drifts(map_of):
    still = {row["obs_per_item_and_bin"]: row["offset_mse"] for row in map_of if row["q"] == 0}
    # 1PL has only noise, 1/W of about 240; in 2PL the backbone does not model the slopes.
    assert still[300] < (0.006 if map_of[0]["model"] == "1pl" else 0.015)
    assert still[300] < still[30]
    errors = column(map_of, "offset_mse", 300)
    assert errors == sorted(errors)


def test_the_same_seed_gives_the_same_world():
    assert cell("2pl", 0.05, 4, seed=1, items=30) == cell("2pl", 0.05, 4, seed=1, items=30)
    assert cell("2pl", 0.05, 4, seed=1, items=30) != cell("2pl", 0.05, 4, seed=2, items=30)


def test_every_item_has_its_observations_in_every_bin_of_the_split():
    made = world("1pl", 0.1, 7, seed=3, items=50)
    for log, bins in ((made.calibration, range(12, 16)), (made.test, range(16, 20))):
        pairs, counts = np.unique(np.stack([log.item_codes, log.time]), axis=1, return_counts=True)
        assert set(counts.tolist()) == {7}
        assert sorted(set(pairs[1].tolist())) == list(bins)
        assert len(log.items) == 50


def test_the_labels_follow_the_truth_and_the_backbone_is_its_past_with_a_wrong_scale_and_shift():
    made = world("1pl", 0.1, 400, seed=3, items=50)
    log = made.calibration
    truth = (log.logit - SHIFT) / SCALE + made.bias[log.item_codes, np.asarray(log.time, int)]
    p = 1 / (1 + np.exp(-truth))
    gap = np.bincount(log.item_codes, log.label - p) / np.sqrt(np.bincount(log.item_codes, p * (1 - p)))
    assert np.square(gap).mean() == pytest.approx(1.0, abs=0.6)  # standard normal, 50 of them
    still = world("1pl", 0.0, 4, seed=3, items=50)
    assert np.all(still.bias == 0)


def test_tracked_offsets_follow_a_walk_that_static_ones_cannot():
    made = world("1pl", 0.2, 300, seed=0)
    platt = fit_link(Calibration(made.calibration))
    static, tracked = (offsets(made.calibration, platt, q)[:, CALIBRATION] for q in (0.0, 0.2))
    truth = made.bias[:, CALIBRATION]
    np.testing.assert_allclose(static, np.repeat(static[:, :1], 4, axis=1), atol=1e-12)  # one per item
    step = np.diff(truth, axis=1)
    assert np.corrcoef(np.diff(tracked, axis=1).ravel(), step.ravel())[0, 1] > 0.8
