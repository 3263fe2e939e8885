"""Unfair pairs of logs are reported with the column and the extent."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.errors import InputError
from slc_ops.evidence.compare import compare
from slc_ops.evidence.guards import findings
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import TableSource
from tests.methods.synthetic import table

NAMES = {"event_time": "when", "item_id": "pid", "label": "correct", "logit": "score"}


def log(seed: int = 0, later: int = 0, drop: tuple[str, ...] = (), **changed: object) -> InteractionLog:
    rows = table(seed=seed)
    columns = {
        name: rows[name].to_numpy(zero_copy_only=False) for name in rows.column_names if name not in drop
    }
    if "event_time" in columns:
        columns["event_time"] = columns["event_time"] + later
    renamed = {NAMES.get(name, name): values for name, values in (columns | changed).items()}
    rename = {name: theirs for name, theirs in NAMES.items() if theirs in renamed}
    return InteractionLog(TableSource(pa.table(renamed)), rename=rename)


def codes(calibration: InteractionLog, test: InteractionLog, cold: float = 0.0) -> dict[str, str]:
    return {each.code: each.message for each in findings(calibration, test, cold)}


def test_a_fair_pair_has_no_findings() -> None:
    assert codes(log(), log(seed=1, later=1000)) == {}
    without = ("event_time", "user_id")
    assert codes(log(drop=without), log(seed=1, drop=without)) == {}


def test_overlapping_times_are_named_with_their_share() -> None:
    test = log(seed=1, later=250)
    early = np.mean(test.time <= log().time.max())
    found = codes(log(), test)
    assert list(found) == ["overlapping-time"]
    assert found["overlapping-time"].startswith(f"column 'when': {early:.1%} of the test rows")


def test_a_test_log_earlier_than_its_calibration_log_is_named() -> None:
    assert "'when': all 3,000 test rows are earlier" in codes(log(later=1000), log(seed=1))["reversed-time"]


@pytest.mark.parametrize("drop", [(), ("event_time",), ("event_time", "user_id")])
def test_shared_rows_are_found_with_and_without_times_and_users(drop: tuple[str, ...]) -> None:
    found = codes(log(drop=drop), log(drop=drop))
    assert "100.0% of the test rows are calibration rows too" in found["same-rows"]
    assert "'pid', 'correct', 'score'" in found["same-rows"]
    assert ("'when', 'user_id'" in found["same-rows"]) == (not drop)


def test_partially_shared_rows_are_counted() -> None:
    drop = ("event_time",)
    one, other = table(seed=0).drop_columns(drop), table(seed=1).drop_columns(drop)
    mixed = InteractionLog.from_table(pa.concat_tables([other.slice(0, 2700), one.slice(0, 300)]))
    assert "10.0% of the test rows" in codes(InteractionLog.from_table(one), mixed)["same-rows"]


def test_rows_that_are_equal_by_coincidence_are_not_a_leak() -> None:
    drop = ("event_time", "user_id")
    constant = {"logit": np.zeros(3000)}
    assert "same-rows" not in codes(log(drop=drop, **constant), log(seed=1, drop=drop, **constant))


def test_probabilities_mapped_as_logits_are_named_with_their_range() -> None:
    chance = np.linspace(0.02, 0.98, 3000)
    found = codes(log(logit=chance), log(seed=1, later=1000))
    assert (
        "'score' of the calibration rows lies between 0.0200 and 0.9800" in found["probabilities-as-logits"]
    )
    assert "--map probability=score" in found["probabilities-as-logits"]
    assert codes(log(logit=np.zeros(3000)), log(seed=1, later=1000)) == {}


@pytest.mark.parametrize(("low", "high", "named"), [(0, 1, True), (0, 1.5, False), (-0.5, 1, False)])
def test_only_values_from_0_to_1_look_like_probabilities(low: float, high: float, named: bool) -> None:
    found = codes(log(logit=np.linspace(low, high, 3000)), log(seed=1, later=1000))
    assert ("probabilities-as-logits" in found) == named


@pytest.mark.parametrize("row", [0, 1])
def test_a_shared_row_is_found_wherever_it_stands(row: int) -> None:
    columns = {"item_id": ["a", "b"], "label": [0, 1], "logit": [0.3, -0.2]}
    rows = InteractionLog.from_table(pa.table(columns))
    one = InteractionLog.from_table(rows.as_table().slice(row, 1))
    assert "100.0% of the test rows" in codes(rows, one)["same-rows"]


def test_constant_labels_and_disjoint_items_are_named() -> None:
    found = codes(log(), log(seed=1, later=1000, label=np.ones(3000, np.int8)), 1.0)
    assert "'correct': all 3,000 test rows have the label 1" in found["constant-label"]
    assert "'pid': the two logs have no item in common (40 and" in found["no-common-item"]


def test_strict_turns_warnings_into_errors() -> None:
    rows = log()
    found = compare(rows, rows, methods=["slc"])
    assert [each.code for each in found.findings] == ["overlapping-time", "same-rows"]
    assert found.warnings[:2] == tuple(each.message for each in found.findings)
    with pytest.raises(InputError, match=r"not later than.*calibration rows too"):
        compare(rows, rows, methods=["slc"], strict=True)


def test_identical_logs_are_found_even_with_few_distinct_rows() -> None:
    """With few distinct rows most rows of any two logs are equal, but their counts differ."""
    drop = ("event_time", "user_id")
    coarse = {"logit": np.resize([0.0, 1.0], 3000)}
    rows = log(drop=drop, **coarse)
    assert "the same file twice" in codes(rows, rows)["same-rows"]
    shuffled = rows.as_table().take(np.random.default_rng(0).permutation(3000))
    assert "same-rows" in codes(rows, InteractionLog.from_table(shuffled))
    assert "same-rows" not in codes(rows, log(seed=1, drop=drop, **coarse))
    with pytest.raises(InputError, match="the same file twice"):
        compare(rows, rows, methods=["slc"], strict=True)


def test_times_of_one_log_alone_are_not_compared() -> None:
    without = log(seed=1, drop=("event_time",))
    assert not {"overlapping-time", "reversed-time"} & set(codes(log(), without))
    assert not {"overlapping-time", "reversed-time"} & set(codes(without, log()))
