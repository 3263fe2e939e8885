"""A log in one file or in a folder of parts; readers need not distinguish them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base import parquet
from slc_ops.base.errors import DamagedFile, MissingFile
from slc_ops.base.parquet import (
    digest_log,
    part_name,
    parts_of,
    read_parquet,
    stored_batches,
    stored_schema,
    write_parquet,
)

ROWS = pa.table({"item_id": list("abcdefghij"), "label": [0, 1] * 5})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "log.parquet"
    folder.mkdir()
    for k, first in ((0, 0), (2, 3), (11, 7)):
        last = {0: 3, 3: 7, 7: 10}[first]
        write_parquet(ROWS.slice(first, last - first), folder / part_name(k))
    (folder / ".part-00003.parquet.1a2b.parquet").write_bytes(b"what a killed task left")
    return folder


def test_the_parts_are_read_in_order_as_one_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [part.name[:10] for part in parts_of(folder)] == ["part-00000", "part-00002", "part-00011"]
    assert read_parquet(folder).equals(ROWS)
    assert read_parquet(folder, ["label"]).column_names == ["label"]
    assert stored_schema(folder) == ROWS.schema
    assert pa.Table.from_batches(stored_batches(folder, ["item_id"])).column_names == ["item_id"]
    monkeypatch.setattr(parquet, "SPAN", 2)
    assert [batch.num_rows for batch in stored_batches(folder)] == [2, 1, 2, 2, 2, 1]


def test_the_digest_covers_every_part(folder: Path) -> None:
    before = digest_log(folder)
    assert digest_log(folder) == before
    (folder / part_name(11)).rename(folder / part_name(12))
    renamed = digest_log(folder)
    write_parquet(ROWS.slice(0, 1), folder / part_name(12))
    assert len({before, renamed, digest_log(folder)}) == 3


def test_a_damaged_part_and_an_empty_folder_are_named(folder: Path, tmp_path: Path) -> None:
    (folder / part_name(2)).write_bytes(b"no Parquet")
    with pytest.raises(DamagedFile, match=r"part-00002\.parquet is damaged"):
        read_parquet(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFile, match=r"part-00000\.parquet is missing"):
        read_parquet(tmp_path / "empty")


def test_a_single_file_is_a_log(tmp_path: Path) -> None:
    write_parquet(ROWS, tmp_path / "log.parquet")
    assert parts_of(tmp_path / "log.parquet") == [tmp_path / "log.parquet"]
    assert read_parquet(tmp_path / "log.parquet").equals(pq.read_table(tmp_path / "log.parquet"))
