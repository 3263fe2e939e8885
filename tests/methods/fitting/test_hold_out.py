"""The held-out rows on which a prior is chosen."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.methods.fitting.prior_sample import prior_rows
from slc_ops.methods.fitting.prior_variance import held_out, held_out_users
from slc_ops.numerics.time_bins import position
from tests.methods.biased_rows import log_of, prior_of, world


@pytest.mark.parametrize(
    "scale", [1.0, 0.5, 1e16]
)  # integer times, halves, and times too wide to share an integer
def test_the_position_of_a_row_is_the_share_of_its_users_earlier_weight(scale):
    rng = np.random.default_rng(2)
    users, time = rng.integers(0, 5, 200).astype(np.int32), rng.integers(0, 9, 200) * scale
    weight = rng.integers(0, 3, 200).astype(float)
    found = position(users, time, weight)
    for row in range(200):
        mine = users == users[row]
        before, at = weight[mine & (time < time[row])].sum(), weight[mine & (time == time[row])].sum()
        assert found[row] == pytest.approx((before + at / 2) / weight[mine].sum(), abs=1e-12)
    assert np.allclose(position(users, time), position(users, time, np.ones(200)), atol=1e-15)


def test_each_users_last_fifth_is_held_out():
    table = pa.table({"item_id": [0] * 15, "user_id": [1] * 10 + [2] * 5, "label": [0, 1, 1] * 5,
                      "event_time": [*range(10, 20), 5, 4, 3, 2, 1], "logit": [0.0] * 15})  # fmt: skip
    assert np.flatnonzero(held_out(prior_rows(log_of(table)))).tolist() == [8, 9, 10]


def test_complete_users_are_held_out_whatever_the_row_order():
    table = world(rows=2000)[0]
    held = held_out_users(prior_rows(log_of(table)))
    users = table["user_id"].to_numpy()
    assert not set(users[held]) & set(users[~held])
    assert 0.1 <= held.mean() <= 0.2
    order = np.random.default_rng(0).permutation(2000)
    assert (held_out_users(prior_rows(log_of(table.take(order)))) == held[order]).all()
    assert (
        held_out_users(prior_rows(log_of(table.set_column(1, "user_id", pa.array(np.arange(2000)))))) is None
    )


def test_shared_outcomes_of_a_user_do_not_count_as_item_differences():
    rng = np.random.default_rng(4)
    games, rows = 120, 40  # a game is a user, its rows share item and label, and items have no effect
    game = np.repeat(np.arange(games), rows)
    logit = rng.normal(0, 1, games)[game]
    label = (rng.random(games)[game] < 1 / (1 + np.exp(-logit))).astype(int)
    table = pa.table({"item_id": rng.integers(0, 15, games)[game], "user_id": game, "label": label,
                      "event_time": np.arange(games * rows), "logit": logit})  # fmt: skip
    assert prior_of(table).variance <= 2**-5
    forgotten = table.drop_columns(["user_id"])  # a split by rows cannot detect it
    assert prior_of(forgotten).variance >= prior_of(table).variance


def test_rows_with_one_timestamp_stay_together():
    installation = position(np.zeros(4, np.int32), np.array([1.0, 2.0, 2.0, 2.0]), np.ones(4))
    assert installation.tolist() == [0.125, 0.625, 0.625, 0.625]


def test_integer_and_fractional_times_have_the_same_order():
    rng = np.random.default_rng(0)
    users, time = rng.integers(0, 9, 500).astype(np.int32), rng.integers(0, 60, 500).astype(float)
    weight = rng.uniform(0, 2, 500)
    np.testing.assert_allclose(position(users, time, weight), position(users, time + 0.5, weight), atol=1e-12)


def test_users_with_one_row_are_split_by_time():
    table = world(rows=1000)[0]
    table = table.set_column(1, "user_id", pa.array(np.arange(1000)))
    assert np.flatnonzero(held_out(prior_rows(log_of(table)))).tolist() == list(range(800, 1000))


@pytest.mark.parametrize("drop", [["event_time"], ["event_time", "user_id"]])
def test_without_times_the_marginal_likelihood_decides(drop):
    table = world(sd=0.7, items=400)[0].drop_columns(drop)
    prior = prior_of(table)
    assert (prior.source, prior.lasting) == ("marginal likelihood", 1.0)
    assert prior.variance in (0.25, 0.5)


def test_without_users_the_split_is_by_time():
    table = world(sd=0.7, items=400)[0].drop_columns(["user_id"])
    prior = prior_of(table)
    assert (prior.source, prior.variance) == ("hold-out", 0.5)


def test_a_single_timestamp_or_class_falls_back_to_the_marginal_likelihood():
    table = world(rows=500)[0]
    frozen = table.set_column(2, "event_time", pa.array(np.zeros(500)))
    assert prior_of(frozen).source == "marginal likelihood"
    label = table["label"].to_numpy().copy()
    label[held_out(prior_rows(log_of(table)))] = 1
    assert prior_of(table.set_column(3, "label", pa.array(label))).source == "marginal likelihood"


@pytest.mark.parametrize(("weight", "source"), [(1.0, "hold-out"), (0.0, "marginal likelihood")])
def test_a_class_counts_only_with_rows_of_positive_weight(weight, source):
    table = world(rows=500)[0].drop_columns(["user_id"])
    later_zeros = (np.arange(500) >= 200) & (table["label"].to_numpy() == 0)
    weights = pa.array(np.where(later_zeros, weight, 1.0))
    assert prior_of(table.append_column("weight", weights)).source == source
