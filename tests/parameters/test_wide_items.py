"""Very many items: too many cells are refused by name, and longer spans give the same result."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.errors import FitError
from slc_ops.evidence import compare
from slc_ops.methods import METHODS, FitOptions, fit
from slc_ops.methods.fitting import calibration, logistic
from slc_ops.rows.interactions import InteractionLog


def log_of(items: int, rows: int = 4000, seed: int = 0) -> InteractionLog:
    rng = np.random.default_rng(seed)
    return InteractionLog.from_table(
        pa.table(
            {
                "item_id": rng.integers(0, items, rows),
                "user_id": rng.integers(0, 200, rows),
                "event_time": np.arange(rows),
                "label": rng.integers(0, 2, rows),
                "logit": rng.normal(0, 1, rows),
            }
        )
    )


@pytest.mark.parametrize("method", ["naive", "slc_t"])
def test_too_many_cells_are_refused_with_their_number(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MAX_CELLS", 1000)
    log = log_of(items=150)
    with pytest.raises(FitError, match=r"150 items in 10 time bins are 1,500 cells.*fewer time bins"):
        fit(method, log)
    fit(method, log, options=FitOptions(time_bins=5))  # fewer bins fit


def test_the_ladder_leaves_out_methods_that_do_not_fit_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MAX_CELLS", 2000)
    found = compare.compare(log_of(items=150), log_of(items=150, seed=1))
    assert {"naive", "slc_t"}.isdisjoint(found.methods)
    assert len(found.methods) == len(METHODS) - 2
    assert any("1,500 cells" in warning for warning in found.warnings)


def test_the_ladder_keeps_no_lookup_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare.compare(log_of(items=50), log_of(items=50, seed=1), methods=["slc"])
    assert not {"_index", "_offsets"} & set(vars(found.methods["slc"].parameters))


def test_longer_spans_for_many_items_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(items=300, rows=20000)
    monkeypatch.setattr(logistic, "SPAN_ROWS", 1 << 10)
    short = fit("slc_eb", log)
    monkeypatch.setattr(logistic, "MANY_ITEMS", 100)
    long = fit("slc_eb", log)
    assert long.prior_var == short.prior_var
    np.testing.assert_allclose(long.items["offset"].to_numpy(), short.items["offset"].to_numpy(), atol=1e-10)
