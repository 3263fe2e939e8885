"""Iceberg tables in a SQLite catalogue, written and changed by pyiceberg itself."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import LongType
from pyiceberg.utils.config import Config

from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import IcebergSource, LakeSource
from tests.intake.conftest import WEEK, ids
from tests.intake.rest_catalogue import TOKEN, rest_catalogue

PROPERTIES = {"type": "sql", "uri": "sqlite:///catalogue.db"}


def catalogue(home: Path, **properties: str) -> SqlCatalog:
    return SqlCatalog(
        "default",
        uri=f"sqlite:///{home}/catalogue.db",
        **{"warehouse": f"file://{home}/tables", **properties},
    )


@pytest.fixture
def table(tmp_path: Path, rows: pa.Table, later_rows: pa.Table) -> Table:
    """Two weeks, a file each."""
    found = catalogue(tmp_path)
    found.create_namespace("logs")
    made = found.create_table("logs.answers", schema=rows.schema)
    made.append(rows)
    made.append(later_rows)
    return made


def pulled(home: Path, window: Window = WEEK, **settings: Any) -> WindowManifest:
    source = IcebergSource.model_validate({"table": "logs.answers", "properties": PROPERTIES, **settings})
    return extract(Deployment(source=source), window, home / "windows", home=home, refresh=True)


def test_an_iceberg_table_is_not_read_as_a_lake(tmp_path: Path, table: Table) -> None:
    table.delete(EqualTo("label", 0))
    with pytest.raises(InputError, match=r"an Iceberg table .* use kind: iceberg") as refusal:
        extract(Deployment(source=LakeSource(path="tables")), WEEK, tmp_path / "w", home=tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_table_and_a_lake_of_the_same_rows_give_the_same_window(
    tmp_path: Path, table: Table, rows: pa.Table
) -> None:
    (tmp_path / "lake").mkdir()
    pq.write_table(rows, tmp_path / "lake" / "a.parquet")
    lake = extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "lw", home=tmp_path)
    found = pulled(tmp_path)
    assert found.digest == lake.digest
    assert found.source["snapshot"] == table.current_snapshot().snapshot_id


def test_deleted_and_updated_rows_match_the_table(tmp_path: Path, table: Table, rows: pa.Table) -> None:
    first = pulled(tmp_path)
    table.delete(EqualTo("label", 0))
    gone = pulled(tmp_path)
    right = rows.filter(pa.compute.equal(rows["label"], 1))
    assert ids(gone) == sorted(right["event_id"].to_pylist())
    place = rows.schema.get_field_index("logit")
    table.overwrite(right.set_column(place, "logit", pa.array([0.25] * len(right))), EqualTo("label", 1))
    changed = pulled(tmp_path)
    assert set(pq.read_table(changed.path)["logit"].to_pylist()) == {0.25}
    assert ids(changed) == ids(gone)
    assert len({first.digest, gone.digest, changed.digest}) == 3


class DeletesWriter(ManifestWriterV2):
    """pyiceberg writes no manifests of delete files; those of other engines differ in two words."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete(
    table: Table, content: DataFileContent, deletes: pa.Table, monkeypatch: pytest.MonkeyPatch, ids: list[int]
) -> None:
    """Commit a delete file as specified, in its own snapshot."""
    path = Path(table.location().removeprefix("file://")) / "data" / "deletes.parquet"
    fields = [
        field.with_metadata({"PARQUET:field_id": str(number)})
        for field, number in zip(deletes.schema, ids, strict=True)
    ]
    pq.write_table(deletes.cast(pa.schema(fields)), path)
    file = DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=deletes.num_rows,
        file_size_in_bytes=path.stat().st_size,
        equality_ids=ids if content == DataFileContent.EQUALITY_DELETES else None,
    )
    file.spec_id = table.spec().spec_id
    monkeypatch.setattr(
        "pyiceberg.table.update.snapshot.write_manifest",
        lambda format_version, **words: DeletesWriter(**words),
    )
    with table.transaction() as change, change.update_snapshot().fast_append() as update:
        update.append_data_file(file)


