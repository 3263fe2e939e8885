"""Labels that arrive late, from another source, twice, too early, or with another value."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slc_ops.base.errors import InputError, SlcError
from slc_ops.demo.simulate import simulate
from slc_ops.intake.extract import extract
from slc_ops.intake.labels import Labels, changed_labels, label_span
from slc_ops.intake.manifest import WindowManifest
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource
from tests.intake.conftest import WEEK

PLATFORM = {"users": 60, "items": 20, "rows_per_week": 900, "seed": 3}


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two weeks in one lake, and the same as predictions plus labels up to three days later."""
    home = tmp_path_factory.mktemp("lakes")
    simulate(home / "whole", weeks=2, **PLATFORM)
    simulate(home / "parts", weeks=2, label_delay="3d", **PLATFORM)
    return home


def deployment(**changes: Any) -> Deployment:
    entry = {
        "source": {"kind": "lake", "path": "parts/predictions"},
        "labels": {"kind": "lake", "path": "parts/labels"},
        "label_lag": "3d",
        **changes,
    }
    return Deployment.model_validate(entry)


def pull(home: Path, into: Path, settings: Deployment, *, refresh: bool = False) -> WindowManifest:
    return extract(settings, WEEK, into / "windows", refresh=refresh, home=home)


def copied(lakes: Path, home: Path) -> list[Path]:
    """A private copy and its label files, oldest first."""
    import shutil

    shutil.copytree(lakes / "parts", home / "parts")
    return sorted((home / "parts" / "labels").rglob("*.parquet"))


def rewrite(path: Path, change: Any) -> None:
    pq.write_table(change(pq.read_table(path, partitioning=None)), path)


def test_late_labels_from_another_source_give_the_window_of_an_undelayed_log(
    lakes: Path, tmp_path: Path
) -> None:
    whole = pull(lakes, tmp_path / "a", Deployment(source=LakeSource(path="whole")))
    joined = pull(lakes, tmp_path / "b", deployment())

    assert joined.digest == whole.digest
    assert joined.path.read_bytes() == whole.path.read_bytes()
    assert joined.notes["rows_without_label"] == joined.notes["labels_unmatched"] == 0
    assert joined.notes["labels_expected"] > 0


def test_rows_without_a_label_are_counted_and_added_by_a_later_extraction(
    lakes: Path, tmp_path: Path
) -> None:
    *_, last = [path for path in copied(lakes, tmp_path) if path.name == "part-0.parquet"]
    held_back = last.read_bytes()
    last.unlink()
    first = pull(tmp_path, tmp_path, deployment())
    assert 0 < first.notes["rows_without_label"] == 900 - first.rows

    last.write_bytes(held_back)
    again = pull(tmp_path, tmp_path, deployment(), refresh=True)
    assert (again.rows, again.notes["rows_without_label"]) == (900, 0)
    assert again.digest == pull(lakes, tmp_path / "whole", Deployment(source=LakeSource(path="whole"))).digest


def test_rows_without_a_label_in_a_single_source_wait_only_with_a_label_lag(tmp_path: Path) -> None:
    simulate(tmp_path / "lake", weeks=1, **PLATFORM)
    (part,) = (tmp_path / "lake").rglob("part-0.parquet")
    last = pa.array(np.arange(900) >= 800)

    def forget(rows: pa.Table) -> pa.Table:
        label = pc.if_else(last, pa.scalar(None, pa.int8()), rows["label"])
        return rows.set_column(rows.schema.get_field_index("label"), "label", label)

    rewrite(part, forget)
    source = LakeSource(path="lake")
    assert pull(tmp_path, tmp_path / "a", Deployment(source=source)).rows == 900
    waited = pull(tmp_path, tmp_path / "b", Deployment(source=source, label_lag="1d"))  # type: ignore[arg-type]
    assert (waited.rows, waited.notes["rows_without_label"]) == (800, 100)


