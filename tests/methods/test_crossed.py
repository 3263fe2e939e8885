"""Crossed effects: the modes equal those of lme4 and GPBoost, and a step equals that of the full Hessian."""

import json
from pathlib import Path

import numpy as np
import pytest

from slc_ops.methods.fitting.logistic import SampledRows
from slc_ops.methods.fitting.mixed import ByUser, Cells, Mixed, Standard, cells_of, pairs_of
from slc_ops.numerics import crossed
from slc_ops.numerics.crossed import Variances
from slc_ops.numerics.newton import State
from slc_ops.rows.rows import Rows
from tests.methods.crossed_oracles.log import VARIANCES, columns
from tests.methods.synthetic import log_of

ORACLES = Path(__file__).parent / "crossed_oracles"
BLOCKS = ("item", "slope", "group", "user")


def model_of(name):
    """The log of an oracle as a model; the given offsets are the items' prior mean."""
    found, v = columns(name), Variances(**VARIANCES[name])
    rows = Rows(
        found["item"].astype(np.int32), found["label"].astype(np.int8), found["logit"],
        user=found["user"].astype(np.int32), group=found["group"].astype(np.int32),
    )  # fmt: skip
    standard = Standard(found["logit"].mean(), found["logit"].std())
    cells = Cells.of_pairs(20, 5, pairs_of(5, rows))
    mean = np.zeros(20)
    mean[found["item"]] = found["offset"]
    shape = cells.shape(25)
    shape = type(shape)(**{**vars(shape), "mean": mean})
    by_user = ByUser.of(rows, cells, standard, 25)
    return Mixed(SampledRows(rows), 600.0, 1, cells, shape, standard, by_user), v


@pytest.mark.parametrize("oracle", ["lme4", "gpboost"])
@pytest.mark.parametrize("name", VARIANCES)
def test_the_modes_of_all_blocks_equal_those_of_lme4_and_gpboost(name, oracle):
    model, v = model_of(name)
    found = model.minimise(State(np.zeros(2), model.shape.zeros), v).state
    parts = dict(zip(BLOCKS, model.shape.split(found.offset), strict=True))
    stated = json.loads((ORACLES / f"modes-{oracle}.json").read_text())[name]
    np.testing.assert_allclose(found.link, stated.get("line", found.link), atol=1e-6)
    for block in VARIANCES[name]:
        size = len(stated[block])
        np.testing.assert_allclose(parts[block][:size], stated[block], atol=1e-6, err_msg=block)
        assert not parts[block][size:].any()
    assert not any(parts[block].any() for block in set(BLOCKS) - set(VARIANCES[name]))


def test_a_precise_step_equals_the_step_of_the_dense_hessian(monkeypatch):
    monkeypatch.setattr(crossed, "WITH_USERS", (1e-9, 1e-9))
    model, v = model_of("crossed")
    rng = np.random.default_rng(0)
    state = State(np.array([0.5, -0.2]), 0.1 * rng.normal(size=model.shape.zeros.size))
    state.offset[[45, -1]] = 0.0  # rows without a group, without a user
    here = model.visit(state, v)
    step, promise = here.step()
    free = np.setdiff1d(np.arange(len(state.offset)), [45, len(state.offset) - 1])

    def gradient(values):
        moved = model.visit(State(values[:2], np.insert(np.append(values[2:], 0.0), 45, 0.0)), v).gradient
        return np.concatenate([moved.link, moved.offset[free]])

    at = np.concatenate([state.link, state.offset[free]])
    eps = 1e-5 * np.eye(len(at))
    hessian = np.array([(gradient(at + e) - gradient(at - e)) / 2e-5 for e in eps])
    dense = -np.linalg.solve(hessian, gradient(at))
    np.testing.assert_allclose(np.concatenate([step.link, step.offset[free]]), dense, atol=1e-6)
    assert promise == pytest.approx(-0.5 * gradient(at) @ dense, rel=1e-6)


def test_a_model_with_users_can_be_fitted_without_them():
    model, v = model_of("nested")
    alone = Mixed(model.source, 600.0, 1, model.cells, model.shape, model.standard)
    start = State(np.zeros(2), model.shape.zeros)
    one, other = (each.minimise(start, v).state for each in (model, alone))
    np.testing.assert_array_equal(one.offset, other.offset)


def test_groups_divide_items_into_cells_only_on_request_and_if_the_log_has_any():
    given = {"label": [0, 1, 1], "logit": [0.1, 0.2, 0.3], "item_id": ["a", "a", "b"]}
    with_groups = log_of(**given, group_id=["x", "y", "x"])
    assert len(cells_of(with_groups, groups=True).pairs) == 3
    for log, groups in ((with_groups, False), (log_of(**given), True)):
        found = cells_of(log, groups=groups)
        assert (found.n_items, found.n_groups, found.pairs) == (2, 0, None)


def test_an_item_with_saturated_rows_does_not_shorten_all_steps():
    """Without a limit the step of such an item grows with its rows, and the fit takes 20 passes."""
    rng = np.random.default_rng(3)
    n, items = 40_000, 200
    item = rng.integers(0, items, n)
    logit = rng.normal(0, 2, n) + np.where(item < 5, -8.0, 0.0)
    truth = logit + np.where(item < 5, 13.0, 0.3 * (item % 7 - 3))
    rows = Rows(item.astype(np.int32), (rng.random(n) < 1 / (1 + np.exp(-truth))).astype(np.int8), logit)
    cells = Cells(items)
    model = Mixed(SampledRows(rows), float(n), 1, cells, cells.shape(), Standard(logit.mean(), logit.std()))
    passes = []

    class Counted(Mixed):
        def visit(self, state, variances):
            passes.append(state)
            return super().visit(state, variances)

    counted = Counted(**vars(model))
    start = State(np.array([logit.std(), logit.mean()]), model.shape.zeros)
    found = counted.minimise(start, Variances(item=1.0, slope=0.1))
    assert len(passes) < 12
    np.testing.assert_allclose(
        model.visit(found.state, Variances(item=1.0, slope=0.1)).gradient.offset, 0, atol=1e-4
    )
