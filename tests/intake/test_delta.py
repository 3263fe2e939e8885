"""Delta tables, written and changed by the library itself: deleted rows stay deleted."""

import json
import shutil
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import DeltaSource, FilesSource, LakeSource
from tests.intake.conftest import WEEK, ids

NEXT = Window.parse("2026-01-12/2026-01-19")


@pytest.fixture
def table(tmp_path: Path, rows: pa.Table, later_rows: pa.Table) -> Path:
    """Two weeks, a file each."""
    for part in (rows, later_rows):
        write_deltalake(tmp_path / "table", part, mode="append")
    return tmp_path / "table"


def pulled(home: Path, window: Window = WEEK, **settings: Any) -> WindowManifest:
    deployment = Deployment(source=DeltaSource.model_validate({"path": "table", **settings}))
    return extract(deployment, window, home / "windows", home=home, refresh=True)


def by_its_own_engine(table: Path, window: Window = WEEK) -> list[str]:
    """The reference: the rows of the window as the library's own engine reads them."""
    found = pa.table(DeltaTable(table).scan(columns=["event_id", "event_time"]))
    found = found.set_column(0, "event_id", found["event_id"].cast(pa.string()))
    time = found["event_time"]
    inside = pc.and_(pc.greater_equal(time, pa.scalar(window.start)), pc.less(time, pa.scalar(window.end)))
    return sorted(str(each) for each in found.filter(inside)["event_id"].to_pylist())


def test_a_delta_table_is_not_read_as_a_lake(tmp_path: Path, table: Path) -> None:
    """A lake reader would bring deleted rows back."""
    DeltaTable(table).delete("label = 0")
    lake, files = LakeSource(path="table"), FilesSource(paths=("table/*.parquet",))
    for source in (lake, files):
        with pytest.raises(InputError, match=r"a Delta table .* use kind: delta") as refusal:
            extract(Deployment(source=source), WEEK, tmp_path / "w", home=tmp_path)
        assert "\n" not in str(refusal.value)
    assert not (tmp_path / "w").exists()


def test_a_table_below_a_lake_is_detected_too(tmp_path: Path, table: Path) -> None:
    (tmp_path / "lake").mkdir()
    shutil.move(table, tmp_path / "lake" / "week=2026-01-05")
    with pytest.raises(InputError, match="a Delta table"):
        extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "w", home=tmp_path)


def test_a_table_and_a_lake_of_the_same_rows_give_the_same_window(
    tmp_path: Path, table: Path, rows: pa.Table
) -> None:
    (tmp_path / "lake").mkdir()
    pq.write_table(rows, tmp_path / "lake" / "a.parquet")
    lake = extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "lw", home=tmp_path)
    found = pulled(tmp_path)
    assert found.digest == lake.digest
    assert found.source == {"kind": "delta", "path": "table", "version": 1}


def test_deleted_updated_and_compacted_rows_match_the_table(tmp_path: Path, table: Path) -> None:
    first = pulled(tmp_path)
    DeltaTable(table).delete("label = 0")
    gone = pulled(tmp_path)
    assert 0 < gone.rows < first.rows
    assert ids(gone) == by_its_own_engine(table)
    DeltaTable(table).update({"logit": "0.25"}, predicate="label = 1")
    changed = pulled(tmp_path)
    assert set(pq.read_table(changed.path)["logit"].to_pylist()) == {0.25}
    assert len({first.digest, gone.digest, changed.digest}) == 3
    apart = DeltaTable(table).file_uris()
    DeltaTable(table).optimize.z_order(["item_id"])
    DeltaTable(table).create_checkpoint()
    assert DeltaTable(table).file_uris() != apart
    merged = pulled(tmp_path)
    assert merged.digest == changed.digest
    assert merged.fingerprint != changed.fingerprint


def test_a_version_that_does_not_change_the_window_is_not_read(
    tmp_path: Path, table: Path, rows: pa.Table, later_rows: pa.Table
) -> None:
    before = pulled(tmp_path)
    write_deltalake(table, later_rows.slice(0, 5), mode="append")
    DeltaTable(table).alter.add_columns([Field("grade", PrimitiveType("long"))])
    assert pulled(tmp_path) == before
    write_deltalake(table, rows.slice(0, 5).append_column("grade", pa.array([1] * 5)), mode="append")
    after = pulled(tmp_path)
    assert after.rows == before.rows + 5
    assert after.source["version"] == 4


