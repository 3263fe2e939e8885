"""Folds: fit on earlier windows, score on the next one."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.errors import InputError
from slc_ops.evidence.folds import Fold, FoldPlan, FoldRows, hold_out
from slc_ops.refresh.window_rules import Reach, plan_folds
from slc_ops.rows.interactions import InteractionLog
from tests.evidence.worlds import week, write_weeks


def named(*numbers):
    return [(week(n), Path(f"w{n}")) for n in numbers]


def names(paths):
    return [path.name for path in paths]


def test_a_method_with_forgetting_uses_more_windows_and_row_ages():
    weeks = named(0, 1, 2, 4, 5, 6, 7, 8, 9)  # week 3 has no rows
    newest = plan_folds(weeks, Reach(link=2, offsets=3, evidence=1, forget=6, half_life=2.0)).newest
    assert names(newest.older) == ["w4", "w5", "w6", "w7", "w8"]
    assert newest.offsets == newest.older[-3:]
    assert newest.forget.starts == tuple(week(n).start.timestamp() for n in range(3, 9))
    times = np.array([week(n).start.timestamp() for n in (8, 6)])
    assert newest.forget.of(times).tolist() == [1.0, 0.5]
    assert Fold.from_dict(newest.as_dict()) == newest
    assert plan_folds(weeks, Reach(link=2, evidence=1)).newest.older == ()


def test_every_fold_is_fitted_on_the_weeks_right_before_its_window():
    plan = plan_folds(named(*range(8)), Reach(link=4, evidence=4))
    assert [fold.window for fold in plan.folds] == [week(n) for n in (4, 5, 6, 7)]
    assert [names(fold.calibration) for fold in plan.folds] == [
        [f"w{k}" for k in range(n - 4, n)] for n in (4, 5, 6, 7)
    ]
    assert plan.notes == ()


def test_the_newest_window_is_the_last_fold():
    plan = plan_folds(named(*range(8)), Reach(link=4, evidence=4))
    assert [fold.newest for fold in plan.folds] == [False] * 3 + [True]
    assert plan.newest.window == week(7)
    assert len({fold.key for fold in plan.folds}) == 4


def test_offsets_use_a_longer_memory_that_ends_with_that_of_the_link():
    plan = plan_folds(named(*range(12)), Reach(link=2, offsets=5, evidence=3))
    assert [names(fold.offsets) for fold in plan.folds] == [
        [f"w{k}" for k in range(n - 5, n)] for n in (9, 10, 11)
    ]
    assert all(fold.offsets[-2:] == fold.calibration for fold in plan.folds)
    short = plan_folds(named(*range(3)), Reach(link=2, offsets=5, evidence=1)).newest
    assert names(short.offsets) == ["w0", "w1"]
    assert FoldRows(short).long is None


def test_no_fold_is_fitted_on_its_own_window_or_a_later_one():
    files = named(*range(12))
    window_of = {path: window for window, path in files}
    for fold in plan_folds(files, Reach(link=3, evidence=6)).folds:
        assert all(window_of[path].end <= fold.window.start for path in fold.calibration)


def test_the_order_of_the_windows_does_not_matter():
    forward = plan_folds(named(*range(8)), Reach(link=4, evidence=4))
    assert plan_folds(named(*reversed(range(8))), Reach(link=4, evidence=4)) == forward


def test_a_missing_week_is_left_out_and_noted():
    plan = plan_folds(named(0, 1, 2, 3, 4, 6, 7), Reach(link=3, evidence=4))
    assert [fold.window for fold in plan.folds] == [week(4), week(6), week(7)]
    assert names(plan.newest.calibration) == ["w4", "w6"]
    assert any("2026-02-09/2026-02-16 has no rows" in note for note in plan.notes)
    assert any("learned from 2 of 3 windows" in note for note in plan.notes)


def test_fewer_windows_than_folds_are_noted():
    plan = plan_folds(named(0, 1, 2), Reach(link=2, evidence=4))
    assert [fold.window for fold in plan.folds] == [week(1), week(2)]
    assert any("nothing before" in note for note in plan.notes)


def test_a_first_window_is_split_by_time(tmp_path):
    plan = plan_folds(write_weeks(tmp_path, 1, n=1000), Reach(link=4, evidence=4))
    (fold,) = plan.folds
    rows = FoldRows(fold)
    earlier, later = rows.calibration.log, rows.test
    assert (fold.hold_out, fold.newest, later.n_rows) == (True, True, 300)
    assert earlier.time.max() < later.time.min()
    assert any("its later part was scored" in note for note in plan.notes)


def test_after_a_long_gap_the_newest_window_counts_as_a_first_one():
    plan = plan_folds(named(0, 1, 9), Reach(link=2, evidence=4))
    assert [(fold.window, fold.hold_out) for fold in plan.folds] == [(week(9), True)]


def test_no_window_is_an_error():
    with pytest.raises(InputError, match="there are none"):
        plan_folds([], Reach(link=4, evidence=4))


def test_a_plan_round_trips_through_json():
    plan = plan_folds(named(0, 1, 3), Reach(link=2, evidence=3))
    assert FoldPlan.from_dict(plan.as_dict()) == plan


def test_hyperparameters_are_tuned_forward_in_time_within_the_calibration_weeks(tmp_path):
    files = [path for _, path in write_weeks(tmp_path, 4, n=500)]
    tuning, later = FoldRows(Fold(week(3), tuple(files[:3]), files[3])).tuning
    earlier = tuning.log
    assert (earlier.n_rows, later.n_rows) == (1000, 500)
    assert earlier.time.max() < later.time.min()
    assert later.time.max() < week(3).start.timestamp()


def test_held_out_rows_of_a_single_week_are_not_used_for_tuning(tmp_path):
    fold = plan_folds(write_weeks(tmp_path, 1, n=1000), Reach(link=4, evidence=4)).folds[0]
    rows = FoldRows(fold)
    earlier, later = rows.tuning[0].log, rows.tuning[1]
    assert earlier.n_rows + later.n_rows == rows.calibration.log.n_rows == 700
    assert earlier.time.max() < later.time.min() <= later.time.max() < rows.test.time.min()


def steps(time):
    return InteractionLog.from_table(rows_at(time))


def rows_at(time):
    size = len(time)
    return pa.table(
        {"item_id": ["a"] * size, "label": [0, 1] * (size // 2), "logit": [0.0] * size, "event_time": time}
    )


def test_rows_with_one_timestamp_cannot_be_split():
    with pytest.raises(InputError, match="share one event_time"):
        hold_out(steps([5, 5]))


def test_rows_without_times_cannot_be_split():
    with pytest.raises(InputError, match="without event_time"):
        hold_out(InteractionLog.from_table(rows_at([1, 2]).drop_columns("event_time")))


def test_rows_with_the_same_timestamp_stay_together():
    earlier, later = hold_out(steps(np.repeat(np.arange(10), 10)))
    assert not set(earlier.time) & set(later.time)
    assert earlier.n_rows + later.n_rows == 100


def test_a_gap_shortens_neither_memory_if_older_windows_exist():
    """Five windows are missing: the offsets use the last three usable ones, the link the last two of them."""
    weeks = named(0, 1, 2, 3, 9)
    shape = {"link": 2, "offsets": 3, "evidence": 1}
    newest = plan_folds(weeks, Reach(**shape, forget=12, half_life=8.0)).newest
    assert [path.name for path in newest.offsets] == [path.name for _, path in weeks[1:4]]
    assert [path.name for path in newest.calibration] == [path.name for _, path in weeks[2:4]]
    assert plan_folds(
        weeks, Reach(**shape)
    ).newest.hold_out  # windows older than the longest memory are not used


def test_older_rows_are_read_only_by_methods_that_forget(tmp_path):
    weeks = write_weeks(tmp_path, 5, n=100)
    forgets = plan_folds(weeks, Reach(link=1, evidence=1, forget=4, half_life=2.0)).newest
    assert FoldRows(forgets).older.log.n_rows == 400
    assert FoldRows(plan_folds(weeks, Reach(link=1, evidence=1)).newest).older is None
