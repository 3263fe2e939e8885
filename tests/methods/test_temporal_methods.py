import numpy as np
import pytest
from scipy.special import expit

from slc_ops.base.errors import InputError
from slc_ops.methods import FitOptions, fit, fit_prepared
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.numerics.time_bins import time_bin
from tests.methods.synthetic import log, log_of


def cell_by_cell(rows, parameters):
    """z and W of every (item, bin) by brute force, items sorted by id."""
    items = sorted(rows.items.to_pylist())
    bins = time_bin(rows.time, parameters.time_edges)
    count = len(parameters.time_edges) - 1
    z, W = np.zeros((len(items), count)), np.zeros((len(items), count))
    names = np.array(rows.items.to_pylist())[rows.item_codes]
    for i, item in enumerate(items):
        for t in range(count):
            mine = (names == item) & (bins == t)
            p = expit(rows.logit[mine])
            W[i, t] = np.sum(p * (1 - p))
            z[i, t] = np.sum(rows.label[mine] - p) / W[i, t] if W[i, t] > 0 else 0.0
    return z, W


def test_slc_t_smooths_the_deviations_from_slc_per_item():
    rows = log()
    found = fit("slc_t", rows)
    z, W = cell_by_cell(rows, found)
    static = fit("slc", rows).items["offset"].to_numpy()
    offset = found.items["offset"].to_numpy().reshape(W.shape)
    variance = found.items["offset_var"].to_numpy().reshape(W.shape)
    shrinkage = found.items["shrinkage"].to_numpy().reshape(W.shape)
    assert np.allclose(shrinkage, 1 - variance / (1.0 + 0.01 * np.arange(1, W.shape[1] + 1)))
    assert (W < 1).any(), "the test needs cells that do not count"
    for i in range(len(z)):
        seen = W[i] >= 1.0
        if not seen.any():
            assert np.allclose(offset[i], static[i], atol=1e-12)
            assert np.allclose(variance[i], 1 / (1 + W[i].sum()), rtol=1e-9)
            continue
        # The posterior of a Gaussian random walk, by linear algebra instead of a filter.
        steps = np.arange(1, len(seen) + 1)
        prior = 1.0 + 0.01 * np.minimum.outer(steps, steps)
        noise = prior[np.ix_(seen, seen)] + np.diag(1 / W[i, seen])
        gain = prior[:, seen] @ np.linalg.inv(noise)
        assert np.allclose(offset[i], static[i] + gain @ (z[i, seen] - static[i]), atol=1e-10)
        assert np.allclose(variance[i], np.diag(prior - gain @ prior[seen, :]), atol=1e-10)


def test_rows_after_the_window_and_rows_without_a_time_use_the_last_bin():
    found = fit("slc_t", log())
    late = found.correct(["item-000"], [0.3], [1e9])
    assert late == found.correct(["item-000"], [0.3])
    assert late != found.correct(["item-000"], [0.3], [-1e9])


def test_history_changes_only_the_edges():
    rows, earlier = log(), log(seed=3)
    shifted = log_of(
        item_id=earlier.items.take(earlier.item_codes),
        label=earlier.label,
        logit=earlier.logit,
        event_time=earlier.time - 500,
    )
    found = fit_prepared("slc_t", Calibration(rows, shifted))
    both = np.concatenate([shifted.time, rows.time])
    expected = np.quantile(both, np.arange(1, 10) / 10, method="inverted_cdf")
    assert found.time_edges[1:-1].tolist() == np.unique(expected).tolist()


def test_naive_averages_the_cells_up_to_each_bin():
    rows = log()
    found = fit("naive", rows)
    z, W = cell_by_cell(rows, found)
    offset = found.items["offset"].to_numpy().reshape(W.shape)
    for i in range(len(z)):
        for t in range(W.shape[1]):
            known = [z[i, s] for s in range(t + 1) if W[i, s] > 0]
            assert offset[i, t] == pytest.approx(np.mean(known) if known else 0.0, abs=1e-10)


def test_the_variance_of_naive_is_that_of_a_plain_average_and_absent_before_the_first_row():
    rows = log()
    found = fit("naive", rows)
    _, W = cell_by_cell(rows, found)
    variance, shrinkage = (found.items[name].to_pylist() for name in ("offset_var", "shrinkage"))
    assert None in variance
    for place, (i, t) in enumerate(np.ndindex(W.shape)):
        known = W[i, : t + 1][W[i, : t + 1] > 0]
        expected = np.sum(1 / known) / len(known) ** 2 if len(known) else None
        assert variance[place] == (expected if expected is None else pytest.approx(expected))
        assert shrinkage[place] == float(len(known) > 0)


def test_naive_ignores_a_saturated_cell():
    """Its Fisher weight of 2e-10 would make one label an offset of billions."""
    rows = log_of(label=[1, 1, 0, 1], logit=[-23.0, -23.0, 0.0, 0.0], event_time=[0.0, 1.0, 2.0, 3.0])
    offsets = fit("naive", rows, options=FitOptions(time_bins=2)).items["offset"].to_numpy()
    assert offsets.tolist() == [0.0, 0.0]


def test_temporal_parameters_have_one_row_per_item_and_bin():
    rows = log(items=5)
    found = fit("slc_t", rows, options=FitOptions(time_bins=4))
    assert found.items["time_bin"].to_pylist() == [0, 1, 2, 3] * len(rows.items)
    assert found.items["n_obs"].to_numpy().sum() == rows.n_rows


@pytest.mark.parametrize("method", ["slc_t", "naive"])
def test_one_timestamp_gives_one_bin(method):
    rows = log()
    frozen = log_of(
        item_id=rows.items.take(rows.item_codes), label=rows.label, logit=rows.logit,
        event_time=np.full(rows.n_rows, 7.0),
    )  # fmt: skip
    found = fit(method, frozen)
    assert len(found.time_edges) == 2
    assert np.isfinite(found.apply(frozen)).all()


def test_more_bins_than_timestamps_are_merged():
    rows = log(rows=60)
    found = fit("slc_t", rows, options=FitOptions(time_bins=500))
    assert len(found.time_edges) <= len(np.unique(rows.time)) + 1
    assert np.isfinite(found.apply(rows)).all()


@pytest.mark.parametrize("method", ["slc_t", "naive", "platt_time"])
def test_a_log_without_times_is_refused_by_name(method):
    rows = log_of(label=[0, 1, 1], logit=[0.1, 0.2, 0.3])
    with pytest.raises(InputError, match="event_time"):
        fit(method, rows)


def test_platt_time_with_a_single_timestamp_equals_platt():
    rows = log()
    frozen = log_of(label=rows.label, logit=rows.logit, event_time=np.full(rows.n_rows, 7.0))
    found, platt = fit("platt_time", frozen), fit("platt", frozen)
    assert np.allclose(found.apply(frozen), platt.apply(frozen), atol=1e-9)
