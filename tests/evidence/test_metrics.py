"""Metrics compared with scikit-learn and with their definitions."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from slc_ops.base.errors import InputError
from slc_ops.evidence.metrics import METRICS, Metric, Metrics, metrics_of, squared_error
from slc_ops.evidence.row_sums import BINS


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    p = rng.beta(2, 1, 5000)
    return (rng.random(5000) < p**1.3).astype(float), p, rng.integers(0, 3, 5000).astype(float)


def ece_by_definition(label, p, weight):
    """Bins (low, high], one after another."""
    total = 0.0
    for k in range(BINS):
        low, high = np.linspace(0, 1, BINS + 1)[k : k + 2]
        inside = (p > low) & (p <= high) | ((k == 0) & (p == 0))
        if weight[inside].sum() > 0:
            gap = np.average(label[inside], weights=weight[inside]) - np.average(
                p[inside], weights=weight[inside]
            )
            total += weight[inside].sum() / weight.sum() * abs(gap)
    return total


@pytest.mark.parametrize("weighted", [False, True])
def test_they_agree_with_scikit_learn(rows, weighted):
    label, p, weight = rows
    w = weight if weighted else None
    found = metrics_of(label, p, w)
    clipped = np.clip(p, 1e-6, 1 - 1e-6)
    assert found.auc == pytest.approx(roc_auc_score(label, p, sample_weight=w), abs=1e-12)
    assert found.nll == pytest.approx(sklearn_log_loss(label, clipped, sample_weight=w), abs=1e-12)
    assert found["brier"] == pytest.approx(brier_score_loss(label, p, sample_weight=w), abs=1e-12)
    assert found["accuracy"] == pytest.approx(accuracy_score(label, p >= 0.5, sample_weight=w), abs=1e-12)
    assert found["ece"] == pytest.approx(
        ece_by_definition(label, p, weight if weighted else np.ones(5000)), abs=1e-12
    )


def test_weight_two_equals_a_duplicated_row_and_weight_zero_a_removed_row(rows):
    label, p, weight = rows
    times = weight.astype(int)
    weighted, expanded = (
        metrics_of(label, p, weight),
        metrics_of(np.repeat(label, times), np.repeat(p, times)),
    )
    for name in METRICS:
        assert weighted[name] == pytest.approx(expanded[name], abs=1e-12)


def test_the_order_of_the_rows_changes_no_bit(rows):
    label, p, _ = rows
    p = np.round(p, 2)  # with many ties
    order = np.random.default_rng(0).permutation(len(p))
    assert metrics_of(label[order], p[order]) == metrics_of(label, p)


def test_infinite_weights_are_refused(rows):
    label, p, weight = rows
    with pytest.raises(InputError, match="weights must be finite"):
        metrics_of(label, p, np.where(weight > 1, np.inf, weight))


def test_bins_are_closed_on_the_right():
    edges = np.linspace(0, 1, BINS + 1)
    found = metrics_of(np.resize([0.0, 1.0], BINS + 1), edges)
    counts = [each["n"] for each in found.reliability]
    assert counts == [2] + [1] * (BINS - 1)  # 0 and 1/15 share the first bin, 1 is in the last


def test_a_certain_wrong_prediction_costs_the_clipped_maximum():
    assert metrics_of(np.array([1.0, 0.0]), np.array([0.0, 1.0])).nll == pytest.approx(-np.log(1e-6))


def test_many_blocks_equal_one_pass(rows):
    label, p, weight = rows
    repeated = metrics_of(np.tile(label, 120), np.tile(p, 120), np.tile(weight, 120))
    once = metrics_of(label, p, weight)
    for name in METRICS:
        assert repeated[name] == pytest.approx(once[name], abs=1e-10)


def test_one_class_gives_all_metrics_but_the_auc_and_a_reason():
    found = metrics_of(np.ones(3), np.array([0.5, 0.9, 0.7]))
    assert found.auc is None
    assert "both classes" in found.reasons["auc"]
    assert found.nll is not None


@pytest.mark.parametrize("weight", [None, np.zeros(0)])
def test_without_rows_every_metric_has_a_reason_instead_of_a_number(weight):
    found = metrics_of(np.zeros(0), np.zeros(0), weight)
    assert [found[name] for name in METRICS] == [None] * 5
    assert set(found.reasons) == set(METRICS)


def test_weights_that_are_all_zero_give_no_numbers():
    assert (
        metrics_of(np.array([0.0, 1.0]), np.array([0.2, 0.4]), np.zeros(2)).reasons["nll"]
        == "all weights are 0"
    )


def test_the_json_has_no_nan_and_round_trips(rows):
    label, p, _ = rows
    for found in (
        metrics_of(label, p),
        metrics_of(np.ones(2), np.ones(2)),
        metrics_of(np.zeros(0), np.zeros(0)),
    ):
        text = json.dumps(found.as_dict(), allow_nan=False)
        assert Metrics.from_dict(json.loads(text)).as_dict() == found.as_dict()


@pytest.mark.parametrize(
    ("label", "p", "says"),
    [
        ([0, 1], [0.5, 1.2], "probabilities must lie in"),
        ([0, 1], [0.5, np.nan], "probabilities must lie in"),
        ([0, 2], [0.5, 0.5], "labels must be 0 or 1"),
        ([0, 0.5], [0.5, 0.5], "labels must be 0 or 1"),
        ([0, 1, 1], [0.5, 0.5], "equal length"),
    ],
)
def test_invalid_rows_are_refused(label, p, says):
    with pytest.raises(InputError, match=says):
        metrics_of(np.array(label, dtype=float), np.array(p))


def test_negative_weights_are_refused():
    with pytest.raises(InputError, match="weights"):
        metrics_of(np.array([0, 1]), np.array([0.5, 0.5]), np.array([1.0, -1.0]))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "either per_row or a formula"),
        ({"per_row": squared_error, "formula": lambda _, found: found.value}, "either per_row or a formula"),
        ({"formula": lambda _, found: found.value, "paired": True}, "no mean over rows"),
    ],
)
def test_a_metric_has_one_definition_and_intervals_only_as_a_mean_over_rows(given, says):
    with pytest.raises(ValueError, match=says):
        Metric("new", "new", (0.0, 1.0), 1, **given)
    assert Metric("new", "new", (0.0, 1.0), 1, per_row=squared_error, paired=True).paired
