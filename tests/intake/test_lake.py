"""The Parquet lake: Hive or flat layout, local or in S3."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.intake.sources import open_source
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource
from tests.intake.conftest import WEEK, ids

NOBODY = 65534


def write(path: Path, rows: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)


def test_flat_and_hive_lakes_give_the_same_window(
    tmp_path: Path, rows: pa.Table, later_rows: pa.Table
) -> None:
    write(tmp_path / "hive" / "week=2026-01-05" / "a.parquet", rows)
    write(tmp_path / "hive" / "week=2026-01-12" / "a.parquet", later_rows)
    write(tmp_path / "flat" / "everything.parquet", pa.concat_tables([later_rows, rows]))
    found = [
        extract(Deployment(source=LakeSource(path=name)), WEEK, tmp_path / "windows" / name, home=tmp_path)
        for name in ("hive", "flat")
    ]
    assert found[0].rows == rows.num_rows
    assert found[0].digest == found[1].digest
    assert ids(found[0]) == sorted(rows["event_id"].to_pylist())


def test_hive_keys_become_columns(tmp_path: Path, rows: pa.Table) -> None:
    half = rows.num_rows // 2
    plain = rows.drop_columns(["backbone_version"])
    write(tmp_path / "lake" / "model=v%201" / "a.parquet", plain.slice(0, half))
    write(tmp_path / "lake" / "model=v2" / "a.parquet", plain.slice(half))
    source = LakeSource(path="lake", columns={"backbone_version": "model"})
    manifest = extract(Deployment(source=source), WEEK, tmp_path / "windows", home=tmp_path)
    versions = pq.read_table(manifest.path)["backbone_version"].value_counts().to_pylist()
    assert {entry["values"]: entry["counts"] for entry in versions} == {
        "v 1": half,
        "v2": rows.num_rows - half,
    }


def test_hidden_files_and_the_truth_file_are_ignored(tmp_path: Path, rows: pa.Table) -> None:
    write(tmp_path / "lake" / "week=2026-01-05" / "a.parquet", rows)
    write(tmp_path / "lake" / "week=2026-01-05" / "_tmp.parquet", rows)
    write(tmp_path / "lake" / ".staging" / "b.parquet", rows)
    write(tmp_path / "lake" / "truth.parquet", pa.table({"item_id": ["x"]}))
    manifest = extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "w", home=tmp_path)
    assert manifest.rows == rows.num_rows


def test_with_a_declared_partition_only_its_files_are_opened(tmp_path: Path, rows: pa.Table) -> None:
    write(tmp_path / "lake" / "week=2026-01-05" / "a.parquet", rows)
    broken = tmp_path / "lake" / "week=2026-01-12" / "a.parquet"
    broken.parent.mkdir()
    broken.write_bytes(b"half an upload")
    source = LakeSource(path="lake", partition={"key": "week", "days": 7})
    manifest = extract(Deployment(source=source), WEEK, tmp_path / "w", home=tmp_path)
    assert manifest.rows == rows.num_rows


def test_daily_partitions_make_up_a_week(tmp_path: Path, rows: pa.Table, later_rows: pa.Table) -> None:
    everything = pa.concat_tables([rows, later_rows])
    days = pc.strftime(everything["event_time"], format="%Y-%m-%d")
    for day in pc.unique(days).to_pylist():
        write(tmp_path / "lake" / f"day={day}" / "a.parquet", everything.filter(pc.equal(days, day)))
    source = LakeSource(path="lake", partition={"key": "day"})
    manifest = extract(Deployment(source=source), WEEK, tmp_path / "w", home=tmp_path)
    assert ids(manifest) == sorted(rows["event_id"].to_pylist())


def test_partition_dates_use_the_zone_of_the_window(tmp_path: Path, rows: pa.Table) -> None:
    """In the week of the change to summer time the first hour is on Sunday in UTC."""
    window = Window.parse("2026-03-23/2026-03-30", "Europe/Berlin")
    moved = pc.add(rows["event_time"], pa.scalar(window.start - WEEK.start))
    inside = rows.set_column(1, "event_time", moved).filter(pc.less(moved, pa.scalar(window.end)))
    local = pc.strftime(pc.local_timestamp(pc.cast(moved, pa.timestamp("us", "Europe/Berlin"))), "%Y-%m-%d")
    days = local.filter(pc.less(moved, pa.scalar(window.end)))
    for day in [*days.unique().to_pylist(), "2026-03-22", "2026-03-30"]:
        write(tmp_path / "lake" / f"day={day}" / "a.parquet", inside.filter(pc.equal(days, day)))
    source = LakeSource(path="lake", partition={"key": "day"})
    opened = {Path(part.path).parent.name for part, _ in open_source(source, tmp_path, window).opened}
    assert opened == {f"day={day}" for day in window.dates}
    assert extract(Deployment(source=source), window, tmp_path / "w", home=tmp_path).rows == inside.num_rows


def test_only_ambiguous_times_inside_the_window_are_counted(tmp_path: Path, rows: pa.Table) -> None:
    """Berlin repeats an hour on the last day of this week; the file also has rows of the next week."""
    window = Window.parse("2026-10-19/2026-10-26", "Europe/Berlin")
    times = ["2026-10-25 02:30:00", "2026-10-25 04:00:00", "2026-11-01 02:30:00", "2026-10-25 02:40:00"]
    local = pa.array(times).cast(pa.timestamp("us"))
    write(tmp_path / "lake" / "a.parquet", rows.slice(0, 4).set_column(1, "event_time", local))
    source = LakeSource(path="lake", naive_time_zone="Europe/Berlin")
    for each, counted in ((window, 2), (Window.parse("2026-10-26/2026-11-02", "Europe/Berlin"), 0)):
        manifest = extract(Deployment(source=source), each, tmp_path / "w" / each.key, home=tmp_path)
        assert manifest.notes.get("times_repeated", 0) == counted


def test_a_missing_weight_is_1(tmp_path: Path, rows: pa.Table) -> None:
    """Missing in some rows of a file, and in an entire file of the same window."""
    half = rows.num_rows // 2
    weights = pa.array([None if k % 3 else 2.0 for k in range(half)], pa.float64())
    plain = rows.select([name for name in rows.column_names if name != "weight"])
    write(tmp_path / "lake" / "a.parquet", plain.slice(0, half).append_column("weight", weights))
    write(tmp_path / "lake" / "b.parquet", plain.slice(half))
    manifest = extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "w", home=tmp_path)
    found = pq.read_table(manifest.path)["weight"].to_pylist()
    assert sorted(found) == sorted([*weights.fill_null(1.0).to_pylist(), *[1.0] * (rows.num_rows - half)])


def test_a_partition_without_a_date_is_refused(tmp_path: Path, rows: pa.Table) -> None:
    write(tmp_path / "lake" / "week=first" / "a.parquet", rows)
    source = LakeSource(path="lake", partition={"key": "week"})
    with pytest.raises(InputError, match="no date as partition 'week'"):
        extract(Deployment(source=source), WEEK, tmp_path / "w", home=tmp_path)


def test_a_missing_lake_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere is not a directory"):
        extract(Deployment(source=LakeSource(path="nowhere")), WEEK, tmp_path / "w", home=tmp_path)


def test_a_type_changed_in_another_week_does_not_matter(
    tmp_path: Path, rows: pa.Table, later_rows: pa.Table
) -> None:
    numbered = rows.set_column(2, "user_id", pa.array(range(rows.num_rows)))
    write(tmp_path / "lake" / "old.parquet", numbered)
    write(tmp_path / "lake" / "new.parquet", later_rows)
    deployment = Deployment(source=LakeSource(path="lake"))
    old = extract(deployment, WEEK, tmp_path / "w", home=tmp_path)
    new = extract(deployment, Window.parse("2026-01-12/2026-01-19"), tmp_path / "w", home=tmp_path)
    assert (old.schema["user_id"], new.schema["user_id"]) == ("int64", "string")


def test_an_unreadable_directory_is_refused(tmp_path: Path, rows: pa.Table) -> None:
    write(tmp_path / "lake" / "week=2026-01-05" / "a.parquet", rows)
    (tmp_path / "lake" / "week=2026-01-05").chmod(0)
    root = os.geteuid() == 0  # root may read everything, so switch to another user
    if root:
        os.seteuid(NOBODY)
    try:
        with pytest.raises(InputError, match="cannot be read"):
            list(open_source(LakeSource(path="lake"), tmp_path, WEEK).batches())
    finally:
        if root:
            os.seteuid(0)
        (tmp_path / "lake" / "week=2026-01-05").chmod(0o755)


@pytest.mark.slow
def test_a_lake_on_s3_gives_the_same_window_as_a_local_one(
    tmp_path: Path, rows: pa.Table, later_rows: pa.Table, s3_endpoint: str, bucket: str
) -> None:
    import boto3

    write(tmp_path / "lake" / "week=2026-01-05" / "a.parquet", rows)
    write(tmp_path / "lake" / "week=2026-01-12" / "a.parquet", later_rows)
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1")
    for path in (tmp_path / "lake").rglob("*.parquet"):
        client.upload_file(str(path), bucket, f"lake/{path.relative_to(tmp_path / 'lake')}")
    local = extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "a", home=tmp_path)
    source = LakeSource(path=f"s3://{bucket}/lake", endpoint=s3_endpoint)
    remote = extract(Deployment(source=source), WEEK, tmp_path / "b", home=tmp_path)
    assert remote.digest == local.digest
    assert remote.fingerprint is not None
    shutil.rmtree(tmp_path / "lake")
    assert extract(Deployment(source=source), WEEK, tmp_path / "b", refresh=True) == remote

    by_uri = f"s3://{bucket}/lake?endpoint_override={s3_endpoint.removeprefix('http://')}&scheme=http&region=us-east-1"
    again = extract(Deployment(source=LakeSource(path=by_uri)), WEEK, tmp_path / "c", home=tmp_path)
    assert again.digest == local.digest
    missing = LakeSource(path=f"s3://{bucket}/elsewhere", endpoint=s3_endpoint)
    with pytest.raises(InputError, match="not a directory"):
        extract(Deployment(source=missing), WEEK, tmp_path / "d", home=tmp_path)


@pytest.mark.slow
def test_an_unreachable_store_gives_a_retryable_error(tmp_path: Path, bucket: str, unused_port: int) -> None:
    source = LakeSource(path=f"s3://{bucket}/lake", endpoint=f"http://127.0.0.1:{unused_port}")
    with pytest.raises(SourceUnavailable, match="try again"):
        extract(Deployment(source=source), WEEK, tmp_path / "w", home=tmp_path)
    assert list((tmp_path / "w").glob("*")) == []
