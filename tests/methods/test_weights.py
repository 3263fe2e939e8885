"""A weight of 2 is the row twice, a weight of 0 is no row, for every method of the ladder."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.methods import METHODS, fit
from slc_ops.rows.interactions import InteractionLog
from tests.methods.synthetic import table

LATER = InteractionLog.from_table(table(rows=400, seed=77))


def weighted_and_repeated() -> tuple[InteractionLog, InteractionLog]:
    rows = table(rows=2500, weight=True)
    # One item whose rows all weigh 0 must vanish, and the newest row must not place a time edge.
    weight = rows["weight"].to_numpy().copy()
    weight[np.array(rows["item_id"].to_pylist()) == "item-003"] = 0.0
    weight[-1] = 0.0
    rows = rows.set_column(rows.column_names.index("weight"), "weight", pa.array(weight))
    repeated = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), weight.astype(int))))
    return InteractionLog.from_table(rows), InteractionLog.from_table(repeated.drop_columns(["weight"]))


@pytest.mark.parametrize("method", METHODS)
def test_weights_count_like_repeated_rows(method):
    weighted, repeated = weighted_and_repeated()
    first, second = fit(method, weighted), fit(method, repeated)
    assert np.allclose(first.apply(LATER), second.apply(LATER), rtol=0, atol=1e-8)
    if first.items is not None:
        assert first.items["item_id"].to_pylist() == second.items["item_id"].to_pylist()
        assert "item-003" not in first.items["item_id"].to_pylist()
        for column in ("offset", "offset_var", "n_obs", "fisher_weight", "shrinkage"):
            mine = first.items[column].to_numpy(zero_copy_only=False)
            theirs = second.items[column].to_numpy(zero_copy_only=False)
            assert np.allclose(mine, theirs, rtol=1e-6, atol=1e-8, equal_nan=True), column


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_one_change_nothing(method):
    rows = table(rows=1500)
    plain = InteractionLog.from_table(rows)
    ones = InteractionLog.from_table(rows.append_column("weight", pa.array(np.ones(1500, np.float32))))
    assert np.allclose(fit(method, plain).apply(LATER), fit(method, ones).apply(LATER), rtol=0, atol=1e-9)
