"""Every row is in the right slices."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.evidence.slices import MAX_GROUPS, by_density, by_group, by_time
from slc_ops.rows.interactions import InteractionLog
from tests.evidence.worlds import parts_of, rows, week


def log(items, **columns):
    size = len(items)
    plain = {"item_id": items, "label": [0, 1] * (size // 2) + [0] * (size % 2), "logit": [0.0] * size}
    return InteractionLog.from_table(pa.table({**plain, **columns}))


CALIBRATION = log(["a"] + ["b"] * 2 + ["c"] * 5 + ["d"] * 8 + ["e"] * 20 + ["f"] * 50)
TEST = log(["f", "a", "new", "e", "d", "c", "b", "a"])


def rows_of(calibration, test):
    """The rows of each density slice."""
    found = parts_of(by_density(calibration, test), test)
    return {part.name: np.flatnonzero(part.rows).tolist() for part in found}


def test_terciles_are_over_items_and_cold_start_is_separate():
    assert rows_of(CALIBRATION, TEST) == {
        "sparse": [1, 6, 7],
        "medium": [4, 5],
        "dense": [0, 3],
        "cold_start": [2],
    }


def test_the_labels_contain_the_counts():
    labels = [part.label for part in parts_of(by_density(CALIBRATION, TEST), TEST)]
    assert labels == ["sparse (1–2 obs)", "medium (3–8 obs)", "dense (9–50 obs)", "cold start (0 obs)"]


def test_density_and_cold_start_slices_cover_every_row_once():
    covered = sum(part.rows.astype(int) for part in parts_of(by_density(CALIBRATION, TEST), TEST))
    assert covered.tolist() == [1] * TEST.n_rows


@pytest.mark.parametrize("counts", [[1, 1, 1], [1, 1, 9], [5], [1, 2]])
def test_few_or_equal_counts_still_assign_every_row(counts):
    items = [name for name, count in zip("abcd", counts, strict=False) for _ in range(count)]
    calibration = log([*items, *items])
    parts = parts_of(by_density(calibration, calibration), calibration)
    covered = sum(part.rows.astype(int) for part in parts)
    assert covered.tolist() == [1] * calibration.n_rows


def test_a_calibration_row_of_weight_zero_is_ignored():
    calibration = log(["a", "a", "b", "c"], weight=[1.0, 0.0, 0.0, 1.0])
    # One row each for a and c, none for b.
    assert rows_of(calibration, log(["a", "b", "c"])) == {"sparse": [0, 2], "cold_start": [1]}


def test_integer_ids_match_integer_ids():
    found = rows_of(log([1, 1, 2]), log([2, 1, 3]))
    assert found == {"sparse": [0], "dense": [1], "cold_start": [2]}


def test_an_integer_id_matches_its_text_in_the_other_log():
    found = rows_of(log([1, 1, 2]), log(["2", "1", "x"]))
    assert found == {"sparse": [0], "dense": [1], "cold_start": [2]}


def test_a_week_has_seven_days():
    test = InteractionLog.from_table(rows(0, n=700))
    parts = parts_of(by_time(test, week(0)), test)
    assert len(parts) == 7
    assert sum(part.rows.sum() for part in parts) == 700
    second_day = test.time[parts[1].rows]
    start = week(0).start.timestamp()
    assert start + 86400 <= second_day.min()
    assert second_day.max() < start + 2 * 86400


def test_any_other_time_axis_is_split_into_equal_parts():
    test = log(["a"] * 70, event_time=np.arange(70))
    assert [int(part.rows.sum()) for part in parts_of(by_time(test, None), test)] == [10] * 7


def test_a_log_without_time_or_groups_has_no_such_slices():
    assert list(parts_of(by_time(TEST, None), TEST)) == []
    assert list(parts_of(by_group(TEST), TEST)) == []


def test_groups_are_sorted_by_size_and_omit_rows_without_a_group():
    test = log(["a"] * 6, group_id=["x", "y", "y", None, "z<b>", "y"])
    slicing = by_group(test)
    parts = parts_of(slicing, test)
    assert [(part.name, int(part.rows.sum())) for part in parts] == [("y", 3), ("x", 1), ("z<b>", 1)]
    assert slicing.number_of(test.rows(0, 6, slicing.columns)).tolist() == [1, 0, 0, -1, 2, 0]


def test_only_the_largest_of_many_groups_are_kept():
    test = log(["a"] * 200, group_id=[str(k % 100) for k in range(200)])
    assert len(list(parts_of(by_group(test), test))) == MAX_GROUPS
