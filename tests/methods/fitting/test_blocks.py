"""The choice of the blocks of ``slc_mix``: what scores a block, with and without later rows."""

import numpy as np
import pytest

from slc_ops.methods import FitOptions
from slc_ops.methods.fitting.blocks import Chosen, _Trial
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.mixed import losses
from slc_ops.methods.fitting.prior_variance import rows_of_choice
from slc_ops.numerics.crossed import Variances
from slc_ops.numerics.newton import State
from tests.methods.biased_rows import log_of
from tests.methods.test_slc_mix import ALL, chosen, world


@pytest.mark.parametrize(("spread", "variance"), [(1.0, 1.0), (0.5, 1 / 4), (0.25, 1 / 16)])
def test_without_times_a_block_gets_the_variance_of_the_greatest_marginal_likelihood(spread, variance):
    table = world(rows=3000, items=30, users=60, user=spread)[0].drop_columns(["event_time"])
    found = chosen(table, FitOptions(effects=("item", "user"), threads=1))
    assert found.variances.user == variance


def test_later_rows_score_effects_that_last_completely_as_they_are():
    """Only effects that are made smaller need another line."""
    calibration = Calibration(log_of(world(rows=1000)[0]), None, ALL)
    trial = _Trial.of(calibration, rows_of_choice(calibration, groups=True), None)
    model, ahead = trial.model, trial.split.ahead
    offset = np.random.default_rng(0).normal(0, 0.3, len(model.shape.zeros))
    state, variances = State(np.array([0.5, -1.0]), offset), Variances(1.0, 1.0, 1.0, 1.0)
    as_it_is = losses(model.cells, model.shape, model.standard, state, ahead)
    np.testing.assert_array_equal(trial.lost(state, Chosen(variances, {"item": 1.0})), as_it_is)
    assert not np.allclose(trial.lost(state, Chosen(variances, {"item": 0.5})), as_it_is)