def test_the_newest_label_counts_and_contradictory_labels_are_dropped() -> None:
    found = Labels(
        pa.chunked_array([["a", "b", "a", "c"], ["c", "b", "d"]]),
        pa.chunked_array([[0, 1, 1, 0], [1, 1, 0]]),
        np.array([5, 5, 9, 7, 7, 2, 1]),
    )
    place = found.find(pa.array(["d", "c", "x", None, "a", "b"]))
    values = [None if at < 0 else found.values[int(at)].as_py() for at in place]
    assert values == [0, None, None, None, 1, 1]
    assert found.read - len(found.ids) == 3
    assert int(found.contradictory.sum()) == 1


@given(
    st.lists(st.tuples(st.text("ab", max_size=3), st.integers(0, 1), st.integers(0, 3)), max_size=30),
    st.lists(st.text("ab", max_size=4), max_size=10),
)
def test_labels_equal_those_of_a_naive_search(rows: list[tuple[str, int, int]], wanted: list[str]) -> None:
    ids, values, times = ([row[k] for row in rows] for k in range(3))
    found = Labels(
        pa.chunked_array([pa.array(ids, pa.string())]),
        pa.chunked_array([pa.array(values, pa.int64())]),
        np.array(times, np.int64),
    )
    place = found.find(pa.array(wanted, pa.string()))
    for name, at in zip(wanted, place, strict=True):
        mine = [(when, value) for each, value, when in rows if each == name]
        newest = {value for when, value in mine if when == max(mine)[0]}
        expected = newest.pop() if len(newest) == 1 else None
        assert (None if at < 0 else found.values[int(at)].as_py()) == expected


def test_a_label_earlier_than_its_event_is_ignored(lakes: Path, tmp_path: Path) -> None:
    first, *_ = copied(lakes, tmp_path)

    def early(rows: pa.Table) -> pa.Table:
        times = rows["event_time"].cast(pa.int64()).to_numpy().copy()
        times[-50:] = int(WEEK.start.timestamp()) * 1_000_000
        column = pa.array(times).cast(pa.timestamp("us", "UTC"))
        return rows.set_column(rows.schema.get_field_index("event_time"), "event_time", column)

    rewrite(first, early)
    found = pull(tmp_path, tmp_path, deployment())
    assert found.notes["labels_early"] == found.notes["rows_without_label"] == 50


def test_a_changed_label_is_reported_until_the_window_changes_again(lakes: Path, tmp_path: Path) -> None:
    path, *_ = copied(lakes, tmp_path)
    before = pull(tmp_path, tmp_path, deployment())

    def turned(rows: pa.Table) -> pa.Table:
        labels = rows["label"].to_numpy().copy()
        labels[:7] = 1 - labels[:7]
        return rows.set_column(rows.schema.get_field_index("label"), "label", pa.array(labels))

    rewrite(path, turned)
    after = pull(tmp_path, tmp_path, deployment(), refresh=True)
    assert after.digest != before.digest
    assert after.notes["labels_changed"] == 7
    assert changed_labels(after.path, after.path) == 0
    path.touch()
    assert pull(tmp_path, tmp_path, deployment(), refresh=True).notes["labels_changed"] == 7


def test_labels_may_arrive_until_the_last_extraction_of_their_window() -> None:
    span = label_span(deployment(lookback_windows=2), WEEK)
    assert (span.start, span.end) == (WEEK.start, WEEK.end + timedelta(days=17))


def test_missing_labels_give_one_line_and_no_window(lakes: Path, tmp_path: Path) -> None:
    nowhere = deployment(labels={"kind": "lake", "path": "nowhere"})
    with pytest.raises(SlcError, match="nowhere") as refusal:
        pull(lakes, tmp_path, nowhere)
    assert "\n" not in str(refusal.value)
    other = deployment(labels={"kind": "lake", "path": "parts/labels", "columns": {"label": "outcome"}})
    with pytest.raises(InputError, match="the source of labels has no column 'outcome' for label"):
        pull(lakes, tmp_path, other)
    assert not list((tmp_path / "windows").glob("2*"))
