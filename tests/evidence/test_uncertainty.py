"""Paired intervals: compared with a brute-force cluster bootstrap, and their coverage."""

import json

import numpy as np
import pytest
from scipy import stats

from slc_ops.evidence.auc import auc
from slc_ops.evidence.metrics import log_loss
from slc_ops.evidence.uncertainty import (
    MAX_CLUSTERS,
    Clusters,
    PairedDifference,
    _interval,
    _Resampled,
    difference,
    paired_difference,
    user_sums,
)


def students(seed, users=150, per_user=30):
    """Rows of users with different abilities, and two imperfect predictions of them."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), rng.integers(per_user // 2, 2 * per_user, users))
    ability = rng.normal(0, 1, users)[user]
    eta = ability + rng.normal(0, 1, user.size)
    label = (rng.random(user.size) < 1 / (1 + np.exp(-eta))).astype(float)
    good = 1 / (1 + np.exp(-(eta + rng.normal(0, 0.5, user.size))))
    poor = 1 / (1 + np.exp(-(eta + rng.normal(0, 1.0, user.size))))
    return label, good, poor, user


def brute_force(label, a, b, user, replicates, weight=None):
    """Resample users and recompute both metrics on their rows each time; the predictions have no ties."""
    rng = np.random.default_rng(99)
    first, second = np.argsort(a), np.argsort(b)
    label, other = label.astype(bool), log_loss(label, a) - log_loss(label, b)
    weight = np.ones(label.size) if weight is None else weight
    users = int(user.max()) + 1
    drawn = []
    for _ in range(replicates):
        w = weight * np.bincount(rng.integers(0, users, users), minlength=users)[user]
        areas = [w[order] * label[order] @ np.cumsum(w[order] * ~label[order]) for order in (first, second)]
        pairs = w[label].sum() * w[~label].sum()
        drawn.append(((areas[0] - areas[1]) / pairs, w @ other / w.sum()))
    return np.array(drawn)


@pytest.mark.parametrize("weighted", [False, True])
def test_user_sums_give_the_brute_force_bootstrap(weighted):
    label, a, b, user = students(1)
    weight = np.random.default_rng(0).uniform(0.2, 3, label.size) if weighted else None
    found = paired_difference(label, a, b, user, weight=weight, replicates=4000)
    slow = brute_force(label, a, b, user, 2000, weight)
    for column, interval in enumerate((found.auc, found.nll)):
        low, high = np.quantile(slow[:, column], [0.025, 0.975])
        width = high - low
        assert interval.low == pytest.approx(low, abs=0.08 * width)
        assert interval.high == pytest.approx(high, abs=0.08 * width)


def test_a_user_unlike_the_others_pulls_the_interval_of_the_auc_to_one_side():
    """One of a hundred users has many rows, which the first prediction ranks in reverse."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(100), [100] + [20] * 99)
    label = (rng.random(user.size) < 0.5).astype(float)
    a = 1 / (1 + np.exp(np.where(user == 0, 3, -1) * (2 * label - 1) + rng.normal(0, 1, user.size)))
    b = rng.random(user.size)
    found = paired_difference(label, a, b, user).auc
    low, high = np.quantile(brute_force(label, a, b, user, 500)[:, 0], [0.025, 0.975])
    below, above = found.estimate - found.low, found.high - found.estimate
    assert found.estimate - low > 1.3 * (high - found.estimate)
    assert below > 1.3 * above
    assert [found.low, found.high] == pytest.approx([low, high], abs=0.08 * (high - low))


def test_the_estimates_are_the_differences_of_the_metrics():
    label, a, b, user = students(2)
    found = paired_difference(label, a, b, user)
    assert found.auc.estimate == pytest.approx(auc(label, a).value - auc(label, b).value, abs=1e-12)
    assert found.nll.estimate == pytest.approx((log_loss(label, a) - log_loss(label, b)).mean(), abs=1e-12)


def test_a_method_differs_from_itself_by_exactly_zero():
    label, a, _, user = students(3)
    found = paired_difference(label, a, a, user)
    for interval in (found.auc, found.nll):
        assert (interval.estimate, interval.low, interval.high) == (0.0, 0.0, 0.0)


def test_swapping_the_methods_mirrors_the_intervals():
    label, a, b, user = students(4)
    there, back = paired_difference(label, a, b, user), paired_difference(label, b, a, user)
    assert there.nll.low == pytest.approx(-back.nll.high, rel=0.05)
    assert there.auc.estimate == pytest.approx(-back.auc.estimate, abs=1e-12)


def test_rows_of_one_user_are_one_cluster():
    label, a, b, user = students(5, users=60)
    clustered = paired_difference(label, a, b, user)
    copied = paired_difference(*(np.tile(column, 4) for column in (label, a, b, user)))
    as_if_independent = paired_difference(
        *(np.tile(column, 4) for column in (label, a, b)), np.arange(4 * label.size)
    )
    width = clustered.nll.high - clustered.nll.low
    assert copied.nll.high - copied.nll.low == pytest.approx(width, rel=0.02)
    assert as_if_independent.nll.high - as_if_independent.nll.low < 0.7 * width