def test_rows_deleted_by_their_position_stay_deleted(
    tmp_path: Path, table: Table, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pulled(tmp_path)
    first = min(task.file.file_path for task in table.scan(EqualTo("event_id", ids(before)[0])).plan_files())
    numbers = [0, 7, 499]
    positions = pa.table({"file_path": [first] * 3, "pos": numbers})
    delete(table, DataFileContent.POSITION_DELETES, positions, monkeypatch, [2147483546, 2147483545])
    gone = pq.read_table(first.removeprefix("file://"))["event_id"].take(numbers).to_pylist()
    assert sorted([*ids(pulled(tmp_path)), *gone]) == sorted(rows["event_id"].to_pylist())


def test_unsupported_deletes_are_refused(
    tmp_path: Path, table: Table, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = rows.select(["event_id"]).slice(0, 3)
    delete(table, DataFileContent.EQUALITY_DELETES, gone, monkeypatch, [1])
    with pytest.raises(InputError, match="equality deletes") as refusal:
        pulled(tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_snapshot_that_does_not_change_the_window_is_not_read(
    tmp_path: Path, table: Table, rows: pa.Table, later_rows: pa.Table
) -> None:
    before = pulled(tmp_path)
    table.append(later_rows.slice(0, 5))
    assert pulled(tmp_path) == before
    table.append(rows.slice(0, 5))
    assert pulled(tmp_path).rows == before.rows + 5


def test_columns_may_be_added_and_renamed(tmp_path: Path, table: Table, rows: pa.Table) -> None:
    before = pulled(tmp_path)
    with table.update_schema() as update:
        update.add_column("grade", LongType())
        update.rename_column("logit", "score")
    after = pulled(tmp_path, columns={"logit": "score"})
    assert after.digest == before.digest
    assert "logit" not in pulled(tmp_path).schema
    known = table.current_snapshot().snapshot_id
    table.append(rows.slice(0, 5).rename_columns([{"logit": "score"}.get(n, n) for n in rows.schema.names]))
    assert pulled(tmp_path, columns={"logit": "score"}).rows == before.rows + 5
    then = pulled(tmp_path, as_of=known)  # with the column names of that snapshot
    assert then.digest == before.digest


def test_a_past_version_of_a_table_can_be_read(tmp_path: Path, table: Table) -> None:
    whole = pulled(tmp_path)
    known = table.current_snapshot()
    table.delete(EqualTo("label", 0))
    now = pulled(tmp_path)
    assert pulled(tmp_path, as_of=known.snapshot_id).digest == whole.digest
    at = datetime.fromtimestamp(known.timestamp_ms / 1000, UTC).isoformat()
    assert pulled(tmp_path, as_of=at).digest == whole.digest
    assert pulled(tmp_path, as_of="2100-01-01").digest == now.digest
    assert pulled(tmp_path, as_of="9999d").digest == now.digest
    for unknown in ("2020-01-01", 77, "3d"):
        with pytest.raises(InputError, match="has no snapshot"):
            pulled(tmp_path, as_of=unknown)


def test_an_expired_snapshot_and_a_missing_file_are_refused(tmp_path: Path, table: Table) -> None:
    known = table.current_snapshot().snapshot_id
    table.delete(EqualTo("label", 0))
    table.maintenance.expire_snapshots().by_id(known).commit()
    with pytest.raises(InputError, match=f"no snapshot {known}"):
        pulled(tmp_path, as_of=known)
    shutil.rmtree(tmp_path / "tables" / "logs" / "answers" / "data")
    with pytest.raises(InputError, match="is gone") as refusal:
        pulled(tmp_path)
    assert "\n" not in str(refusal.value)
    assert list((tmp_path / "windows").iterdir()) == []


def test_an_unreachable_catalogue_gives_a_retryable_error(tmp_path: Path, unused_port: int) -> None:
    rest = {"type": "rest", "uri": f"http://127.0.0.1:{unused_port}"}
    for properties in (rest, {"type": "sql", "uri": "sqlite:///nowhere.db"}):
        with pytest.raises(SourceUnavailable) as refusal:
            pulled(tmp_path, properties=properties)
        assert "\n" not in str(refusal.value)
    assert not (tmp_path / "nowhere.db").exists()


def test_a_compacted_table_gives_the_same_window_and_does_not_replace_it(
    tmp_path: Path, table: Table, rows: pa.Table, later_rows: pa.Table
) -> None:
    table.append(rows.slice(0, 5))
    table.delete(EqualTo("label", 0))
    before = pulled(tmp_path)
    written = before.path.stat().st_mtime_ns
    table.overwrite(table.scan().to_arrow().sort_by("user_id"))  # all rows in one file, in another order
    assert len(list(table.scan().plan_files())) == 1
    after = pulled(tmp_path)
    assert (after.digest, after.rows) == (before.digest, before.rows)
    assert after.fingerprint != before.fingerprint
    assert after.path.stat().st_mtime_ns == written


def said(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    """A token in the environment; the library reads it when it is imported."""
    monkeypatch.setenv("PYICEBERG_CATALOG__TEAM__TOKEN", token)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())


def test_a_rest_catalogue_gives_the_windows_of_its_tables(
    tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.delete(EqualTo("label", 0))
    said(monkeypatch, TOKEN)
    with rest_catalogue(catalogue(tmp_path)) as address:
        named = {"catalog": "team", "properties": {"type": "rest", "uri": address}}
        found = pulled(tmp_path, **named)
        assert found.digest == pulled(tmp_path).digest
        assert TOKEN not in str(found.source)
        with pytest.raises(InputError, match=r"no table logs\.questions"):
            pulled(tmp_path, table="logs.questions", **named)
        said(monkeypatch, "wrong")
        with pytest.raises(InputError, match="who are you") as refusal:
            pulled(tmp_path, **named)
        assert "\n" not in str(refusal.value)
    with pytest.raises(SourceUnavailable, match="the catalogue team cannot be reached") as refusal:
        pulled(tmp_path, **named)
    assert "\n" not in str(refusal.value)


def test_a_missing_table_or_column_is_named(tmp_path: Path, table: Table) -> None:
    for name in ("logs.questions", "nowhere.answers"):
        with pytest.raises(InputError, match=f"no table {name}"):
            pulled(tmp_path, table=name)
    with pytest.raises(
        InputError, match=r"logs\.answers has no column 'at' for event_time; it has: event_id"
    ):
        pulled(tmp_path, columns={"event_time": "at"})
    with pytest.raises(InputError, match="cannot be read"):
        pulled(tmp_path, table="answers")


def test_a_table_without_rows_gives_an_empty_window(tmp_path: Path, table: Table, rows: pa.Table) -> None:
    catalogue(tmp_path).create_table("logs.empty", schema=rows.schema)
    found = pulled(tmp_path, table="logs.empty")
    assert (found.rows, found.source["snapshot"]) == (0, None)


@pytest.mark.parametrize(
    "properties", [{"s3.secret-access-key": "x"}, {"token": "x"}, {"uri": "postgresql://me:pw@host/db"}]
)
def test_secrets_in_the_deployments_file_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="holds credentials"):
        IcebergSource(table="logs.answers", properties=properties)


@pytest.mark.slow
def test_a_table_on_s3_gives_the_same_window_as_a_local_one(
    tmp_path: Path, table: Table, rows: pa.Table, s3_endpoint: str, bucket: str
) -> None:
    store = {"s3.endpoint": s3_endpoint, "s3.region": "us-east-1"}
    there = catalogue(tmp_path, warehouse=f"s3://{bucket}/iceberg", **store)
    remote = there.create_table("logs.remote", schema=rows.schema)
    remote.append(rows)
    for each in (table, remote):
        each.delete(EqualTo("label", 0))
    found = pulled(tmp_path, table="logs.remote", properties={**PROPERTIES, **store})
    assert found.digest == pulled(tmp_path).digest
