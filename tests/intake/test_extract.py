"""Extraction: half-open windows, each row once, complete or absent."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError
from slc_ops.base.window import Window
from slc_ops.intake import extract as module
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource
from tests.intake.conftest import WEEK

LAKE = Deployment(source=LakeSource(path="lake"))


@pytest.fixture
def lake(tmp_path: Path, rows: pa.Table) -> Path:
    """A lake of one week in the home ``tmp_path``."""
    path = tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(rows, path)
    return path


def pull(home: Path, deployment: Deployment = LAKE, *, refresh: bool = False) -> WindowManifest:
    return extract(deployment, WEEK, home / "windows", refresh=refresh, home=home)


def test_the_window_is_half_open(tmp_path: Path, lake: Path, rows: pa.Table) -> None:
    timestamps = [
        WEEK.start - timedelta(microseconds=1),
        WEEK.start,
        WEEK.end - timedelta(microseconds=1),
        WEEK.end,
    ]
    edge = rows.slice(0, 4).set_column(1, "event_time", pa.array(timestamps, pa.timestamp("us", "UTC")))
    pq.write_table(edge, lake)
    assert pq.read_table(pull(tmp_path).path)["event_time"].to_pylist() == timestamps[1:3]


def test_neighbouring_windows_share_no_row_and_lose_none(
    tmp_path: Path, lake: Path, rows: pa.Table, later_rows: pa.Table
) -> None:
    pq.write_table(pa.concat_tables([rows, later_rows]), lake)
    windows = [WEEK, Window(WEEK.end, WEEK.end + timedelta(days=7))]
    found = [extract(LAKE, window, tmp_path / "windows", home=tmp_path) for window in windows]
    ids = [set(pq.read_table(each.path)["event_id"].to_pylist()) for each in found]
    assert not ids[0] & ids[1]
    assert len(ids[0] | ids[1]) == rows.num_rows + later_rows.num_rows


def test_the_manifest_describes_the_pulled_rows(tmp_path: Path, lake: Path, rows: pa.Table) -> None:
    manifest = pull(tmp_path)
    assert manifest.path == tmp_path / "windows" / "2026-01-05" / "log.parquet"
    assert manifest.rows == rows.num_rows == pq.read_metadata(manifest.path).num_rows
    assert manifest.window == WEEK
    assert manifest.schema["event_time"] == "timestamp[us, tz=UTC]"
    assert manifest.source == {"kind": "lake", "path": "lake"}
    assert WindowManifest.read(manifest.directory) == manifest


def test_a_second_extraction_reads_only_the_manifest(tmp_path: Path, lake: Path) -> None:
    first = pull(tmp_path)
    lake.unlink()
    lake.parent.rmdir()
    assert pull(tmp_path) == first


def test_an_unchanged_source_is_not_read_again(tmp_path: Path, lake: Path) -> None:
    first = pull(tmp_path)
    stat = lake.stat()
    lake.write_bytes(b"\0" * stat.st_size)  # unreadable now, but with the same size and time
    os.utime(lake, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert pull(tmp_path, refresh=True) == first


def test_a_rearranged_lake_gives_the_same_window(tmp_path: Path, lake: Path, rows: pa.Table) -> None:
    first = pull(tmp_path)
    (first.directory / "validation.json").write_text("{}")
    lake.unlink()
    pq.write_table(rows.slice(200), lake.parent / "x.parquet", row_group_size=37)
    pq.write_table(rows.slice(0, 200), lake.parent / "y.parquet")
    again = pull(tmp_path, refresh=True)
    assert again.digest == first.digest
    assert again.fingerprint != first.fingerprint
    assert (first.directory / "validation.json").exists()


def test_late_rows_change_the_window_and_discard_cached_results(
    tmp_path: Path, lake: Path, rows: pa.Table
) -> None:
    pq.write_table(rows.slice(1), lake)
    first = pull(tmp_path)
    (first.directory / "validation.json").write_text("{}")
    pq.write_table(rows.slice(0, 1), lake.parent / "late.parquet")
    assert pull(tmp_path) == first
    again = pull(tmp_path, refresh=True)
    assert (again.rows, again.digest != first.digest) == (first.rows + 1, True)
    assert not (again.directory / "validation.json").exists()


def test_a_source_with_changed_settings_is_read_again(tmp_path: Path, lake: Path, rows: pa.Table) -> None:
    first = pull(tmp_path)
    pq.write_table(rows.append_column("p2", pa.array([0.5] * rows.num_rows)), lake)
    renamed = Deployment(source=LakeSource(path="lake", columns={"logit": "p2"}))
    again = pull(tmp_path, renamed)
    assert again.digest != first.digest
    assert set(pq.read_table(again.path)["logit"].to_pylist()) == {0.5}


def test_an_error_keeps_the_old_window_and_leaves_no_temporary_file(tmp_path: Path, lake: Path) -> None:
    first = pull(tmp_path)
    lake.write_bytes(b"half an upload")
    with pytest.raises(InputError, match=r"a\.parquet cannot be read"):
        pull(tmp_path, refresh=True)
    assert [path.name for path in (tmp_path / "windows").glob("*[0-9]*")] == ["2026-01-05"]
    assert pull(tmp_path) == first


def test_columns_are_renamed_to_the_names_of_the_contract(tmp_path: Path, lake: Path, rows: pa.Table) -> None:
    own = ["uid", "at", "pupil", "exercise", "right", "score", "skill", "model"]
    pq.write_table(rows.rename_columns(own), lake)
    columns = dict(zip(rows.schema.names, own, strict=True))
    renamed = pull(tmp_path, Deployment(source=LakeSource(path="lake", columns=columns)))
    pq.write_table(rows, lake)
    assert renamed.digest == extract(LAKE, WEEK, tmp_path / "plain", home=tmp_path).digest


def test_columns_outside_the_contract_are_dropped(tmp_path: Path, lake: Path, rows: pa.Table) -> None:
    pq.write_table(rows.append_column("name_of_pupil", pa.array(["A. B."] * rows.num_rows)), lake)
    assert "name_of_pupil" not in pull(tmp_path).schema


def test_rows_without_a_time_are_counted(tmp_path: Path, lake: Path, rows: pa.Table) -> None:
    timestamps = [None, None, *rows["event_time"].to_pylist()[2:]]
    pq.write_table(rows.set_column(1, "event_time", pa.array(timestamps, pa.timestamp("us", "UTC"))), lake)
    manifest = pull(tmp_path)
    assert (manifest.rows, manifest.notes["rows_without_time"]) == (rows.num_rows - 2, 2)


def test_many_rows_are_written_as_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"kind": "simulator", "platform": {"rows_per_week": 200_000, "users": 50, "items": 20}}
    monkeypatch.setattr("slc_ops.intake.writing.ROW_GROUP", 1 << 16)
    manifest = extract(Deployment.model_validate({"source": source}), WEEK, tmp_path, home=tmp_path)
    metadata = pq.read_metadata(manifest.path)
    assert [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)] == [65536] * 3 + [3392]


def test_the_simulator_can_generate_any_week(tmp_path: Path, rows: pa.Table) -> None:
    platform = {"users": 50, "items": 20, "rows_per_week": 500}
    simulated = Deployment.model_validate({"source": {"kind": "simulator", "platform": platform}})
    manifest = extract(simulated, WEEK, tmp_path, home=tmp_path)
    assert pq.read_table(manifest.path)["event_id"].equals(rows["event_id"])
    before = extract(simulated, WEEK.before(1)[0], tmp_path, home=tmp_path)
    assert before.rows == 0


def test_a_damaged_manifest_gives_an_error_with_a_remedy(tmp_path: Path, lake: Path) -> None:
    path = pull(tmp_path).directory / "manifest.json"
    whole = json.loads(path.read_text())
    for text, words in (
        ("{", "is damaged"),
        (json.dumps({**whole, "schema_version": 99}), "schema version 99"),
        (json.dumps({"schema_version": whole["schema_version"]}), "is damaged .*rows: Field required"),
        ("[]", "is damaged"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=words) as refusal:
            pull(tmp_path)
        assert f"remove {path.parent}" in str(refusal.value)


def test_concurrent_extractions_give_one_window(tmp_path: Path, lake: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: pull(tmp_path), range(16)))
    assert len({manifest.digest for manifest in found}) == 1
    assert [path.name for path in (tmp_path / "windows").glob("*[0-9]*")] == ["2026-01-05"]


def test_leftovers_of_a_killed_extraction_are_removed(tmp_path: Path, lake: Path) -> None:
    old, fresh = (tmp_path / "windows" / name for name in (".2026-01-05.old", ".2026-01-05.running"))
    for path in (old, fresh):
        path.mkdir(parents=True)
        (path / "log.parquet").write_bytes(b"half")
    for path in (old / "log.parquet", old):
        os.utime(path, (0, 0))
    pull(tmp_path)
    assert (old.exists(), fresh.exists()) == (False, True)


def test_a_running_extraction_is_not_removed_if_the_clock_jumps(
    tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another extraction of the deployment starts meanwhile, two days later by its clock."""
    windows = tmp_path / "windows"
    waiting = module.pull
    survivors = []

    def slow(*arguments: object) -> WindowManifest:
        with monkeypatch.context() as clock:
            now = time.time()
            clock.setattr(module.time, "time", lambda: now + 48 * 3600)
            module.sweep(windows)
        survivors.extend(path for path in windows.glob(".*") if path.is_dir())
        return waiting(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "pull", slow)
    assert pull(tmp_path).path.exists()
    assert len(survivors) == 1
    assert not any(path.is_dir() for path in windows.glob(".*"))
