"""Proposition 2: the paper's figures, and simulated worlds with and without detectable drift."""

import json

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.evidence.detectability import (
    _row_median,
    detectability,
    required_obs_per_bin,
    smallest_visible_drift,
)
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.options import FitOptions
from slc_ops.rows.interactions import InteractionLog
from tests.evidence.worlds import sigmoid


def world(items=20, per_item=2000, drift=0.0, bins=10, seed=0, logit=0.0):
    """Items whose bias moves by ``drift`` up or down from bin to bin."""
    rng = np.random.default_rng(seed)
    n = items * per_item
    item, time = rng.integers(0, items, n), rng.random(n)
    steps = drift * rng.choice([-1.0, 1.0], (items, bins))
    path = np.cumsum(steps, axis=1)
    truth = logit + path[item, (time * bins).astype(int)]
    label = rng.random(n) < sigmoid(truth)
    columns = {
        "item_id": [f"i{k}" for k in item],
        "label": label.astype(int),
        "logit": np.full(n, logit),
        "event_time": time,
    }
    return InteractionLog.from_table(pa.table(columns))


@pytest.mark.parametrize(
    ("obs_per_item", "bins", "expected"), [(48, 10, 2.53), (54, 10, 2.39), (3, 5, 7.16), (1, 5, 12.40)]
)
def test_the_thresholds_of_the_papers_table_four(obs_per_item, bins, expected):
    assert smallest_visible_drift(obs_per_item / bins) == pytest.approx(expected, abs=0.005)


def test_a_drift_of_0_05_needs_a_hundred_thousand_observations():
    assert 10 * required_obs_per_bin(0.05) == pytest.approx(122_926, abs=5)


def test_the_power_curve_is_the_inverse_of_the_threshold():
    power = detectability(world(5, 100)).power
    drifts = [point["drift"] for point in power]
    assert (drifts[0], drifts[-1]) == (0.02, 3.0)
    assert drifts == sorted(set(drifts))
    for point in power:
        assert smallest_visible_drift(point["obs_per_bin"]) == pytest.approx(point["drift"])


def test_the_summary_follows_from_the_median_item():
    found = detectability(world(20, 500), time_bins=5)
    counts = found.per_item["n_obs"].to_numpy()
    assert found.obs_per_item_median == np.median(counts)
    assert found.obs_per_bin_median == pytest.approx(np.median(counts) / 5)
    assert found.w_max == pytest.approx(found.obs_per_bin_median / 4)
    assert found.delta_min == pytest.approx(1.959964 * np.sqrt(8 / found.obs_per_bin_median), rel=1e-6)
    assert (found.items, found.time_bins) == (20, 5)


def test_each_item_has_its_own_threshold_from_real_fisher_weights():
    balanced = detectability(world(10, 1000, logit=0.0))
    lopsided = detectability(world(10, 1000, logit=3.0))
    for found, p in ((balanced, 0.5), (lopsided, sigmoid(3.0))):
        table = found.per_item
        per_bin = table["n_obs"].to_numpy() / 10
        expected = 1.96 * np.sqrt(2 / (per_bin * p * (1 - p)))
        assert table["delta_min"].to_numpy() == pytest.approx(expected, rel=0.1)


def test_without_drift_few_items_are_flagged():
    found = detectability(world(200, 500))
    assert found.detectable_item_share < 0.02
    assert found.temporal_tracking == "not viable"
    assert "200" not in found.temporal_tracking
    assert "needs 122,9" in found.reason


def test_strong_drift_on_dense_items_is_viable():
    found = detectability(world(20, 5000, drift=0.5))
    assert found.delta_obs_median == pytest.approx(0.5, abs=0.1)
    assert found.detectable_item_share > 0.9
    assert found.viable


def test_very_dense_items_are_viable_even_without_drift():
    found = detectability(world(2, 130_000), time_bins=10)
    assert found.obs_per_item_median >= found.required_obs_per_item
    assert found.viable


def test_an_item_seen_once_has_no_threshold_and_is_not_detectable():
    log = InteractionLog.from_table(
        pa.table(
            {
                "item_id": ["a"] * 40 + ["once"],
                "label": [0, 1] * 20 + [1],
                "logit": [0.0] * 41,
                "event_time": list(range(41)),
            }
        )
    )
    rows = {row["item_id"]: row for row in detectability(log, time_bins=4).per_item.to_pylist()}
    assert rows["once"]["delta_min"] is None
    assert rows["once"]["delta_obs"] is None
    assert rows["once"]["detectable"] is False
    assert rows["a"]["delta_min"] > 0


def test_the_json_has_every_field_of_the_contract_and_no_nan():
    found = detectability(world(5, 50))
    value = json.loads(json.dumps(found.as_dict(per_item=True), allow_nan=False))
    assert {
        "items", "obs_per_item_median", "time_bins", "obs_per_bin_median", "w_max", "delta_min",
        "delta_obs_median", "detectable_item_share", "required_obs_per_item", "temporal_tracking", "per_item",
    } <= set(value)  # fmt: skip
    assert len(value["per_item"]) == value["items"] == 5
    assert {**found.as_dict(), "per_item": value["per_item"]} == value