def test_an_added_column_is_null_in_older_files(tmp_path: Path, rows: pa.Table) -> None:
    old, new = rows.drop_columns(["group_id"]).slice(0, 300), rows.slice(300)
    write_deltalake(tmp_path / "table", old)
    write_deltalake(tmp_path / "table", new, mode="append", schema_mode="merge")
    found = pq.read_table(pulled(tmp_path).path)
    assert found["group_id"].null_count == 300
    assert found.num_rows == rows.num_rows


def test_an_added_weight_or_probability_does_not_change_older_rows(tmp_path: Path, rows: pa.Table) -> None:
    old = rows.select([name for name in rows.column_names if name not in ("weight", "probability")])
    scores = 1 / (1 + np.exp(-rows["logit"].to_numpy()))
    place = old.schema.get_field_index("logit")
    new = old.set_column(place, "logit", pa.nulls(len(old), pa.float64()))
    new = new.append_column("probability", pa.array(scores)).append_column(
        "weight", pa.array([2.0] * len(old))
    )
    write_deltalake(tmp_path / "table", old.slice(0, 300))
    write_deltalake(tmp_path / "table", new.slice(300), mode="append", schema_mode="merge")
    found = pq.read_table(pulled(tmp_path).path)
    assert "probability" not in found.column_names
    order = pc.index_in(old["event_id"], found["event_id"].combine_chunks())
    found = found.take(order.combine_chunks())
    assert found["weight"].to_pylist() == [1.0] * 300 + [2.0] * (len(old) - 300)
    np.testing.assert_allclose(found["logit"].to_numpy(), rows["logit"].to_numpy(), atol=1e-9)


def test_partition_values_of_any_type_are_columns(tmp_path: Path, rows: pa.Table) -> None:
    versions = pa.array(["a b%c/é" if k % 2 else None for k in range(rows.num_rows)], pa.string())
    place = rows.schema.get_field_index("backbone_version")
    write_deltalake(
        tmp_path / "table",
        rows.set_column(place, "backbone_version", versions),
        partition_by=["backbone_version"],
    )
    found = pq.read_table(pulled(tmp_path).path)["backbone_version"]
    assert found.null_count == rows.num_rows // 2
    assert set(found.drop_null().to_pylist()) == {"a b%c/é"}


def test_columns_mapped_by_name_are_read_by_their_names(tmp_path: Path, rows: pa.Table) -> None:
    write_deltalake(tmp_path / "table", rows, configuration={"delta.columnMapping.mode": "name"})
    plain = pq.read_schema(next((tmp_path / "table").rglob("*.parquet"))).names
    assert "event_id" not in plain
    assert ids(pulled(tmp_path)) == sorted(rows["event_id"].to_pylist())
    write_deltalake(tmp_path / "by_id", rows, configuration={"delta.columnMapping.mode": "id"})
    with pytest.raises(InputError, match="by id"):
        pulled(tmp_path, path="by_id")


def commit(table: Path, *actions: dict[str, Any]) -> None:
    """Write the next version directly, as another engine would."""
    log = table / "_delta_log"
    number = len(list(log.glob("*.json")))
    text = "\n".join(json.dumps(action) for action in actions)
    (log / f"{number:020}.json").write_text(text + "\n")


