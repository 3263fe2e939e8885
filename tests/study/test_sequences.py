"""A log as sequences: the split by time, the input of a network, and refused inputs."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, OneClassError
from slc_ops.paper.datasets.split import part_of
from slc_ops.study.sequences import (
    CALIBRATION,
    CHOICE,
    TEST,
    TRAIN,
    batches,
    four_parts,
    prediction_windows,
    read_sequences,
    sequences_of,
    training_windows,
)  # fmt: skip
from tests.study.learners import learners


def small(**columns: object) -> pa.Table:
    """Three users with twenty rows each, unsorted."""
    rng = np.random.default_rng(3)
    table = {
        "user_id": np.repeat(["a", "b", "c"], 20),
        "item_id": rng.integers(0, 9, 60),
        "group_id": rng.integers(0, 3, 60),
        "event_time": np.tile(np.arange(20), 3),
        "label": np.tile([0, 1], 30),
    }
    order = rng.permutation(60)
    return pa.table({name: np.asarray(values)[order] for name, values in (table | columns).items()})


def test_each_user_is_split_by_time_and_the_last_tenth_of_train_selects_the_epoch() -> None:
    found = sequences_of(small())
    assert found.first.tolist() == [0, 20, 40, 60]
    assert np.bincount(found.part).tolist() == [30, 6, 12, 12]
    time = found.rows["event_time"].to_numpy()
    for begin, end in zip(found.first[:-1], found.first[1:], strict=True):
        assert time[begin:end].tolist() == list(range(20))
        assert found.part[begin:end].tolist() == [TRAIN] * 10 + [CHOICE] * 2 + [CALIBRATION] * 4 + [TEST] * 4


def test_the_split_equals_that_of_ingest() -> None:
    table = learners(students=7, rows=23)
    found = sequences_of(table)
    theirs = part_of(pa.table({"user_id": table["user_id"], "clock": table["event_time"]}))
    assert (np.maximum(found.part - 1, 0) == theirs).all()


def test_rows_with_one_timestamp_are_not_split() -> None:
    found = sequences_of(small(event_time=np.tile([*range(10), 10, 10, 10, 10, *range(14, 20)], 3)))
    assert found.part[:20].tolist() == [TRAIN] * 12 + [CHOICE] * 2 + [CALIBRATION] * 2 + [TEST] * 4


def test_skills_and_items_unseen_in_train_share_code_0() -> None:
    items = np.tile(np.r_[np.arange(12), [77] * 8], 3)
    found = sequences_of(small(item_id=items))
    assert (found.item[found.part <= CHOICE] > 0).all()
    assert (found.item[found.part >= CALIBRATION] == 0).all()
    assert found.items == 13


def test_a_log_without_skills_has_a_single_one() -> None:
    assert sequences_of(small().drop_columns(["group_id"])).skills == 2  # and code 0 for unseen ones


def test_times_become_classes_of_gaps_and_order_numbers_do_not() -> None:
    clock = np.tile(np.cumsum([0, 30, 90, *[3600] * 17]) * 1_000_000, 3).astype("datetime64[us]")
    found = sequences_of(small(event_time=clock))
    assert found.gap[:4].tolist() == [0, 1, 2, 6]
    assert not sequences_of(small()).gap.any()


def test_every_row_counts_once_in_both_kinds_of_windows() -> None:
    found = sequences_of(learners(students=5, rows=57))
    wanted = np.flatnonzero(found.part >= CALIBRATION)
    windows = prediction_windows(found, found.spans(CALIBRATION, TEST), 10)
    assert sorted(row for _, end, at in windows for row in range(at, end)) == wanted.tolist()
    assert (windows[:, 1] - windows[:, 0] <= 10).all()
    assert (windows[:, 2] - windows[:, 0] >= 5).all()
    learning = training_windows(found.spans(TRAIN, CHOICE), 10)
    assert (
        sorted(r for at, end, _ in learning for r in range(at, end))
        == np.flatnonzero(found.part <= CHOICE).tolist()
    )
    mixed = np.concatenate(list(batches(learning, 4, np.random.default_rng(0))))
    assert sorted(map(tuple, mixed)) == sorted(map(tuple, learning))


def test_the_digest_changes_with_a_label() -> None:
    table, other = small(), small(label=np.tile([1, 0], 30))
    assert sequences_of(table).digest() == sequences_of(table).digest() != sequences_of(other).digest()


@pytest.mark.parametrize(
    ("table", "kind", "message"),
    [
        (small(user_id=["a"] * 60), InputError, "1 user"),
        (small(label=[1] * 60), OneClassError, "train has only the label 1"),
        (
            small(label=np.tile([0, 1] * 6 + [0, 1] * 2 + [0] * 4, 3)),
            OneClassError,
            "test has only the label 0",
        ),
        (small(label=[2] * 60), InputError, "label"),
        (small().slice(0, 0), InputError, "no rows"),
    ],
    ids=["one user", "one class", "one class in test", "labels that are none", "empty"],
)
def test_an_unsuitable_log_is_refused(table: pa.Table, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        sequences_of(table)


def test_a_file_without_times_is_refused_with_the_option_for_them(tmp_path: Path) -> None:
    pq.write_table(
        small().rename_columns(["user_id", "item_id", "group_id", "when", "label"]), tmp_path / "a.parquet"
    )
    with pytest.raises(InputError, match=r"no column event_time.*--map"):
        read_sequences(tmp_path / "a.parquet")
    assert len(read_sequences(tmp_path / "a.parquet", {"event_time": "when"}).label) == 60


def test_a_user_without_train_rows_does_not_affect_the_others() -> None:
    part = np.array([0, 0, 0, 1, 2, 1, 2, 0, 1, 2], np.int8)
    four = four_parts(np.array([0, 5, 7, 10]), part)
    assert four.tolist() == [
        TRAIN,
        TRAIN,
        CHOICE,
        CALIBRATION,
        TEST,
        CALIBRATION,
        TEST,
        TRAIN,
        CALIBRATION,
        TEST,
    ]


def test_the_files_of_ingest_keep_their_parts(tmp_path: Path) -> None:
    whole = sequences_of(learners(students=6, rows=30))
    part = np.maximum(whole.part - 1, 0)
    for number, name in enumerate(("history", "calibration", "test")):
        pq.write_table(whole.rows.filter(pa.array(part == number)), tmp_path / f"{name}.parquet")
    found = read_sequences(tmp_path)
    assert (found.part == whole.part).all()
    assert found.digest() == whole.digest()
