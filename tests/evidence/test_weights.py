"""Weights are used everywhere: weight 2 equals two equal rows, weight 0 equals no row."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import FitError, InputError
from slc_ops.base.methods import METHODS
from slc_ops.evidence.detectability import detectability
from slc_ops.evidence.results import item_gains
from slc_ops.evidence.scoring import ITEMS, score_directory, score_fold
from slc_ops.evidence.slices import MAX_GROUPS, by_density, by_group
from slc_ops.methods import fit
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.options import FitOptions
from slc_ops.refresh.window_rules import Reach, plan_folds
from slc_ops.rows.interactions import InteractionLog
from tests.evidence.worlds import rows, write_weeks


def weighted_and_repeated(table: pa.Table, seed: int = 5) -> tuple[pa.Table, pa.Table]:
    """Rows with weights 0, 1 and 2, and the same rows omitted, once and twice."""
    times = np.random.default_rng(seed).integers(0, 3, table.num_rows)
    weighted = table.append_column("weight", pa.array(times, pa.float64()))
    return weighted, table.take(pa.array(np.repeat(np.arange(table.num_rows), times)))


def both(table: pa.Table, seed: int = 5) -> tuple[InteractionLog, InteractionLog]:
    """Both versions as logs."""
    weighted, repeated = weighted_and_repeated(table, seed)
    return InteractionLog.from_table(weighted), InteractionLog.from_table(repeated)


def gains(directory: Path, weeks: list[Any]) -> dict[str, list[dict[str, Any]]]:
    """The gain of each item by slc over Platt on the newest week."""
    newest = plan_folds(weeks, Reach(link=2, evidence=2)).newest
    for method in ("platt", "slc"):
        score_fold(newest, [method], directory)
    place = score_directory(directory, newest, "platt"), score_directory(directory, newest, "slc")
    return item_gains(place[0] / ITEMS, place[1] / ITEMS)


def test_item_gains_treat_weights_as_repeated_rows(tmp_path):
    found = []
    for part in (0, 1):
        place = tmp_path / str(part)
        place.mkdir()
        # Two weeks to learn from stay as they are, so that both cases have the same parameters.
        weeks = write_weeks(place, 4, users=80, bias_sd=1.0)
        newest = weeks[-1][1]
        pq.write_table(weighted_and_repeated(pq.read_table(newest))[part], newest)
        found.append(gains(place / "scores", weeks))
    weighted, repeated = found
    assert len(weighted["best"]) > 3
    for side in ("best", "worst"):
        assert [row["item_id"] for row in weighted[side]] == [row["item_id"] for row in repeated[side]]
        for ours, theirs in zip(weighted[side], repeated[side], strict=True):
            assert ours["n"] == theirs["n"]
            for name in ("observed", "before", "after", "gain"):
                assert ours[name] == pytest.approx(theirs[name], rel=1e-9), name


def group_log(names: list[str | None], weight: list[float] | None = None) -> InteractionLog:
    size = len(names)
    columns = {"item_id": ["a"] * size, "label": [0, 1] * (size // 2) + [0] * (size % 2)}
    columns |= {"logit": [0.0] * size, "group_id": names} | ({} if weight is None else {"weight": weight})
    return InteractionLog.from_table(pa.table(columns))


def test_groups_treat_weights_as_repeated_rows():
    names = [f"g{k:03d}" for k in np.random.default_rng(3).integers(0, 80, 400)]
    weighted, repeated = both(group_log(names).as_table().append_column("group_id", pa.array(names)))
    ours, theirs = by_group(weighted).parts, by_group(repeated).parts
    assert len(ours) == MAX_GROUPS
    assert ours == theirs


def test_the_largest_group_has_the_most_weight_and_a_group_of_weight_zero_is_omitted():
    log = group_log(["many", "many", "many", "heavy", "none"], [1.0, 1.0, 1.0, 9.0, 0.0])
    assert [name for _, name, _ in by_group(log).parts] == ["heavy", "many"]


def test_density_slices_treat_weights_as_repeated_rows():
    table = rows(0, n=600, users=60, items=40)
    test = InteractionLog.from_table(rows(1, n=300, users=60, items=45))
    weighted, repeated = both(table)
    ours, theirs = by_density(weighted, test), by_density(repeated, test)
    assert ours.parts == theirs.parts
    mine, other = (each.number_of(test.rows(0, test.n_rows)) for each in (ours, theirs))
    assert mine.tolist() == other.tolist()
    unweighted = by_density(InteractionLog.from_table(table), test)
    assert unweighted.parts != ours.parts  # the weights of this world do matter


def test_fractional_weights_place_the_density_cuts():
    calibration = InteractionLog.from_table(
        pa.table(
            {
                "item_id": ["a", "a", "a", "b", "c"],
                "label": [0, 1, 0, 1, 1],
                "logit": [0.0] * 5,
                "weight": [0.1, 0.1, 0.1, 0.5, 2.5],
            }
        )
    )
    slices = by_density(calibration, calibration)
    assert [label for _, _, label in slices.parts] == [
        "sparse (0.3 obs)",
        "medium (0.5 obs)",
        "dense (2.5 obs)",
        "cold start (0 obs)",
    ]
    assert slices.number_of(calibration.rows(0, 5)).tolist() == [0, 0, 0, 1, 2]


def drifting(ties: bool = False) -> pa.Table:
    """Items over time, with all times distinct or only a few."""
    rng = np.random.default_rng(0)
    n = 1200
    time = rng.integers(0, 12, n).astype(float) if ties else rng.random(n)
    columns = {"item_id": rng.integers(0, 8, n), "label": rng.integers(0, 2, n), "logit": rng.normal(0, 1, n)}
    return pa.table({**columns, "event_time": time})


@pytest.mark.parametrize("ties", [False, True])
def test_detectability_treats_weights_as_repeated_rows(ties):
    weighted, repeated = (detectability(log, time_bins=6) for log in both(drifting(ties)))
    ours = {row["item_id"]: row for row in weighted.per_item.to_pylist()}
    theirs = {row["item_id"]: row for row in repeated.per_item.to_pylist()}
    assert ours.keys() == theirs.keys()
    for item, row in ours.items():
        for name, value in row.items():
            assert value == pytest.approx(theirs[item][name], rel=1e-9), name
    assert weighted.detectable_item_share == repeated.detectable_item_share
    assert weighted.delta_obs_median == pytest.approx(repeated.delta_obs_median, rel=1e-9)


@pytest.mark.parametrize("ties", [False, True])
def test_detectability_uses_the_time_bins_of_slc_t(ties):
    log, _ = both(drifting(ties))
    calibration = Calibration(log, options=FitOptions(time_bins=6))
    n = calibration.cell_sums.n.reshape(calibration.n_items, -1)
    found = detectability(log, time_bins=6)
    assert found.time_bins == calibration.n_bins
    in_order = {row["item_id"]: row for row in found.per_item.to_pylist()}
    for item, cells in zip(log.items.to_pylist(), n, strict=True):
        assert in_order[item]["bins_observed"] == np.count_nonzero(cells)
    fisher = calibration.cell_sums.fisher.reshape(calibration.n_items, -1)
    with np.errstate(divide="ignore"):
        threshold = 1.959963984540054 * np.sqrt(1 / fisher[:, 1:] + 1 / fisher[:, :-1])
    for item, each in zip(log.items.to_pylist(), threshold, strict=True):
        assert in_order[item]["delta_min"] == pytest.approx(np.median(each[np.isfinite(each)]), rel=1e-6)


def test_rows_with_one_timestamp_show_no_drift():
    table = drifting().drop_columns("event_time").append_column("event_time", pa.array([7.0] * 1200))
    found = detectability(InteractionLog.from_table(table), time_bins=6)
    assert (found.time_bins, found.viable) == (1, False)
    assert "one time bin" in found.reason


def test_detectability_refuses_rows_of_weight_zero_only():
    table = drifting().append_column("weight", pa.array([0.0] * 1200))
    with pytest.raises(InputError, match="all weights are 0"):
        detectability(InteractionLog.from_table(table))


@pytest.mark.parametrize("weight", [1e308, 1e300])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "base"])
def test_weights_of_1e308_are_not_reported_as_constant_labels(weight, method):
    table = drifting().append_column("weight", pa.array([weight] * 1200))
    with pytest.raises(FitError) as caught:
        fit(method, InteractionLog.from_table(table))
    assert "labels" not in str(caught.value)
    assert "weights" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_weights_of_any_reasonable_size_are_fitted(weight):
    table = drifting().append_column("weight", pa.array([weight] * 1200))
    assert fit("platt", InteractionLog.from_table(table)).affine() is not None
