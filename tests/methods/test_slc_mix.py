"""``slc_mix``: blocks enter where they help; irrelevant changes do not matter; without blocks: slc_eb."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.methods import FitOptions, fit, fit_prepared, slc_eb, slc_mix
from slc_ops.methods.fitting import prior_variance
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.mixed import Standard
from slc_ops.methods.fitting.options import Forgetting
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.rows import Rows
from tests.methods.biased_rows import log_of, nll, predictions, sigmoid
from tests.real_data import DATA, needs_real_rows

ALL = FitOptions(effects=("item", "slope", "group", "user"), threads=1)


def world(seed=0, rows=6000, items=60, users=80, groups=6, *, group=0.0, user=0.0, slope=0.0, item=0.5):
    """Two tables in sequence with effects of these standard deviations; every item is in one group."""
    rng = np.random.default_rng(seed)
    of = {name: rng.normal(0, sd, 5000) for name, sd in
          (("item", item), ("group", group), ("user", user), ("slope", slope))}  # fmt: skip
    member = np.arange(items) % groups
    tables = []
    for window in range(2):
        i, u, x = rng.integers(0, items, rows), rng.integers(0, users, rows), rng.normal(0, 1, rows)
        eta = x + of["item"][i] + of["group"][member[i]] + of["user"][u] + of["slope"][i] * x
        tables.append(
            pa.table({"item_id": [f"i{k}" for k in i], "user_id": u, "group_id": [f"g{member[k]}" for k in i],
                      "event_time": np.arange(rows) + window * rows, "logit": x,
                      "label": (rng.random(rows) < sigmoid(eta)).astype(np.int8)})
        )  # fmt: skip
    return tables


def chosen(table, options=ALL):
    calibration = Calibration(log_of(table), None, options)
    return slc_mix.chosen_blocks(calibration, slc_eb.chosen_prior(calibration)[0])


FULL = {"group": 0.8, "user": 0.7, "slope": 0.5}


# --- blocks that enter ---------------------------------------------------------------------------------


@pytest.mark.parametrize("block", FULL)
def test_only_a_real_effect_enters_and_it_improves_the_next_rows(block):
    # A group adds information only for items with few rows.
    table, later = world(items=1500 if block == "group" else 60, **{block: FULL[block]})
    assert chosen(table).entered == (block,)
    mix, eb = fit("slc_mix", log_of(table), options=ALL), fit("slc_eb", log_of(table))
    assert nll(mix, later) < nll(eb, later) - 0.003


def test_all_blocks_enter_together():
    table, later = world(rows=12_000, items=1000, groups=12, **FULL)
    assert chosen(table).entered == ("group", "user", "slope")
    mix = fit("slc_mix", log_of(table), options=ALL)
    assert set(mix.effects) == {"item", "group", "user"}
    assert "slope" in mix.effects["item"].table.column_names
    assert mix.cold is None
    assert nll(mix, later) < nll(fit("slc_eb", log_of(table)), later) - 0.02


def test_users_enter_only_if_named():
    table, _ = world(user=0.8)
    assert chosen(table, FitOptions()).entered == ()
    assert chosen(table).entered == ("user",)


def test_with_items_only_it_equals_slc_eb():
    for table in (world()[0], world()[0].drop_columns(["group_id"]), world(item=0.0)[0]):
        mix, eb = (fit(name, log_of(table), options=ALL) for name in ("slc_mix", "slc_eb"))
        assert mix.method == "slc_mix"
        np.testing.assert_allclose(predictions(table, mix), predictions(table, eb), rtol=0, atol=1e-9)
        assert mix.cold == eb.cold


def test_the_prior_variance_of_slopes_is_in_the_units_of_the_logit():
    """Slopes are chosen for logits of spread 1; with wide logits they are smaller."""
    table = world(rows=1500, items=15, users=20, slope=1.0)[0]
    wide = table.set_column(
        table.column_names.index("logit"), "logit", pa.array(3.0 * table["logit"].to_numpy())
    )
    options = FitOptions(effects=("item", "slope"), threads=1)
    prior_var = fit("slc_mix", log_of(wide), options=options).effects["item"].slope_prior_var
    assert prior_var == pytest.approx(
        chosen(wide, options).variances.slope / np.var(wide["logit"].to_numpy())
    )


def test_the_items_prior_and_the_blocks_are_chosen_on_rows_that_are_read_once(monkeypatch):
    reads, read = [], prior_variance.prior_rows
    monkeypatch.setattr(
        prior_variance, "prior_rows", lambda *given, **more: reads.append(given) or read(*given, **more)
    )
    fit("slc_mix", log_of(world(rows=1000)[0]), options=ALL)
    assert len(reads) == 1


def test_groups_without_an_effect_do_not_enter():
    # Small worlds, and only the selection. At a level of 95 %, 2 of 40 may enter by chance.
    entered = []
    for seed in range(40):
        table = world(seed, rows=1500, items=30, users=40)[0]
        shuffled = np.random.default_rng(seed).permutation(1500)
        group = table["group_id"].take(pa.array(shuffled))
        entered += chosen(table.set_column(2, "group_id", group)).entered
    assert entered.count("group") <= 2
    assert len(entered) <= 6


def test_without_times_the_marginal_likelihood_chooses_the_blocks():
    table, later = (each.drop_columns(["event_time"]) for each in world(rows=12_000, items=1000, **FULL))
    assert chosen(table).entered == ("group", "user", "slope")
    mix, eb = (fit(name, log_of(table), options=ALL) for name in ("slc_mix", "slc_eb"))
    assert nll(mix, later) < nll(eb, later) - 0.02


def test_without_times_noise_does_not_enter():
    entered = []
    for seed in range(40):
        table = world(seed, rows=1500, items=30, users=40)[0].drop_columns(["event_time"])
        group = table["group_id"].take(pa.array(np.random.default_rng(seed).permutation(1500)))
        entered += chosen(table.set_column(2, "group_id", group)).entered
    assert len(entered) <= 6, entered


def test_a_heavy_user_who_changes_items_does_not_distort_the_items():
    # One user has a third of the rows, a large effect, and other items in the later window.
    tables = world(3, item=0.0)
    rng = np.random.default_rng(4)
    heavy = []
    for window, table in enumerate(tables):
        mine = rng.random(table.num_rows) < 0.33
        item = rng.integers(0, 10, table.num_rows) + 20 * window
        label = (rng.random(table.num_rows) < 0.95).astype(np.int8)
        item = np.where(mine, [f"i{k}" for k in item], table["item_id"].to_numpy(zero_copy_only=False))
        columns = {"user_id": np.where(mine, 999, table["user_id"]), "item_id": item,
                   "label": np.where(mine, label, table["label"])}  # fmt: skip
        heavy.append(table.drop_columns(list(columns)).append_column("user_id", pa.array(columns["user_id"]))
                     .append_column("item_id", pa.array(columns["item_id"]))
                     .append_column("label", pa.array(columns["label"])))  # fmt: skip
    losses = {name: nll(fit(name, log_of(heavy[0]), options=ALL), heavy[1])
              for name in ("platt", "slc_eb", "slc_mix")}  # fmt: skip
    assert losses["slc_mix"] < losses["platt"] - 0.05
    assert losses["slc_mix"] < losses["slc_eb"]


# --- invariances ---------------------------------------------------------------------------------------


def test_weight_two_equals_the_row_twice_and_weight_zero_no_row():
    table = world(rows=4000, items=400, groups=12, **FULL)[0]
    weight = np.random.default_rng(3).integers(0, 3, 4000)
    repeated = table.take(pa.array(np.repeat(np.arange(4000), weight)))
    weighted = table.append_column("weight", pa.array(weight.astype(float)))
    one, other = (fit("slc_mix", log_of(each), options=ALL) for each in (weighted, repeated))
    assert set(one.effects) == set(other.effects) == {"item", "group", "user"}
    np.testing.assert_allclose(predictions(table, one), predictions(table, other), atol=1e-7)
    for name, effect in one.effects.items():
        assert effect.table["n_obs"].to_pylist() == other.effects[name].table["n_obs"].to_pylist()


def test_row_order_and_names_do_not_matter():
    table = world(rows=4000, items=400, groups=12, **FULL)[0]
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(4000)))
    renamed = table
    for column in ("item_id", "group_id"):
        ids = [f"{sum(map(ord, each)) * 7919 % 997}-{each}" for each in table[column].to_pylist()]
        renamed = renamed.set_column(table.column_names.index(column), column, pa.array(ids))
    renamed = renamed.set_column(
        1, "user_id", pa.array([f"u{7 * each}" for each in table["user_id"].to_pylist()])
    )
    expected = predictions(table, fit("slc_mix", log_of(table), options=ALL))
    found = predictions(table, fit("slc_mix", log_of(shuffled), options=ALL))
    np.testing.assert_allclose(found, expected, atol=1e-7)
    found = predictions(renamed, fit("slc_mix", log_of(renamed), options=ALL))
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_threads_do_not_change_a_bit():
    table = world(rows=4000, items=400, groups=12, **FULL)[0]
    one, two = (
        fit("slc_mix", log_of(table), options=FitOptions(effects=ALL.effects, threads=n)) for n in (1, 2)
    )
    assert one.same_answers(two)


# --- memory --------------------------------------------------------------------------------------------


def test_older_rows_count_less_and_the_line_uses_only_the_newest():
    old, new = world(5, **FULL)
    both = log_of(pa.concat_tables([old, new]))
    short, options = Calibration(log_of(new), None, ALL), ALL
    # With immediate forgetting the older window contributes only its ids.
    gone = Calibration(both, None, options, Forgetting((0.0, 6000.0), 0.001))
    once = fit_prepared("slc_mix", short, None, gone)
    alone = fit_prepared("slc_mix", short, None, Calibration(log_of(new), None, options))
    np.testing.assert_allclose(predictions(new, once), predictions(new, alone), atol=1e-6)
    kept = fit_prepared(
        "slc_mix", short, None, Calibration(both, None, options, Forgetting((0.0, 6000.0), 1e9))
    )
    assert np.abs(predictions(new, kept) - predictions(new, alone)).max() > 0.01


def test_a_row_of_one_half_life_has_half_the_weight():
    old, new = world(6, rows=4000, **FULL)
    weight = np.append(np.full(4000, 0.5), np.ones(4000))
    table = pa.concat_tables([old, new])
    table = table.set_column(3, "event_time", pa.array(np.arange(8000.0)))
    short = Calibration(log_of(new), None, ALL)
    decayed = Calibration(log_of(table), None, ALL, Forgetting((0.0, 4000.0), 1.0))
    weighted = Calibration(log_of(table.append_column("weight", pa.array(weight))), None, ALL)
    one, other = (fit_prepared("slc_mix", short, None, each) for each in (decayed, weighted))
    np.testing.assert_allclose(predictions(new, one), predictions(new, other), atol=1e-7)


def test_equal_items_have_no_offset_even_if_only_older_rows_have_them():
    new = world(rows=2000, items=20, users=60, user=1.0, item=0.0)[0]
    gone = new.slice(0, 500)
    gone = gone.set_column(0, "item_id", pa.array([f"gone-{k % 5}" for k in range(500)]))
    options = FitOptions(effects=("item", "user"), threads=1)
    older = Calibration(log_of(pa.concat_tables([gone, new])), None, options)
    items = fit_prepared("slc_mix", Calibration(log_of(new), None, options), None, older).items
    assert len(items) == 25
    assert set(items["offset"].to_pylist()) == {0.0}


@pytest.mark.parametrize("method", ["platt_eb", "slc", "slc_eb"])
def test_a_method_that_does_not_forget_ignores_older_rows(method):
    old, new = world(rows=1000)
    older = Calibration(log_of(pa.concat_tables([old, new])))
    found = fit_prepared(method, Calibration(log_of(new)), None, older)
    assert found.same_answers(fit(method, log_of(new)))


# --- real rows -----------------------------------------------------------------------------------------


@needs_real_rows
@pytest.mark.parametrize(
    ("effects", "auc", "loss"),
    [(("item", "slope", "group"), 0.7401, 0.5761), (("item", "slope", "group", "user"), 0.7454, 0.5718)],
)
def test_slc_mix_reaches_its_figures_on_assistments(effects, auc, loss):
    from slc_ops.evidence.metrics import metrics_of

    calibration, test = (
        InteractionLog.read(DATA / f"as17_dkt.{part}.parquet") for part in ("calibration", "test")
    )
    found = metrics_of(
        test.label, fit("slc_mix", calibration, options=FitOptions(effects=effects)).apply(test)
    )
    assert round(found.auc, 4) >= auc
    assert round(found.nll, 4) <= loss


def test_the_weight_of_an_old_row_is_its_own_times_that_of_its_age() -> None:
    standard = Standard(0.0, 1.0, Forgetting((0.0, 10.0), 1.0))
    zeros, weight = np.zeros(2), np.array([4.0, 3.0])
    rows = Rows(zeros.astype(np.int32), zeros, zeros, weight=weight, time=np.array([5.0, 15.0]))
    assert standard.weight(rows).tolist() == [2.0, 3.0]
