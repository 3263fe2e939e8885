"""Link and offsets together: the joint minimum is correct and needs few passes."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.errors import NotConvergedError
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.logistic import Logistic, Terms
from slc_ops.numerics import newton
from slc_ops.numerics.newton import State
from tests.methods.biased_rows import log_of, model_of, world


def penalised(table, v, a, b0, b):
    eta = a * table["logit"].to_numpy() + b0 + b[table["item_id"].to_numpy()]
    y = table["label"].to_numpy()
    weight = table["weight"].to_numpy() if "weight" in table.column_names else 1.0
    return np.sum(weight * (np.logaddexp(0, eta) - y * eta)) + b @ b / (2 * v)


@pytest.mark.parametrize("v", [0.05, 1.0])
def test_the_joint_minimum_agrees_with_a_general_optimiser(v):
    from scipy.optimize import minimize

    table, _ = world(rows=600, items=12, scale=2.0, shift=-1.0)
    weight = np.random.default_rng(1).uniform(0, 3, 600)
    table = table.append_column("weight", pa.array(weight))
    # Codes in order of the ids, so that the oracle can index by id.
    table = table.sort_by("item_id")
    found = minimize(lambda t: penalised(table, v, t[0], t[1], t[2:]), np.zeros(14), method="BFGS",
                     options={"gtol": 1e-8, "maxiter": 2000})  # fmt: skip
    calibration = Calibration(log_of(table))
    model, start = model_of(calibration)
    state = model.minimise(model.visit(start), v).state
    mean, spread = calibration.logit_moments
    a = state.link[0] / spread
    np.testing.assert_allclose([a, state.link[1] - a * mean], found.x[:2], atol=2e-5)
    np.testing.assert_allclose(state.offset, found.x[2:], atol=2e-5)


def test_alternating_and_joint_steps_find_the_same_minimum():
    table, _ = world(rows=2000, items=30, scale=1.5, shift=0.5)
    calibration = Calibration(log_of(table))
    model, start = model_of(calibration)
    joint = model.minimise(model.visit(start), 0.5).state
    state = start
    for _ in range(200):
        here = model.visit(state)
        offset = state.offset - (here.sums.residual + state.offset / 0.5) / (here.sums.fisher + 2.0)
        state = model.visit(State(state.link, offset)).relinked(offset)
    np.testing.assert_allclose(joint.link, state.link, atol=1e-8)
    np.testing.assert_allclose(joint.offset, state.offset, atol=1e-8)


def test_every_step_lowers_the_penalised_loss_even_from_a_bad_start(monkeypatch):
    table, _ = world(rows=1000, items=10, scale=6.0, shift=3.0)
    model, _ = model_of(Calibration(log_of(table)))
    begin = model.visit(State(np.array([40.0, -25.0]), np.full(10, 8.0)), 0.5)
    whole, values = model.visit(begin.state.moved(begin.step()[0]), 0.5), [begin.value]
    assert whole.value > begin.value  # an undamped step would climb
    accepted = newton._damped
    monkeypatch.setattr(newton, "_damped", lambda *given: values.append(found := accepted(*given)) or found)
    found = model.minimise(begin, 0.5).state
    values = [begin.value, *(each.value for each in values[1:])]
    assert all(after <= before + 1e-9 for before, after in pairwise(values))
    best = model.minimise(model.visit(State(np.zeros(2), np.zeros(10))), 0.5).state
    np.testing.assert_allclose(found.offset, best.offset, atol=1e-7)


def test_offsets_of_items_with_equal_rows_are_found_in_one_pass():
    table, _ = world(rows=4000, items=30, sd=2.0, scale=0.0, shift=0.4)
    calibration = Calibration(log_of(table))
    model, _ = model_of(calibration)
    state = State(np.array([0.0, -1.5]), np.zeros(calibration.n_items))
    found = model.visit(state).homogeneous(calibration.item_sums, 0.5)
    there = model.visit(found, 0.5)
    # The best offsets with this link: their slope is 0.
    np.testing.assert_allclose(there.gradient.offset, 0.0, atol=1e-6)
    again = there.homogeneous(calibration.item_sums, 0.5)
    np.testing.assert_allclose(again.offset, found.offset, atol=1e-8)


@pytest.mark.parametrize("distort", [{}, {"scale": 4.0, "shift": -3.0}])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_warm_start_saves_passes_and_finds_the_same_minimum(distort, weighted):
    table, _ = world(rows=40_000, items=2000, sd=1.5, **distort)
    if weighted:
        table = table.append_column(
            "weight", pa.array(np.random.default_rng(1).uniform(0, 3, 40_000).round())
        )
    calibration = Calibration(log_of(table))
    model, start = model_of(calibration)
    best = model.minimise(model.visit(start), 1.0).state
    # A good link, and offsets of zero.
    begin = model.visit(State(best.link, np.zeros(calibration.n_items)))
    visits, visit = [], Logistic.visit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Logistic, "visit", lambda *given, **more: visits.append(1) or visit(*given, **more))
        direct = model.minimise(begin, 1.0).state
        needed = len(visits)
        short = model.minimise(model.warm_started(begin, calibration.item_sums, 1.0), 1.0).state
    assert len(visits) - needed < needed
    with pytest.MonkeyPatch.context() as patch:
        visits.clear()
        patch.setattr(Logistic, "visit", lambda *given, **more: visits.append(1) or visit(*given, **more))
        model.warm_started(begin, calibration.item_sums, 1.0)
    assert len(visits) == 2
    for found in (direct, short):
        np.testing.assert_allclose(found.link, best.link, atol=1e-8)
        np.testing.assert_allclose(found.offset, best.offset, atol=1e-7)


def test_a_shift_of_all_offsets_is_taken_back_by_the_intercept():
    table, _ = world(rows=2000, items=30, scale=1.5, shift=0.5)
    model, start = model_of(Calibration(log_of(table)))
    best = model.minimise(model.visit(start), 0.5).state
    there = model.visit(best, 0.5).relinked(best.offset + 0.25)
    np.testing.assert_allclose(there.link, best.link - [0.0, 0.25], atol=1e-8)
    np.testing.assert_array_equal(there.offset, best.offset + 0.25)


def test_a_covariate_without_spread_is_zero():
    rows = log_of(world(rows=10, items=3)[0]).rows(0, 10)
    here = Terms((("logit", 0.5, 0.0),)).at(State(np.array([7.0, 0.25]), np.zeros(0)), rows, slice(None))
    assert not here.columns[0].any()
    assert set(here.eta.tolist()) == {0.25}


def test_an_error_names_the_parts_that_did_not_converge(monkeypatch):
    monkeypatch.setattr(newton, "MAX_STEPS", 1)
    calibration = Calibration(log_of(world(rows=500, items=5, scale=3.0, shift=1.0)[0]))
    model, start = model_of(calibration)
    alone = Logistic(calibration.log, 500.0, 1, Terms(model.terms.covariates))
    with pytest.raises(NotConvergedError, match=r"^the link did not"):
        alone.minimise(alone.visit(State(start.link, np.empty(0))))
    with pytest.raises(NotConvergedError, match=r"^the link and the item offsets did not"):
        model.minimise(model.visit(start), 0.5)
    with pytest.raises(NotConvergedError, match=r"^the item offsets did not"):
        model.minimise(model.visit(start), 0.5, free=False)


def test_tolerances_scale_with_the_weights():
    """Rescaled weights with a rescaled prior are the same problem."""
    table, _ = world(rows=4000, items=40)
    offsets = []
    for scale in (1.0, 1e-12, 1e12):
        weighted = table.append_column("weight", pa.array(np.full(4000, scale)))
        model, start = model_of(Calibration(log_of(weighted)))
        offsets.append(model.minimise(model.visit(start), 0.5 / scale).state.offset)
    np.testing.assert_allclose(offsets[1], offsets[0], rtol=1e-7)
    np.testing.assert_allclose(offsets[2], offsets[0], rtol=1e-7)
