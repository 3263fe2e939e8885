"""Invalid columns, texts, times and files give a one-line error and leave nothing behind."""

import base64
import os
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.base.utf8 import NO_CHARACTER
from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import FilesSource, LakeSource
from tests.intake.conftest import WEEK

SOURCES = [LakeSource(path="lake", epoch_unit="s"), FilesSource(paths=("lake/*.parquet",), epoch_unit="s")]
KINDS = pytest.mark.parametrize("source", SOURCES, ids=["lake", "files"])


def refused(tmp_path: Path, rows: pa.Table, source: LakeSource | FilesSource) -> str:
    """The message that refuses a window of these rows."""
    (tmp_path / "lake").mkdir()
    pq.write_table(rows, tmp_path / "lake" / "part.parquet")
    with pytest.raises(InputError) as reported:
        extract(Deployment(source=source), WEEK, tmp_path / "windows", home=tmp_path)
    assert "\n" not in str(reported.value)
    windows = tmp_path / "windows"
    assert not windows.exists() or not list(windows.iterdir())
    return str(reported.value)


def changed(rows: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(column), column, values)


def not_utf8(rows: pa.Table, column: str) -> pa.Table:
    texts = rows[column].combine_chunks().cast(pa.binary()).to_pylist()
    texts[3] = b"ab\xff\xfe"
    return changed(rows, column, pa.array(texts, pa.binary()).view(pa.string()))


@KINDS
@pytest.mark.parametrize("column", ["item_id", "user_id", "label", "event_time"])
@pytest.mark.parametrize("value", [{"a": 1}, [1]], ids=["struct", "list"])
def test_a_nested_column_is_refused(
    tmp_path: Path, rows: pa.Table, source: LakeSource, column: str, value: object
) -> None:
    message = refused(tmp_path, changed(rows, column, pa.array([value] * rows.num_rows)), source)
    assert message.startswith(f"column {column} is ")


@KINDS
@pytest.mark.parametrize("column", ["item_id", "event_time"])
def test_a_duplicated_column_is_refused(
    tmp_path: Path, rows: pa.Table, source: LakeSource, column: str
) -> None:
    twice = pa.Table.from_arrays([*rows.columns, rows[column]], names=[*rows.schema.names, column])
    assert f"2 columns {column!r}" in refused(tmp_path, twice, source)


@KINDS
@pytest.mark.parametrize("column", ["event_id", "item_id", "user_id", "group_id", "backbone_version"])
def test_invalid_utf8_is_replaced_and_other_rows_are_unchanged(
    tmp_path: Path, rows: pa.Table, source: LakeSource, column: str
) -> None:
    (tmp_path / "lake").mkdir()
    pq.write_table(not_utf8(rows, column), tmp_path / "lake" / "part.parquet")
    found = pq.read_table(extract(Deployment(source=source), WEEK, tmp_path / "w", home=tmp_path).path)
    texts = found[column].to_pylist()
    assert texts[3] == "ab" + 2 * NO_CHARACTER
    assert texts[:3] + texts[4:] == rows[column].to_pylist()[:3] + rows[column].to_pylist()[4:]


@KINDS
def test_times_outside_the_calendar_are_refused(tmp_path: Path, rows: pa.Table, source: LakeSource) -> None:
    times = pa.array([2**62] * rows.num_rows)
    assert "out of bounds" in refused(tmp_path, changed(rows, "event_time", times), source)


class Keys(pe.KmsClient):  # type: ignore[misc]
    """A key service in memory."""

    def __init__(self, _: pe.KmsConnectionConfig) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, master: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, master: str) -> bytes:
        return base64.b64decode(wrapped)


@KINDS
@pytest.mark.parametrize("plain_footer", [True, False])
def test_encrypted_parquet_is_reported_as_encrypted(
    tmp_path: Path, rows: pa.Table, source: LakeSource, plain_footer: bool
) -> None:
    settings = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["label"]}, plaintext_footer=plain_footer
    )
    secret = pe.CryptoFactory(Keys).file_encryption_properties(pe.KmsConnectionConfig(), settings)
    (tmp_path / "lake").mkdir()
    with pq.ParquetWriter(
        tmp_path / "lake" / "part.parquet", rows.schema, encryption_properties=secret
    ) as writer:
        writer.write_table(rows)
    with pytest.raises(InputError, match=r"part\.parquet is encrypted") as reported:
        extract(Deployment(source=source), WEEK, tmp_path / "windows", home=tmp_path)
    assert "\n" not in str(reported.value)


@KINDS
def test_a_jumping_clock_does_not_change_the_window(
    tmp_path: Path, rows: pa.Table, source: LakeSource
) -> None:
    """File times only trigger another read; the rows determine the window."""
    (tmp_path / "lake").mkdir()
    part = tmp_path / "lake" / "part.parquet"
    pq.write_table(rows, part)
    deployment, found = Deployment(source=source), []
    for seconds in (0, 4_102_444_800, 86_400, -86_400):  # 1970, 2100, and backwards before 1970
        os.utime(part, (seconds, seconds))
        found.append(extract(deployment, WEEK, tmp_path / "windows", refresh=True, home=tmp_path))
    assert len({manifest.digest for manifest in found}) == 1
    assert len({manifest.fingerprint for manifest in found}) == 4
    os.utime(part, (0, 0))
    pq.write_table(rows.slice(1), part)
    os.utime(part, (1, 1))  # older than the last read, and still detected
    later = extract(deployment, WEEK, tmp_path / "windows", refresh=True, home=tmp_path)
    assert later.rows == rows.num_rows - 1


def test_a_running_extraction_survives_a_clock_jump_of_a_week(tmp_path: Path, rows: pa.Table) -> None:
    """Its directory seems old, but its file is still being written."""
    (tmp_path / "lake").mkdir()
    pq.write_table(rows, tmp_path / "lake" / "part.parquet")
    running = tmp_path / "windows" / ".2026-01-12.running"
    running.mkdir(parents=True)
    (running / "log.parquet").write_bytes(b"half")
    old = (tmp_path / "lake").stat().st_mtime - timedelta(days=7).total_seconds()
    os.utime(running, (old, old))
    extract(Deployment(source=SOURCES[0]), WEEK, tmp_path / "windows", home=tmp_path)
    assert running.exists()


@pytest.mark.parametrize("text", ["0001-01-01/0001-01-08", "0001-01-08/0001-01-15"])
def test_a_window_at_the_start_of_the_calendar_has_no_history(text: str) -> None:
    with pytest.raises(SettingsError, match="the calendar begins with the year 1"):
        Window.parse(text).before(3)


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00+14:00/0001-01-08", "9999-12-31/9999-12-31T23:00:00-05:00"]
)
def test_a_timestamp_outside_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="outside of the years 1 to 9999"):
        Window.parse(text)