def test_weight_two_equals_a_duplicated_row_and_weight_zero_a_removed_row():
    table = world(6, 60).as_table()
    times = np.random.default_rng(5).integers(0, 3, table.num_rows)
    weighted = detectability(
        InteractionLog.from_table(table.append_column("weight", pa.array(times, pa.float64())))
    )
    repeated = table.take(pa.array(np.repeat(np.arange(table.num_rows), times)))
    assert weighted.per_item["n_obs"].to_numpy().sum() == repeated.num_rows == times.sum()
    expanded = detectability(InteractionLog.from_table(repeated))
    assert weighted.items == expanded.items
    assert weighted.obs_per_item_median == expanded.obs_per_item_median


def test_each_items_row_is_that_of_a_plain_loop():
    rng = np.random.default_rng(8)
    rows, bins = 202, 4  # few enough for empty cells
    item, time, logit = rng.integers(0, 25, rows), rng.random(rows), rng.normal(0, 1, rows)
    label = (rng.random(rows) < sigmoid(logit)).astype(int)
    columns = {"item_id": item, "label": label, "logit": logit, "event_time": time}
    log = InteractionLog.from_table(pa.table(columns))
    found = detectability(log, time_bins=bins)
    edges = Calibration(log, options=FitOptions(time_bins=bins)).time_edges
    place = np.searchsorted(edges[1:-1], time, side="left")
    steps = []
    for row in found.per_item.to_pylist():
        cells = [(item == row["item_id"]) & (place == each) for each in range(bins)]
        n, right = (np.array([values[cell].sum() for cell in cells]) for values in (np.ones(rows), label))
        fisher = np.array([(sigmoid(logit[cell]) * (1 - sigmoid(logit[cell]))).sum() for cell in cells])
        rate = np.log((right + 0.5) / (n - right + 0.5))
        pairs = [each for each in range(1, bins) if n[each] and n[each - 1]]
        assert (row["n_obs"], row["bins_observed"]) == (n.sum(), np.count_nonzero(n))
        assert row["fisher_weight"] == pytest.approx(fisher.sum())
        if not pairs:
            assert (row["delta_min"], row["delta_obs"], row["detectable"]) == (None, None, False)
            continue
        threshold = np.median([1.959964 * np.sqrt(1 / fisher[each] + 1 / fisher[each - 1]) for each in pairs])
        steps.append(np.median([abs(rate[each] - rate[each - 1]) for each in pairs]))
        assert row["delta_min"] == pytest.approx(threshold, rel=1e-6)
        assert row["delta_obs"] == pytest.approx(steps[-1])
        assert row["detectable"] == (steps[-1] >= threshold)
    assert 0 < len(steps) < len(found.per_item) == 25
    assert found.delta_obs_median == pytest.approx(np.median(steps))


def test_tracking_is_viable_from_half_of_the_items_on():
    label = {"moves": np.repeat([0, 1], 300), "stays": np.tile([0, 1], 300)}
    for items, viable in ((("moves", "stays"), True), (("moves", "stays", "stays too"), False)):
        columns = {
            "item_id": np.repeat(items, 600),
            "label": np.concatenate([label[each.partition(" ")[0]] for each in items]),
            "logit": np.zeros(600 * len(items)),
            "event_time": np.tile(np.arange(600), len(items)),
        }
        found = detectability(InteractionLog.from_table(pa.table(columns)), time_bins=2)
        assert (found.detectable_item_share, found.viable) == (pytest.approx(1 / len(items)), viable)


def test_items_whose_rows_have_no_weight_are_left_out():
    columns = {"item_id": ["a", "b"] * 20, "label": [0, 1, 1, 0] * 10, "logit": [0.0] * 40}
    columns |= {"event_time": range(40), "weight": [1.0, 0.0] * 20}
    found = detectability(InteractionLog.from_table(pa.table(columns)), time_bins=2)
    assert found.per_item["item_id"].to_pylist() == ["a"]


def test_a_log_without_time_is_refused():
    log = InteractionLog.from_table(pa.table({"item_id": ["a", "b"], "label": [0, 1], "logit": [0.0, 0.0]}))
    with pytest.raises(InputError, match="event_time"):
        detectability(log)


@pytest.mark.parametrize(("option", "value"), [("time_bins", 1), ("alpha", 0.0), ("alpha", 1.0)])
def test_invalid_options_are_refused(option, value):
    with pytest.raises(SettingsError):
        detectability(world(2, 20), **{option: value})


def test_very_many_items_in_blocks_give_the_same_table(monkeypatch):
    log = world(items=23, per_item=200, drift=0.3)
    whole = detectability(log)
    monkeypatch.setattr("slc_ops.evidence.detectability.BLOCK_CELLS", 70)  # seven items at a time
    blocks = detectability(log)
    assert blocks.per_item.combine_chunks().equals(whole.per_item.combine_chunks())
    assert blocks.as_dict() == whole.as_dict()


def test_medians_of_rows_are_those_of_their_known_entries():
    rng = np.random.default_rng(4)
    values, known = rng.normal(size=(200, 7)), rng.random((200, 7)) < 0.5
    expected = [
        np.median(row[mask]) if mask.any() else np.nan for row, mask in zip(values, known, strict=True)
    ]
    np.testing.assert_allclose(_row_median(values, known), expected)
