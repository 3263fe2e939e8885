"""The rows of a fit: moments, limits, and sums that are kept or released."""

import gc
import weakref

import numpy as np
import pytest

from slc_ops.base.errors import FitError, OneClassError
from slc_ops.methods import FitOptions
from slc_ops.methods.fitting import calibration as module
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.rows.interactions import InteractionLog
from tests.methods.synthetic import log, log_of


@pytest.mark.parametrize(
    ("mean", "spread", "constant"),
    [
        (0.0, 0.0, True),
        (0.0, 0.8e-9, True),
        (0.0, 1.5e-9, False),
        (100.0, 0.8e-7, True),
        (100.0, 3e-7, False),
    ],
)
def test_logits_are_equal_within_the_precision_of_a_slope(mean, spread, constant):
    found = Calibration(log_of(label=[0, 1], logit=[mean - spread, mean + spread]))
    assert found.logit_moments == pytest.approx((mean, spread), abs=1e-12)
    assert found.constant_logits == constant


def test_equal_times_have_a_spread_of_one():
    assert Calibration(log_of(label=[0, 1], logit=[0.0, 1.0], event_time=[7.0, 7.0])).time_moments == (
        7.0,
        1.0,
    )


def test_moments_are_weighted():
    rows = log_of(label=[0, 1, 1], logit=[1.0, 5.0, 99.0], weight=[3.0, 1.0, 0.0])
    assert Calibration(rows).logit_moments == pytest.approx((2.0, np.sqrt(3.0)))


def test_weights_that_add_up_to_one_are_enough_and_to_zero_are_none():
    Calibration(log_of(label=[0, 1], logit=[0.1, 0.2], weight=[0.25, 0.75])).require_two_classes()
    with pytest.raises(OneClassError, match="all weights are 0"):
        Calibration(log_of(label=[0, 1], logit=[0.1, 0.2], weight=[0.0, 0.0])).require_two_classes()


def test_the_limit_of_cells_is_inclusive(monkeypatch):
    found = Calibration(log(items=5), options=FitOptions(time_bins=4))
    monkeypatch.setattr(module, "MAX_CELLS", 20)
    assert len(found.cell_sums.n) == 20
    monkeypatch.setattr(module, "MAX_CELLS", 19)
    with pytest.raises(FitError, match="5 items in 4 time bins are 20 cells"):
        Calibration(found.log, options=FitOptions(time_bins=4)).cell_sums.n.sum()


def test_large_sums_of_cells_use_one_thread_and_replace_those_of_another_number_of_bins(monkeypatch):
    found = Calibration(log(items=5), options=FitOptions(threads=2))
    used, add_up = [], InteractionLog.add_up
    monkeypatch.setattr(
        InteractionLog,
        "add_up",
        lambda *given, **more: used.append(more["threads"]) or add_up(*given, **more),
    )

    def sums(bins):
        view = found.under(FitOptions(time_bins=bins, threads=2))
        assert view.n_bins == bins
        used.clear()
        return weakref.ref(view.cell_sums.n)

    small = sums(3)
    assert used == [2]
    assert small() is not None
    monkeypatch.setattr(module, "LARGE_CELLS", 10)
    items = found.item_sums
    large = sums(4)
    gc.collect()
    assert used == [1]
    assert small() is None
    assert large() is not None
    assert found.item_sums is items