def added(table: Path) -> list[dict[str, Any]]:
    """The log entries for the files of the first version."""
    lines = (table / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    return [json.loads(line)["add"] for line in lines if "add" in json.loads(line)]


def deletion_vector(rows: list[int]) -> dict[str, Any]:
    """Row numbers encoded as in the Delta log: a Roaring bitmap in Z85."""
    signs = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<iqI", 1681511377, 1, 0) + bitmap
    padded = data + bytes(-len(data) % 4)
    text = ""
    for (word,) in struct.iter_unpack(">I", padded):
        text += "".join(signs[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return {
        "storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows),
    }  # fmt: skip


def test_deletion_vectors_are_applied(tmp_path: Path, rows: pa.Table) -> None:
    table = tmp_path / "table"
    write_deltalake(table, rows, configuration={"delta.enableDeletionVectors": "true"})
    whole = pulled(tmp_path)
    (file,) = added(table)
    before: dict[str, Any] = {}
    for deleted in ([0, 7, 8, 499], [0, 7, 8, 9, 499]):
        after = {"deletionVector": deletion_vector(deleted)}
        commit(
            table,
            {"remove": {"path": file["path"], "deletionTimestamp": 1, "dataChange": True, **before}},
            {"add": {**file, **after}},
        )
        before = after
        found = pulled(tmp_path)
        assert ids(found) == by_its_own_engine(table)
        assert found.rows == whole.rows - len(deleted)
    written = set(pq.read_table(table / file["path"])["event_id"].take([0, 7, 8, 9, 499]).to_pylist())
    assert not written & set(ids(found))


def test_times_without_a_zone_in_the_file_are_utc_if_the_table_says_so(
    tmp_path: Path, rows: pa.Table
) -> None:
    """Spark writes INT96 by default."""
    table = tmp_path / "table"
    write_deltalake(table, rows)
    whole = pulled(tmp_path)
    (file,) = added(table)
    pq.write_table(rows, table / "old.parquet", use_deprecated_int96_timestamps=True)
    size = (table / "old.parquet").stat().st_size
    commit(
        table,
        {"remove": {"path": file["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**file, "path": "old.parquet", "size": size, "stats": None}},
    )
    assert pulled(tmp_path).digest == whole.digest


def test_an_unsupported_table_feature_is_refused(tmp_path: Path, table: Path) -> None:
    commit(
        table,
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["columnMapping", "collations"],
                "writerFeatures": ["columnMapping", "collations"],
            }
        },
    )
    with pytest.raises(InputError, match="collations") as refusal:
        pulled(tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_past_version_of_a_table_can_be_read(tmp_path: Path, table: Path, rows: pa.Table) -> None:
    whole = pulled(tmp_path)
    known = DeltaTable(table).history()[0]["timestamp"]
    DeltaTable(table).delete("label = 0")
    now = pulled(tmp_path)
    then = pulled(tmp_path, as_of=1)
    assert (then.digest, then.source["version"]) == (whole.digest, 1)
    at = datetime.fromtimestamp(known / 1000, UTC).isoformat()
    assert pulled(tmp_path, as_of=at).digest == whole.digest
    assert pulled(tmp_path, as_of="2100-01-01").digest == now.digest
    assert pulled(tmp_path, as_of="9999d").digest == now.digest
    with pytest.raises(InputError, match="has no version as old as 2020-01-01"):
        pulled(tmp_path, as_of="2020-01-01")
    with pytest.raises(InputError, match="has no version as old as 2026-01-15"):
        pulled(tmp_path, as_of="3d")
    with pytest.raises(InputError, match=r"no version 77 .*newest is 2"):
        pulled(tmp_path, as_of=77)


def test_a_vacuumed_version_is_refused(tmp_path: Path, table: Path) -> None:
    DeltaTable(table).delete("label = 0")
    DeltaTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(InputError, match=r"version 1 of the Delta table table .*vacuumed") as refusal:
        pulled(tmp_path, as_of=1)
    assert "\n" not in str(refusal.value)
    assert list((tmp_path / "windows").iterdir()) == []


def test_a_missing_table_or_column_is_named(tmp_path: Path, table: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in ("nowhere", "empty"):
        with pytest.raises(InputError, match=f"{path} is not a Delta table"):
            pulled(tmp_path, path=path)
    with pytest.raises(InputError, match="table has no column 'at' for event_time; it has: event_id"):
        pulled(tmp_path, columns={"event_time": "at"})
    damaged = sorted(table.glob("*.parquet"))[0]
    damaged.write_bytes(b"half an upload")
    with pytest.raises(InputError, match=damaged.name):
        pulled(tmp_path, WEEK), pulled(tmp_path, NEXT)


@pytest.mark.slow
def test_a_table_on_s3_gives_the_same_window_as_a_local_one(
    tmp_path: Path,
    table: Path,
    rows: pa.Table,
    later_rows: pa.Table,
    s3_endpoint: str,
    bucket: str,
    unused_port: int,
) -> None:
    options = {
        "AWS_ENDPOINT_URL": s3_endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "aws_conditional_put": "etag",
    }  # fmt: skip
    place = f"s3://{bucket}/delta"
    for part in (rows, later_rows):
        write_deltalake(place, part, mode="append", storage_options=options)
    for remote in (DeltaTable(table), DeltaTable(place, storage_options=options)):
        remote.optimize.compact()
        remote.delete("label = 0")
    there = pulled(tmp_path, path=place, endpoint=s3_endpoint)
    assert there.digest == pulled(tmp_path).digest
    assert there.source == {"kind": "delta", "path": place, "version": 3}
    with pytest.raises(SourceUnavailable, match="try again later") as refusal:
        pulled(tmp_path, path=place, endpoint=f"http://127.0.0.1:{unused_port}")
    assert "\n" not in str(refusal.value)
