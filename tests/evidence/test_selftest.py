"""Results that contradict the mathematics stop the run."""

from dataclasses import replace

import numpy as np
import pytest

from slc_ops.base.errors import SelfTestFailed
from slc_ops.evidence.auc import auc
from slc_ops.evidence.backtest import check_invariance, check_ranges, check_scored
from slc_ops.evidence.metrics import metrics_of
from slc_ops.evidence.scoring import Score
from tests.evidence.worlds import sigmoid


def score(method, label, logit, slope, **more):
    return Score(method, "confirm-x", metrics_of(label, sigmoid(slope * logit)), slope=slope, **more)


def with_value(metrics, name, value):
    return replace(metrics, values={**metrics.values, name: value})


@pytest.fixture
def world():
    rng = np.random.default_rng(0)
    logit = rng.normal(0, 2, 4000)
    label = (rng.random(4000) < sigmoid(logit)).astype(float)
    base = score("base", label, logit, 1.0, tied_logits=auc(label, logit).tied)
    return label, logit, base


@pytest.mark.parametrize("method", ["platt", "temperature"])
def test_an_increasing_map_passes(world, method):
    label, logit, base = world
    check_invariance(base, score(method, label, logit, 0.3))


def test_a_map_that_changes_the_order_is_detected(world):
    label, logit, base = world
    swapped = logit.copy()
    swapped[:40] = -swapped[:40]
    with pytest.raises(SelfTestFailed, match="platt changed the AUC on fold confirm-x"):
        check_invariance(base, score("platt", label, swapped, 0.3))


def test_one_reversed_pair_is_detected(world):
    label, logit, base = world
    order = np.argsort(logit)
    place = next(k for k in range(2000, 3000) if label[order[k]] != label[order[k + 1]])
    swapped = logit.copy()
    swapped[order[[place, place + 1]]] = logit[order[[place + 1, place]]]
    with pytest.raises(SelfTestFailed):
        check_invariance(base, score("platt", label, swapped, 0.3))


def test_a_negative_slope_may_reverse_the_order(world):
    label, logit, base = world
    check_invariance(base, score("platt", label, logit, -0.3))


def test_other_methods_may_change_the_order(world):
    label, logit, base = world
    check_invariance(base, score("slc", label, -logit, 1.0))


def test_saturated_logits_lose_pairs_to_rounding_only():
    rng = np.random.default_rng(1)
    logit = rng.normal(0, 30, 4000)  # many beyond 37, where σ is 1.0
    label = (rng.random(4000) < sigmoid(logit / 20)).astype(float)
    base = score("base", label, logit, 1.0, tied_logits=auc(label, logit).tied)
    platt = score("platt", label, logit, 0.05)
    assert base.metrics.auc != platt.metrics.auc
    check_invariance(base, platt)
    with pytest.raises(SelfTestFailed):
        check_invariance(
            base, replace(platt, metrics=with_value(platt.metrics, "auc", platt.metrics.auc + 0.02))
        )


@pytest.mark.parametrize(
    ("name", "value"), [("auc", 1.2), ("nll", 14.0), ("ece", -0.1), ("brier", float("nan"))]
)
def test_a_metric_outside_its_range_is_detected(world, name, value):
    _, _, base = world
    with pytest.raises(SelfTestFailed, match=f"{name} of base on fold confirm-x"):
        check_ranges(replace(base, metrics=with_value(base.metrics, name, value)))


def test_an_unscorable_newest_window_stops_the_run_with_its_reason():
    with pytest.raises(SelfTestFailed, match="cannot be scored: no rows"):
        check_scored(Score("base", "confirm-x", None, error="no rows"))


def test_a_perfect_ranking_is_within_its_range(world):
    label, _, _ = world
    found = score("base", label, label * 4 - 2, 1.0)
    assert found.metrics.auc == 1.0
    check_ranges(found)


def test_ties_of_the_logits_themselves_hide_no_changed_order(world):
    label, logit, _ = world
    tied = np.round(logit * 2) / 2
    base = score("base", label, tied, 1.0, tied_logits=auc(label, tied).tied)
    check_invariance(base, score("platt", label, tied, 0.3))
    swapped = tied.copy()
    swapped[tied == 0.5], swapped[tied == 1.0] = 1.0, 0.5
    changed = score("platt", label, swapped, 0.3)
    assert abs(changed.metrics.auc - base.metrics.auc) < base.tied_logits / 2
    with pytest.raises(SelfTestFailed):
        check_invariance(base, changed)
