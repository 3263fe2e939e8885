"""The sample on which a prior is chosen: complete users, bounded, independent of how the log is stored."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slc_ops.base.hashing import hashes_of
from slc_ops.methods import FitOptions, fit
from slc_ops.methods.fitting import prior_sample
from slc_ops.methods.fitting.prior_sample import item_sample, prior_rows
from tests.methods.biased_rows import log_of, predictions, prior_of, world

BOUND = 4000


@pytest.fixture(autouse=True)
def bounded(monkeypatch):
    """Lower the limits: logs above 4,000 rows are sampled, and 40 items represent the others."""
    monkeypatch.setattr(prior_sample, "PRIOR_ROWS", BOUND)
    monkeypatch.setattr(prior_sample, "LEAST_ITEMS", 40)


def few(rows, users, **options):
    """A log of few items, from which complete users are sampled."""
    return world(rows=rows, items=60, users=users, **options)[0]


def many(rows=20_000, users=60, items=1000, **options):
    """A log of many items of similar size, from which complete items are sampled."""
    table = world(rows=rows, users=users, **options)[0]
    item = np.random.default_rng(7).integers(0, items, rows)
    return table.set_column(0, "item_id", pa.array(item))


def busy(rows=20_000, **options):
    return world(rows=rows, users=1500, **options)[0]


def shuffled(table, seed=0):
    return table.take(pa.array(np.random.default_rng(seed).permutation(len(table))))


def picked(table):
    """The weight of every sampled row by its content, in a fixed order; items by their ids."""
    log = log_of(table)
    rows = prior_rows(log)
    assert rows is not None
    columns = {"item": log.items.take(pa.array(rows.codes)), "label": rows.label, "logit": rows.logit}
    if rows.time is not None:
        columns["time"] = rows.time
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    grouped = pa.table(columns | {"weight": weight}).group_by(list(columns)).aggregate([("weight", "sum")])
    return grouped.sort_by([(name, "ascending") for name in grouped.column_names])


# --- which rows are sampled ----------------------------------------------------------------------------


def test_with_many_items_complete_items_are_sampled():
    log = log_of(many())
    found = prior_rows(log)
    chosen = np.zeros(log.n_rows, bool)
    chosen[found.time.astype(int)] = True
    of_item = np.bincount(log.item_codes, chosen) / np.bincount(log.item_codes)
    assert set(of_item) == {0.0, 1.0}
    assert len(found) == pytest.approx(BOUND, rel=0.2)
    pairs = set(zip(found.user.tolist(), log.user_codes[chosen].tolist(), strict=True))
    assert len(pairs) == len(log.users) == 60


def test_users_with_few_sampled_rows_are_ignored():
    assert prior_rows(log_of(many(users=300))).user is not None
    assert prior_rows(log_of(many(users=1500))).user is None
    assert prior_of(many(users=1500)).source == "hold-out"
    # Rows of weight 0 make a log large, but dropping them loses no information.
    weight = pa.array((np.arange(20_000) % 10 == 0).astype(float))
    assert prior_rows(log_of(many(users=1500).append_column("weight", weight))).user is not None


@pytest.mark.parametrize("text", [False, True])
def test_with_few_items_complete_users_are_sampled(text):
    table = busy()
    if text:
        names = pa.array([f"user-{k}-of-a-long-name" for k in table["user_id"].to_pylist()])
        table = table.set_column(1, "user_id", names)
    found, log = prior_rows(log_of(table)), log_of(table)
    # Times are the numbers of the rows.
    chosen = np.zeros(len(table), bool)
    chosen[found.time.astype(int)] = True
    of_user = np.bincount(log.user_codes, chosen) / np.bincount(log.user_codes)
    assert set(of_user) == {0.0, 1.0}
    assert np.array_equal(np.flatnonzero(chosen), found.time.astype(int))  # in the order of the rows
    assert len(found) == pytest.approx(BOUND, rel=0.2)
    # The same two rows belong to one user in both.
    pairs = set(zip(found.user.tolist(), log.user_codes[chosen].tolist(), strict=True))
    assert len(pairs) == len(set(found.user.tolist())) == int(of_user.sum())
    np.testing.assert_array_equal(found.codes, log.item_codes[chosen])
    np.testing.assert_array_equal(found.label, table["label"].to_numpy()[chosen])
    np.testing.assert_array_equal(found.logit, table["logit"].to_numpy()[chosen])


def test_a_small_log_is_its_own_sample():
    table = busy(rows=BOUND)
    weight = pa.array(np.arange(BOUND) % 3 / 1.0)
    log = log_of(table.append_column("weight", weight))
    found = prior_rows(log)
    np.testing.assert_array_equal(found.time, np.arange(BOUND))
    pairs = set(zip(found.user.tolist(), log.user_codes.tolist(), strict=True))
    assert len(pairs) == len(set(found.user.tolist())) == len(set(log.user_codes.tolist()))
    np.testing.assert_array_equal(found.weight, weight.to_numpy())


@pytest.mark.parametrize("ids", [np.arange(200_000), np.arange(200_000) * 4096, -np.arange(200_000)])
@pytest.mark.parametrize("text", [False, True])
def test_hashes_of_ids_are_uniform(ids, text):
    column = pa.array(ids)
    hashes = hashes_of(column.cast(pa.string()) if text else column)
    assert len(np.unique(hashes)) == 200_000
    counts = np.bincount((hashes >> np.uint64(56)).astype(int), minlength=256)
    # χ² of 255 degrees of freedom: five standard deviations.
    assert np.sum((counts - 200_000 / 256) ** 2 / (200_000 / 256)) < 255 + 5 * np.sqrt(2 * 255)


def test_users_are_not_kept_in_memory_as_a_column():
    log = log_of(busy())
    fit("slc_eb", log)
    assert "user_id" not in log._columns
    assert (
        len(log.users) > 1000
    )  # a request for the users would keep them in memory, and this test would fail
    assert "user_id" in log._columns


# --- invariances ---------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    make=st.sampled_from([few, many]),
    users=st.sampled_from([330, 900]),
    dropped=st.sampled_from([[], ["user_id"], ["event_time"]]),
)
def test_row_order_and_duplicated_rows_do_not_change_the_sample(seed, make, users, dropped):
    table = make(seed=seed, rows=12_000, users=users).drop_columns(dropped)
    weight = np.random.default_rng(seed).integers(0, 3, 12_000)
    weighted = table.append_column("weight", pa.array(weight.astype(float)))
    twice = table.take(pa.array(np.repeat(np.arange(12_000), weight)))
    expected = picked(weighted)
    # With 330 users, those left have more than ten rows each if weights are used, and fewer if not.
    assert (prior_rows(log_of(weighted)).user is None) == (prior_rows(log_of(twice)).user is None)
    assert 0.5 * BOUND <= sum(expected["weight_sum"].to_pylist()) <= 2 * BOUND
    assert picked(twice).equals(expected)
    assert picked(shuffled(weighted, seed)).equals(expected)
    assert picked(shuffled(twice, seed)).equals(expected)


@pytest.mark.parametrize("make", [few, many])
@pytest.mark.parametrize("users", [90, 900])
@pytest.mark.parametrize("dropped", [[], ["user_id"], ["event_time"], ["user_id", "event_time"]])
def test_row_order_and_duplicated_rows_do_not_change_the_fit(make, users, dropped):
    table = make(rows=12_000, users=users).drop_columns(dropped)
    weight = np.random.default_rng(3).integers(0, 3, 12_000)
    weighted = table.append_column("weight", pa.array(weight.astype(float)))
    twice = table.take(pa.array(np.repeat(np.arange(12_000), weight)))
    reference = fit("slc_eb", log_of(weighted))
    for other in (twice, shuffled(weighted), shuffled(twice)):
        found = fit("slc_eb", log_of(other))
        assert found.prior_var == reference.prior_var
        np.testing.assert_allclose(predictions(table, found), predictions(table, reference), atol=1e-9)


def test_threads_do_not_change_a_bit():
    log = log_of(busy())
    one, three = (fit("slc_eb", log, options=FitOptions(threads=threads)) for threads in (1, 3))
    assert one.items.equals(three.items)
    assert one.link == three.link


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_weights_of_any_scale_give_a_sample_within_its_bounds(scale):
    table = busy(rows=40_000)
    weight = np.random.default_rng(1).uniform(0.5, 1.5, 40_000) * scale
    rows = prior_rows(log_of(table.append_column("weight", pa.array(weight))))
    assert BOUND / 8 <= len(rows) <= 2 * BOUND


def test_many_rows_of_little_weight_do_not_break_the_bound():
    log = log_of(busy(rows=40_000))
    # The sampled users have ten times the rows of the others, at a tenth of the weight.
    lucky = hashes_of(log.users)[log.user_codes] < np.uint64(2**64 // 4)
    few = np.flatnonzero(lucky | (np.arange(40_000) % 10 == 0))
    table = busy(rows=40_000).take(pa.array(few))
    table = table.append_column("weight", pa.array(np.where(lucky[few], 0.1, 1.0)))
    assert len(prior_rows(log_of(table))) <= 2 * BOUND


def test_rows_of_weight_0_are_left_out_of_a_sample():
    table = busy()
    weight = (np.arange(20_000) % 10 == 0).astype(float)
    rows = prior_rows(log_of(table.append_column("weight", pa.array(weight))))
    assert len(rows) == 2000  # rows of positive weight are few enough
    assert set(rows.weight) == {1.0}


# --- few users, no users, no times ---------------------------------------------------------------------


def heavy(rows=20_000, share=0.97, users=3):
    """A few users have almost all rows."""
    table = busy(rows=rows)
    rng = np.random.default_rng(5)
    mine = rng.random(rows) < share
    user = np.where(mine, rng.integers(0, users, rows), 100 + table["user_id"].to_numpy())
    return table.set_column(1, "user_id", pa.array(user))


@pytest.mark.parametrize("users", [1, 2, 3])
def test_with_a_few_dominant_users_rows_are_sampled_within_the_bound(users, monkeypatch):
    held, gather = [], prior_sample._gather

    def watched(*given):
        pieces = gather(*given)
        held.append(sum(len(part) for part in pieces.all))
        return pieces

    monkeypatch.setattr(prior_sample, "_gather", watched)
    rows = prior_rows(log_of(heavy(users=users)))
    assert max(held) <= 2 * BOUND
    assert held == [len(rows)]
    assert BOUND / 2 <= len(rows) <= 2 * BOUND
    whole = np.bincount(log_of(heavy(users=users)).user_codes).max()
    assert np.bincount(rows.user).max() < whole / 2  # part of the busiest user's rows is sampled


def test_a_few_busy_users_do_not_change_the_prior():
    prior = prior_of(heavy(rows=40_000, users=2).set_column(4, "logit", pa.array(np.zeros(40_000))))
    assert prior.source == "hold-out"
    assert prior.lasting * prior.variance in (0.25, 0.5)


def test_without_users_rows_of_one_item_and_timestamp_stay_together_and_no_item_is_lost():
    table = busy(rows=16_000, items=20).drop_columns(["user_id"])
    timestamp = np.arange(16_000) // 4 // 20 * 20  # many rows of one item and timestamp
    table = table.set_column(table.column_names.index("event_time"), "event_time", pa.array(timestamp))
    log = log_of(table)
    rows = prior_rows(log)
    assert rows.user is None
    assert len(rows) == pytest.approx(BOUND, rel=0.2)
    assert set(rows.codes.tolist()) == set(range(len(log.items)))
    key = log.item_codes.astype(np.int64) * 10**6 + timestamp
    chosen = rows.codes.astype(np.int64) * 10**6 + rows.time.astype(np.int64)
    assert len(chosen) == np.isin(key, chosen).sum()


def test_without_users_the_prior_is_scored_on_the_last_fifth_of_the_time():
    prior = prior_of(busy(rows=40_000, sd=0.7, items=100).drop_columns(["user_id"]))
    assert (prior.source, prior.lasting) == ("hold-out", 1.0)
    assert prior.variance in (0.25, 0.5, 1.0)


def test_indistinguishable_rows_are_not_sampled(monkeypatch):
    table = busy(sd=0.7).drop_columns(["user_id", "event_time"])
    assert prior_rows(log_of(table)) is None
    sampled = fit("slc_eb", log_of(table))
    monkeypatch.setattr(prior_sample, "PRIOR_ROWS", 1 << 22)
    whole = fit("slc_eb", log_of(table))
    assert sampled.prior_var == whole.prior_var
    np.testing.assert_allclose(predictions(table, sampled), predictions(table, whole), atol=1e-8)
    frozen = busy(items=2).drop_columns(["user_id"])
    frozen = frozen.set_column(
        frozen.column_names.index("event_time"), "event_time", pa.array([7.0] * 20_000)
    )
    monkeypatch.setattr(prior_sample, "PRIOR_ROWS", 100)
    assert prior_rows(log_of(frozen)) is None


def test_a_sample_of_one_class_falls_back_to_all_rows():
    table = busy()
    log = log_of(table)
    left_out = np.ones(len(table), bool)
    left_out[prior_rows(log).time.astype(int)] = False
    label = np.where(left_out, table["label"].to_numpy(), 0).astype(np.int8)
    prior = prior_of(table.set_column(3, "label", pa.array(label)))
    assert prior.source == "marginal likelihood"


# --- accuracy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "variances", "lasting"),
    [({"sd": 0.7}, {0.25, 0.5, 1.0}, 1.0), ({"sd": 0.5, "passing": 0.5}, {0.25, 0.5, 1.0}, 0.5)],
)
def test_the_sample_gives_the_prior_of_all_rows(kind, variances, lasting, monkeypatch):
    monkeypatch.setattr(prior_sample, "PRIOR_ROWS", 60_000)
    table = world(rows=240_000, users=4000, **kind)[0]
    prior = prior_of(table)
    assert prior.lasting == lasting
    assert prior.variance in variances


# --- the rows on which hyperparameters are tuned --------------------------------------------------------


def by_item(log):
    return dict(zip(log.items.to_pylist(), log.item_counts.tolist(), strict=True))


def test_the_same_complete_items_are_sampled_from_two_logs():
    earlier, later = log_of(many()), log_of(many(rows=6000, items=1200, seed=5))
    first, second = item_sample(earlier, later)
    for sample, log in ((first, earlier), (second, later)):
        rows = by_item(log)
        assert by_item(sample).items() <= rows.items()  # every row of an item, or none
    known = set(by_item(first))
    assert BOUND / 2 <= first.n_rows <= 2 * BOUND
    assert set(by_item(second)) & set(by_item(earlier)) <= known
    assert set(by_item(second)) - set(by_item(earlier))  # new items are included
    np.testing.assert_array_equal(np.sort(first.time), np.sort(earlier.time[_rows_of(earlier, known)]))


def _rows_of(log, items):
    return np.isin(np.array(log.items.to_pylist(), dtype=object)[log.item_codes], list(items))


def test_small_logs_and_logs_of_few_items_are_not_sampled():
    later = log_of(many(rows=3000, seed=5))
    assert item_sample(log_of(many(rows=BOUND)), later) is None
    assert item_sample(log_of(few(20_000, 60)), later) is None
    left_out = next(item for item in range(1000) if hashes_of(pa.array([item]))[0] > np.uint64(2**63))
    table = many(rows=4, seed=6)
    nothing_in_common = log_of(table.set_column(0, "item_id", pa.array([left_out] * 4)))
    assert item_sample(log_of(many()), nothing_in_common) is None


def test_items_that_are_too_few_are_not_sampled_even_if_their_rows_are_enough():
    earlier, later = log_of(many(items=100)), log_of(many(rows=3000, items=100, seed=5))
    assert item_sample(earlier, later) is None
    assert item_sample(log_of(many(items=400)), later) is not None


def test_a_log_that_is_large_by_rows_of_weight_0_is_its_own_sample_of_items():
    weight = pa.array((np.arange(20_000) % 10 == 0).astype(float))
    earlier, later = log_of(many().append_column("weight", weight)), log_of(many(rows=3000, seed=5))
    first, second = item_sample(earlier, later)
    assert (first.n_rows, second.n_rows) == (2000, 3000)


def test_a_later_log_with_too_many_rows_is_not_sampled():
    assert item_sample(log_of(many(rows=5000)), log_of(many(rows=40_000, seed=5))) is None
