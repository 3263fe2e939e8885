import numpy as np
import pytest

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.methods import METHODS, FitOptions, fit
from tests.methods.synthetic import log


@pytest.mark.parametrize("method", METHODS)
def test_correcting_arrays_equals_applying_to_a_log(method):
    rows, later = log(), log(seed=4)
    found = fit(method, rows)
    ids = later.items.take(later.item_codes)
    assert np.array_equal(found.correct(ids, later.logit, later.time), found.apply(later))


@pytest.mark.parametrize("method", METHODS)
def test_one_row_at_a_time_gives_the_same_bytes_as_a_batch(method):
    rows = log()
    found = fit(method, rows)
    ids = [*rows.items.take(rows.item_codes).to_pylist()[:50], "never seen"]
    logits = np.append(rows.logit[:50], 700.0)
    times = np.append(rows.time[:50], 1e6)
    batch = found.correct(ids, logits, times)
    single = [found.correct([i], [x], [t])[0] for i, x, t in zip(ids, logits, times, strict=True)]
    assert batch.tolist() == single


@pytest.mark.parametrize("logits", [[np.nan], [np.inf], [0.1, 0.2], [[0.1]], []])
def test_invalid_rows_are_refused(logits):
    with pytest.raises(InputError):
        fit("slc", log()).correct(["item-000"], logits)


def test_platt_time_requires_times():
    with pytest.raises(InputError, match="event_time"):
        fit("platt_time", log()).correct(["item-000"], [0.1])


def test_the_link_is_shown_only_where_one_was_fitted():
    rows = log()
    assert set(fit("platt", rows).affine()) == {"a", "b0"}
    assert fit("temperature", rows).affine()["b0"] == 0.0
    for method in ("base", "isotonic", "histogram", "rescal", "rescal_iso", "naive", "slc_iso"):
        assert fit(method, rows).affine() is None


def test_an_unknown_method_is_refused_with_the_list_of_methods():
    with pytest.raises(SettingsError, match="no method 'plat'; the ladder has base, platt"):
        fit("plat", log())


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"prior_var": 0.0}, "prior_var is 0"),
        ({"prior_var": -1.0}, "prior_var is -1"),
        ({"prior_var": float("nan")}, "prior_var is nan"),
        ({"prior_var": float("inf")}, "prior_var is inf"),
        ({"time_bins": 1}, "time_bins is 1"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_invalid_options_are_refused(options, what):
    with pytest.raises(SettingsError, match=what):
        FitOptions(**options)
