"""For every method weight 2 equals the row twice and weight 0 equals no row."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.errors import FitError
from slc_ops.methods import METHODS, fit
from slc_ops.rows.interactions import InteractionLog
from tests.methods.synthetic import table

LATER = InteractionLog.from_table(table(rows=400, seed=77))


def weighted_and_repeated() -> tuple[InteractionLog, InteractionLog]:
    rows = table(rows=2500, weight=True)
    # An item of weight 0 must disappear, and the newest row must not set a time edge.
    weight = rows["weight"].to_numpy().copy()
    weight[np.array(rows["item_id"].to_pylist()) == "item-003"] = 0.0
    weight[-1] = 0.0
    rows = rows.set_column(rows.column_names.index("weight"), "weight", pa.array(weight))
    repeated = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), weight.astype(int))))
    return InteractionLog.from_table(rows), InteractionLog.from_table(repeated.drop_columns(["weight"]))


@pytest.mark.parametrize("method", METHODS)
def test_weights_equal_repeated_rows(method):
    weighted, repeated = weighted_and_repeated()
    first, second = fit(method, weighted), fit(method, repeated)
    assert np.allclose(first.apply(LATER), second.apply(LATER), rtol=0, atol=1e-8)
    if first.items is not None:
        assert first.items["id"].to_pylist() == second.items["id"].to_pylist()
        assert "item-003" not in first.items["id"].to_pylist()
        for column in ("offset", "offset_var", "n_obs", "fisher_weight", "shrinkage"):
            mine = first.items[column].to_numpy(zero_copy_only=False)
            theirs = second.items[column].to_numpy(zero_copy_only=False)
            assert np.allclose(mine, theirs, rtol=1e-6, atol=1e-8, equal_nan=True), column


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_one_equal_no_weights(method):
    rows = table(rows=1500)
    plain = InteractionLog.from_table(rows)
    ones = InteractionLog.from_table(rows.append_column("weight", pa.array(np.ones(1500, np.float32))))
    assert np.allclose(fit(method, plain).apply(LATER), fit(method, ones).apply(LATER), rtol=0, atol=1e-9)


def extreme(**columns):
    rng = np.random.default_rng(0)
    rows = {"item_id": rng.integers(0, 20, 400), "user_id": rng.integers(0, 30, 400)}
    rows |= {"event_time": np.arange(400), "label": rng.integers(0, 2, 400), "logit": rng.normal(0, 1, 400)}
    return InteractionLog.from_table(pa.table(rows | columns))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", [name for name in METHODS if name != "base"])
@pytest.mark.parametrize("weight", [1e-200, 1e-310, 5e-324])
@pytest.mark.faults(
    "weights of 1e-200, 1e-310 and 5e-324 in a fit",
    "refused by name in one line",
)
def test_weights_without_a_finite_sum_are_refused_by_name(method, weight):
    with pytest.raises(FitError, match=r"the weights of .* add up to .* at least 1e-100"):
        fit(method, extreme(weight=np.full(400, weight)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weight", [1e-200, 5e-324])
def test_a_few_tiny_weights_change_nothing(method, weight):
    weights = np.ones(400)
    weights[:50] = weight
    few, none = (extreme(weight=np.where(weights < 1, each, 1.0)) for each in (weight, 0.0))
    found, expected = (fit(method, log).apply(none) for log in (few, none))
    # A row of any positive weight is a knot of an isotonic map, which interpolates between knots.
    within = 0.1 if method.endswith(("isotonic", "_iso")) else 1e-9
    np.testing.assert_allclose(found, expected, rtol=0, atol=within)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1e200, 1e300])
def test_huge_logits_are_refused_by_name_or_give_probabilities(method, size):
    logit = np.random.default_rng(0).normal(0, 1, 400)
    logit[:5], logit[5:9] = size, -size
    log = extreme(logit=logit)
    if METHODS[method].fits_link:
        with pytest.raises(FitError, match="too far apart for a fit"):
            fit(method, log)
    else:
        found = fit(method, log).apply(log)
        assert ((found >= 0) & (found <= 1)).all()
