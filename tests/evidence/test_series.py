"""The series of windows: its statistic against independent formulas, and invariances."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from slc_ops.evidence.series import Entry, Paired, entry, paired, statistic
from slc_ops.evidence.uncertainty import Clusters, UserSums, user_sums
from tests.evidence.worlds import week


def made(differences, errors=None, weights=None, hold_out=None, method="slc_eb", reference="platt"):
    """Entries with these differences, one per window."""
    n = len(differences)
    errors, weights = errors or [0.001] * n, weights or [1000.0] * n
    return [
        Entry(week(k), int(m), 50, m, {}, {method: {reference: Paired(d, se)}}, hold_out=hold_out == k)
        for k, (d, se, m) in enumerate(zip(differences, errors, weights, strict=True))
    ]


def sums_of(rng, rows=4000, users=80, sharp=0.0):
    label, user = rng.integers(0, 2, rows), rng.integers(0, users, rows)
    clusters = Clusters.of(user)
    p, q = rng.uniform(0.1, 0.9, rows), rng.uniform(0.1, 0.9, rows)
    return [user_sums(label, each, clusters) for each in (p, (1 - sharp) * q + sharp * p)]


def test_the_standard_error_of_a_window_equals_that_of_resampled_users():
    rng = np.random.default_rng(1)
    a, b = sums_of(rng)
    found = paired(a, b)
    D, M = a.means["nll"] - b.means["nll"], a.weight
    draws = rng.integers(0, len(M), (4000, len(M)))
    bootstrap = D[draws].sum(1) / M[draws].sum(1)
    assert found.d == pytest.approx(D.sum() / M.sum())
    assert found.se == pytest.approx(bootstrap.std(), rel=0.05)


def test_an_entry_has_every_pair_and_round_trips_through_json():
    rng = np.random.default_rng(2)
    platt, eb = sums_of(rng)
    found = entry(week(0), {"slc_eb": eb, "platt": platt, "base": platt}, left_out={"slc_t": "no time"})
    assert set(found.against) == {"platt", "slc_eb"}
    assert found.difference("platt", "slc_eb").d == -found.difference("slc_eb", "platt").d
    assert found.difference("slc_eb", "platt").d == pytest.approx(found.nll["slc_eb"] - found.nll["platt"])
    assert found.difference("base", "platt") == Paired(0.0, 0.0)
    assert found.difference("slc_t", "platt") is None
    assert Entry.from_dict(json.loads(json.dumps(found.as_dict(), allow_nan=False))) == found


def test_equal_windows_give_the_plain_mean_with_half_the_degrees_of_freedom():
    d = [-0.010, -0.004, -0.007, -0.001, -0.012, -0.006, -0.003, -0.009]
    found = statistic(made(d, errors=[1e-6] * 8), "slc_eb", "platt")
    spread = np.std(d, ddof=1)
    assert found.mean == pytest.approx(np.mean(d))
    assert found.spread == pytest.approx(spread, rel=1e-6)
    assert found.error == pytest.approx(spread / 2, rel=1e-6)  # eight windows count as four
    reach = stats.t.ppf(0.975, 4)
    assert (found.low, found.high) == pytest.approx(
        (np.mean(d) - reach * spread / 2, np.mean(d) + reach * spread / 2)
    )
    assert found.next_high == pytest.approx(np.mean(d) + reach * spread * np.sqrt(1.25), rel=1e-6)


def test_the_weights_are_those_of_dersimonian_and_laird():
    d, se, m = np.array([0.02, -0.01, 0.03]), 0.01, np.array([4000.0, 1000.0, 250.0])
    # The pooled variance per row gives each window its own within-variance.
    pooled = np.sum(m**2 * se**2) / np.sum(m)
    w = m / pooled
    centre = w @ d / w.sum()
    tau2 = max(0.0, (w @ (d - centre) ** 2 - 2) / (w.sum() - w @ w / w.sum()))
    weights = 1 / (tau2 + pooled / m)
    found = statistic(made(list(d), [se] * 3, list(m)), "slc_eb", "platt")
    assert found.mean == pytest.approx(weights @ d / weights.sum())


def test_a_small_window_has_a_small_weight():
    steady = [-0.005, -0.0051, -0.0049, -0.005]
    entries = made([*steady, 0.04], errors=[0.001] * 4 + [0.03], weights=[1e4] * 4 + [20.0])
    assert statistic(entries, "slc_eb", "platt").mean < -0.004


def test_a_single_window_uses_the_standard_error_over_users():
    found = statistic(made([-0.02], errors=[0.004]), "slc_eb", "platt")
    assert (found.windows, found.mean, found.error) == (1, -0.02, pytest.approx(0.004))
    assert (found.next_low, found.next_high) == (None, None)


def test_only_the_last_windows_count_and_a_hold_out_only_without_others():
    d = [5.0, 5.0, 1.0, 2.0, 3.0]
    assert statistic(made(d), "slc_eb", "platt", last=3).mean == pytest.approx(2.0, rel=1e-3)
    alone = statistic(made([0.3], hold_out=0), "slc_eb", "platt")
    assert (alone.hold_out, alone.mean) == (True, 0.3)
    later = statistic(made([0.3, 0.1], hold_out=0), "slc_eb", "platt")
    assert (later.hold_out, later.windows, later.mean) == (False, 1, 0.1)


def test_identical_methods_have_a_difference_of_zero():
    found = statistic(made([0.0] * 4, errors=[0.0] * 4), "slc_eb", "platt")
    assert (found.mean, found.low, found.high, found.error) == (0.0, 0.0, 0.0, 0.0)


def test_windows_of_one_user_use_the_pooled_variance():
    some = statistic(made([0.1, 0.2], errors=[None, 0.01]), "slc_eb", "platt")
    assert some.error > 0
    assert statistic(made([0.1, 0.2], errors=[None, None]), "slc_eb", "platt") is None
    assert statistic([], "slc_eb", "platt") is None


def test_a_window_of_seven_users_is_scored_like_any_other():
    rng = np.random.default_rng(3)
    windows = [
        entry(week(k), dict(zip(("platt", "slc_eb"), sums_of(rng, users=7), strict=True))) for k in range(4)
    ]
    found = statistic(windows, "slc_eb", "platt")
    assert found.windows == 4
    assert np.isfinite([found.low, found.high]).all()


def test_the_standard_error_of_two_users_is_that_of_the_formula():
    one = UserSums(np.array([2.0, 1.0]), np.array([1.0, 2.0]), np.zeros(2), {"nll": np.array([3.0, 1.0])}, 6)
    other = replace(one, means={"nll": np.array([1.0, 1.0])})
    found = paired(one, other)
    assert found.d == pytest.approx(2 / 6)
    assert found.se == pytest.approx(np.sqrt(2 / 1 * ((2 - 3 * 2 / 6) ** 2 + (3 * 2 / 6) ** 2)) / 6)


def test_rows_of_weight_zero_give_an_entry_without_losses():
    nothing = UserSums(np.zeros(3), np.zeros(3), np.zeros(3), {"nll": np.zeros(3)}, 5)
    found = entry(week(0), {"platt": nothing, "slc_eb": nothing})
    assert (found.rows, found.users, found.weight, found.nll, found.against) == (5, 0, 0.0, {}, {})


def test_windows_of_one_user_each_have_a_statistic_from_the_spread_alone():
    found = statistic(made([-0.01, -0.02, -0.03], errors=[None] * 3), "slc_eb", "platt")
    assert found is not None
    assert found.spread == pytest.approx(0.01)
    assert statistic(made([-0.01, -0.02], errors=[None] * 2), "slc_eb", "platt") is None