def test_pooling_many_users_into_groups_keeps_the_width():
    label, a, b, user = students(6, users=3 * MAX_CLUSTERS, per_user=4)
    pooled = paired_difference(label, a, b, user)
    assert Clusters.of(user).count == MAX_CLUSTERS
    losses = np.bincount(user, log_loss(label, a) - log_loss(label, b))
    sizes = np.bincount(user)
    mean = losses.sum() / sizes.sum()
    error = np.sqrt(((losses - mean * sizes) ** 2).sum()) / sizes.sum()  # the sandwich, user by user
    assert pooled.nll.high - pooled.nll.low == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_the_same_input_gives_the_same_interval():
    label, a, b, user = students(7)
    assert paired_difference(label, a, b, user) == paired_difference(label, a, b, user)


def test_the_order_of_rows_and_the_names_of_users_do_not_matter_to_the_estimate():
    label, a, b, user = students(8)
    order = np.random.default_rng(1).permutation(label.size)
    plain = paired_difference(label, a, b, user)
    shuffled = paired_difference(label[order], a[order], b[order], 7 * user[order] + 1000)
    assert shuffled.auc.estimate == pytest.approx(plain.auc.estimate, abs=1e-12)
    assert shuffled.auc.low == pytest.approx(plain.auc.low, abs=1e-9)


def test_few_users_give_an_estimate_without_an_interval():
    label, a, b, user = students(9, users=6)
    found = paired_difference(label, a, b, user)
    assert found.nll.estimate is not None
    assert found.nll.low is None
    assert "at least 10 users; there are 6" in found.nll.reason


def test_one_class_has_an_nll_but_no_auc():
    _, a, b, user = students(10)
    found = paired_difference(np.ones(a.size), a, b, user)
    assert found.auc.estimate is None
    assert "both classes" in found.auc.reason
    assert found.nll.low is not None


def test_a_single_method_gets_an_interval_too():
    label, a, _, user = students(11)
    sums = user_sums(label, a, Clusters.of(user))
    found = difference(sums, None)
    assert found.auc.estimate == pytest.approx(auc(label, a).value, abs=1e-12)
    assert found.auc.low < found.auc.estimate < found.auc.high
    assert sums.auc == pytest.approx(found.auc.estimate)
    assert sums.mean("nll") == pytest.approx(found.nll.estimate)


def test_the_json_round_trips():
    label, a, b, user = students(12)
    found = paired_difference(label, a, b, user)
    assert PairedDifference.from_dict(json.loads(json.dumps(found.as_dict(), allow_nan=False))) == found


def test_the_interval_has_its_nominal_coverage():
    # The full count (and the AUC's) is benchmarks/evidence_coverage.py.
    rng = np.random.default_rng(0)
    truth = np.mean([_nll_difference(students(int(seed))) for seed in rng.integers(10_000, 10**9, 400)])
    worlds = 150
    # Correct intervals cover the truth this often, up to three standard deviations of chance. At 80 %
    # there is room above as well as below: intervals that are too wide do not pass.
    expected = {0.95: (135, 150), 0.8: (105, 135)}
    hits = dict.fromkeys(expected, 0)
    stretched = dict.fromkeys((0.6, 1.6), 0)
    for seed in range(worlds):
        label, a, b, user = students(seed)
        for confidence in expected:
            found = paired_difference(label, a, b, user, confidence=confidence, replicates=400).nll
            hits[confidence] += found.low <= truth <= found.high
        middle, half = (found.high + found.low) / 2, (found.high - found.low) / 2
        for factor in stretched:
            stretched[factor] += abs(truth - middle) <= factor * half
    for confidence, (least, most) in expected.items():
        assert least <= hits[confidence] <= most
    # The bounds bite on both sides: intervals of 0.6 or 1.6 times the width would be refused.
    assert stretched[0.6] < expected[0.8][0]
    assert stretched[1.6] > expected[0.8][1]


def _nll_difference(world):
    label, a, b, _ = world
    return (log_loss(label, a) - log_loss(label, b)).mean()


def test_intervals_are_wider_for_few_users_by_students_t():
    drawn = np.random.default_rng(3).normal(0, 2, 4000)
    reach = stats.t.ppf(0.975, 4) * np.sqrt(5 / 4)
    found = _interval(_Resampled(0.1, drawn), 0.95, 5, symmetric=False)
    expected = np.quantile(drawn, [stats.norm.cdf(-reach), stats.norm.cdf(reach)])
    np.testing.assert_allclose([found.low, found.high], expected)
    even = _interval(_Resampled(0.1, drawn), 0.95, 5, symmetric=True)
    np.testing.assert_allclose([even.low, even.high], 0.1 + np.array([-1, 1]) * reach * drawn.std())


def test_tiny_weights_give_the_same_intervals():
    label, good, poor, user = students(5, users=30)
    plain = paired_difference(label, good, poor, user, replicates=100)
    tiny = paired_difference(label, good, poor, user, replicates=100, weight=np.full(label.size, 1e-6))
    for name in ("auc", "nll"):
        a, b = getattr(plain, name), getattr(tiny, name)
        np.testing.assert_allclose([b.estimate, b.low, b.high], [a.estimate, a.low, a.high])
