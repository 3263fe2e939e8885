"""``slc_eb``: the joint minimum is correct, the prior is estimated, and irrelevant changes have no effect."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import OneClassError
from slc_ops.methods import FitOptions, fit, fit_prepared
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.results import lasting_part
from tests.methods.biased_rows import log_of, model_of, nll, predictions, prior_of, sigmoid, world
from tests.real_data import DATA, needs_real_rows


def test_the_posterior_variance_is_the_inverse_curvature_plus_the_passing_share():
    table, _ = world(rows=3000, items=20)
    calibration = Calibration(log_of(table))
    model, start = model_of(calibration)
    v = 0.25
    found = model.minimise(model.visit(start), v)
    inverse = 1.0 / found.near.diagonal
    whole, shrinkage, prior_var = lasting_part(inverse, v, 1.0)
    fisher = model.visit(found.state).sums.fisher
    np.testing.assert_allclose(whole, 1 / (fisher + 1 / v), rtol=1e-4)
    np.testing.assert_allclose(shrinkage, fisher / (fisher + 1 / v), rtol=1e-4)
    assert prior_var == v
    variance, _, prior_var = lasting_part(inverse, v, 0.5)
    assert prior_var == 0.5 * v
    # Var(π) = s·v without rows; rows can only lower it.
    assert np.all(variance < 0.5 * v)
    np.testing.assert_allclose(variance, 0.25 * whole + 0.25 * v)


# --- the prior -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sd", "expected"), [(1.0, {0.5, 1.0}), (0.5, {0.125, 0.25, 0.5})])
def test_the_item_variance_is_recovered(sd, expected):
    prior = prior_of(world(sd=sd, items=400)[0])
    assert prior.source == "hold-out"
    assert prior.lasting * prior.variance in expected


def test_equal_items_give_nearly_platt_scaling():
    calibration, test = world(sd=0.0, rows=40_000)
    eb, platt = (fit(method, log_of(calibration)) for method in ("slc_eb", "platt"))
    assert eb.prior_var <= 2**-6
    assert nll(eb, test) <= nll(platt, test) + 5e-4


def test_variance_zero_is_platt_scaling_exactly():
    # Easy items become hard in the last fifth and hard ones easy, so past offsets mislead.
    rng, rows = np.random.default_rng(5), np.arange(4000)
    easy = np.where(rows < 3200, rows % 2, 1 - rows % 2)
    label = (rng.random(4000) < 0.3 + 0.4 * easy).astype(np.int8)
    table = pa.table({"item_id": rows % 2, "user_id": rng.integers(0, 30, 4000), "event_time": rows,
                      "label": label, "logit": rng.normal(0, 1, 4000)})  # fmt: skip
    eb, platt = (fit(method, log_of(table)) for method in ("slc_eb", "platt"))
    assert eb.prior_var == 0.0
    assert (eb.link.a, eb.link.b0) == (platt.link.a, platt.link.b0)
    assert set(eb.items["offset"].to_pylist()) == {0.0} == set(eb.items["offset_var"].to_pylist())


def test_offsets_that_do_not_last_are_halved():
    assert prior_of(world(sd=0.5, passing=0.5, rows=60_000)[0]).lasting == 0.5
    assert prior_of(world(sd=0.8, passing=0.0, rows=60_000)[0]).lasting == 1.0


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "kind",
    [
        {"sd": 0.7},
        {"sd": 0.7, "scale": 3.0, "shift": 1.0},
        {"sd": 0.3, "rows": 6000},
        {"sd": 0.0},
        {"sd": 0.4, "passing": 0.6},
        {"sd": 0.8, "items": 8000},
    ],
)
def test_slc_eb_never_loses_to_the_better_of_platt_and_slc(kind, seed):
    calibration, test = world(seed=seed, **kind)
    losses = {method: nll(fit(method, log_of(calibration)), test) for method in ("platt", "slc", "slc_eb")}
    assert losses["slc_eb"] <= min(losses["platt"], losses["slc"]) + 0.001


def test_a_badly_scaled_backbone_does_not_change_the_result():
    calibration, test = world(scale=6.0, shift=-2.0)
    plain, plain_test = world()
    distorted = nll(fit("slc_eb", log_of(calibration)), test)
    assert distorted == pytest.approx(nll(fit("slc_eb", log_of(plain)), plain_test), abs=1e-6)
    assert distorted < nll(fit("slc", log_of(calibration)), test) - 0.05


# --- invariances ---------------------------------------------------------------------------------------


def doubled_world():
    table = world(rows=3000, items=60, users=50)[0]
    weight = np.random.default_rng(3).integers(0, 3, 3000)
    repeated = table.take(pa.array(np.repeat(np.arange(3000), weight)))
    return table.append_column("weight", pa.array(weight.astype(float))), repeated, table


def test_weight_two_equals_the_row_twice_and_weight_zero_no_row():
    weighted, repeated, probe = doubled_world()
    for dropped in ([], ["user_id"], ["event_time"]):
        one, other = (fit("slc_eb", log_of(t.drop_columns(dropped))) for t in (weighted, repeated))
        assert one.prior_var == other.prior_var
        np.testing.assert_allclose(predictions(probe, one), predictions(probe, other), atol=1e-9)
        assert one.items["n_obs"].to_pylist() == other.items["n_obs"].to_pylist()


def test_row_order_and_item_names_do_not_matter():
    table = world(rows=4000, items=50)[0]
    reference = fit("slc_eb", log_of(table))
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(4000)))
    named = table.set_column(
        0, "item_id", pa.array([f"µ-{k * 7919 % 50}" for k in table["item_id"].to_pylist()])
    )
    for other in (shuffled, named):
        parameters = fit("slc_eb", log_of(other))
        assert parameters.prior_var == reference.prior_var
        np.testing.assert_allclose(predictions(other, parameters), np.sort(predictions(table, reference))[
            np.argsort(np.argsort(predictions(other, parameters)))], atol=1e-9)  # fmt: skip


def test_threads_do_not_change_a_bit():
    log = log_of(world(rows=400_000, items=3000)[0])
    sets = [fit("slc_eb", log, options=FitOptions(threads=threads)) for threads in (1, 2, 3)]
    assert sets[0].items.equals(sets[1].items)
    assert sets[0].items.equals(sets[2].items)
    assert sets[0].link == sets[1].link == sets[2].link


# --- difficult input -----------------------------------------------------------------------------------


def test_constant_logits_give_item_rates():
    table = world(rows=40_000, items=40, scale=0.0, shift=0.3)[0]
    parameters = fit("slc_eb", log_of(table))
    frame = table.to_pandas().assign(p=predictions(table, parameters))
    rates = frame.groupby("item_id")[["label", "p"]].mean()
    np.testing.assert_allclose(rates["p"], rates["label"], atol=0.02)


def test_saturated_logits_give_finite_parameters():
    table = world(rows=3000, items=20, scale=400.0)[0]
    assert np.max(np.abs(table["logit"].to_numpy())) > 700
    parameters = fit("slc_eb", log_of(table))
    assert np.isfinite(predictions(table, parameters)).all()
    assert nll(parameters, table) < 0.65


def test_separated_labels_give_finite_parameters_and_a_warning():
    logit = np.linspace(-2, 2, 400)
    table = pa.table({"item_id": np.arange(400) % 10, "user_id": np.arange(400) % 7,
                      "event_time": (np.arange(400) * 37) % 400, "label": (logit > 0).astype(int),
                      "logit": logit})  # fmt: skip
    parameters = fit("slc_eb", log_of(table))
    assert any("separated" in warning for warning in parameters.warnings)
    assert np.isfinite(predictions(table, parameters)).all()


def test_a_negative_slope_is_kept_and_reported():
    table = world(rows=5000, scale=-1.0)[0]
    parameters = fit("slc_eb", log_of(table))
    assert parameters.link.a < 0
    assert any("negative slope" in warning for warning in parameters.warnings)


def test_one_class_is_refused():
    table = world(rows=100)[0]
    with pytest.raises(OneClassError):
        fit("slc_eb", log_of(table.set_column(3, "label", pa.array(np.ones(100, np.int8)))))


# --- real rows -----------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_real_rows
@pytest.mark.parametrize("distort", [(1.0, 0.0), (3.0, 1.0), (6.0, -2.0), (0.0, 0.4)])
def test_real_rows_reach_the_required_figures_with_a_distorted_backbone(distort):
    scale, shift = distort
    tables = []
    for name in ("calibration", "test"):
        table = pq.read_table(DATA / f"as17_pfa.{name}.parquet")
        logit = scale * table["logit"].to_numpy().astype(float) + shift
        tables.append(table.set_column(table.column_names.index("logit"), "logit", pa.array(logit)))
    calibration, test = tables
    losses = {method: nll(fit(method, log_of(calibration)), test) for method in ("platt", "slc", "slc_eb")}
    assert losses["slc_eb"] <= min(losses["platt"], losses["slc"]) + 0.001
    assert losses["slc_eb"] < 0.633 if scale == 0.0 else losses["slc_eb"] < 0.6085


def joined(*tables):
    return log_of(pa.concat_tables(tables))


def with_long_memory(method, early, late):
    return fit_prepared(method, Calibration(log_of(late)), Calibration(joined(early, late)))


def test_offsets_use_the_long_memory_and_the_link_the_short_one():
    early, late = world(seed=21, rows=8000)
    moved = late.set_column(
        late.schema.get_field_index("logit"), "logit", pa.array(late["logit"].to_numpy() - 1)
    )
    both = with_long_memory("slc_eb", early, moved)
    whole, short = fit("slc_eb", joined(early, moved)), fit("slc_eb", log_of(moved))
    assert both.items.select(["id", "offset"]).equals(whole.items.select(["id", "offset"]))
    assert both.link.b0 == pytest.approx(short.link.b0, abs=0.1)
    assert abs(both.link.b0 - whole.link.b0) > 0.2


def test_the_link_of_the_short_memory_maximises_the_likelihood_given_the_offsets():
    early, late = world(seed=22, rows=6000)
    found = with_long_memory("slc_eb", early, late)
    offset = dict(zip(found.items["id"].to_pylist(), found.items["offset"].to_pylist(), strict=True))
    eta, y = late["logit"].to_numpy(), late["label"].to_numpy()
    b = np.array([offset[item] for item in late["item_id"].to_pylist()])
    residual = y - sigmoid(found.link.a * eta + found.link.b0 + b)
    assert abs(residual.sum()) < 1e-4 * len(y)
    assert abs(residual @ eta) < 1e-4 * len(y)


def test_other_methods_have_no_long_memory():
    early, late = world(seed=24, rows=4000)
    alone, given = fit("slc", log_of(late)), with_long_memory("slc", early, late)
    assert given.items.equals(alone.items)
    assert given.link == alone.link


def test_unseen_items_get_the_line_of_platt():
    calibration, _ = world(seed=25, rows=6000, scale=0.6, shift=0.4)
    found, platt = fit("slc_eb", log_of(calibration)), fit("platt", log_of(calibration))
    logits = np.linspace(-5, 5, 11)
    new = found.correct([10**6] * 11, logits)
    assert new == pytest.approx(platt.correct([10**6] * 11, logits), abs=1e-12)
    assert found.cold == platt.link


def test_variance_0_is_platt_and_needs_no_separate_line():
    calibration, _ = world(seed=3, rows=3000, sd=0.0)
    found = fit("slc_eb", log_of(calibration))
    assert (found.prior_var, found.cold) == (0.0, None)
