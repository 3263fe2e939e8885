"""A changed window needs one listing and one footer read per file, counted at the filesystem."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from slc_ops.intake.extract import extract
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import FilesSource, LakeSource
from tests.intake.conftest import WEEK

FOOTER = 8  # a Parquet reader starts with the last bytes


class Watched:
    """Count how often the footer of a file is read."""

    def __init__(self, path: str, seen: Counter[str]) -> None:
        self._stream, self._seen, self._path = open(path, "rb"), seen, path  # noqa: SIM115
        self._size = Path(path).stat().st_size
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        first = self._stream.tell()
        data = self._stream.read(count)
        if first < self._size - FOOTER <= first + len(data) - FOOTER or first == self._size - FOOTER:
            self._seen[f"footer {Path(self._path).name}"] += 1
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Watching(pafs.FileSystemHandler):  # type: ignore[misc]
    """The local filesystem, counting calls."""

    def __init__(self) -> None:
        self.local, self.seen = pafs.LocalFileSystem(), Counter[str]()

    def get_type_name(self) -> str:
        return "watched"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        found: list[pafs.FileInfo] = self.local.get_file_info(paths)
        return found

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        self.seen["listing"] += 1
        found: list[pafs.FileInfo] = self.local.get_file_info(selector)
        return found

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(Watched(path, self.seen), mode="r")

    open_input_stream = open_input_file

    def _never(self, *_: Any) -> None:
        raise AssertionError("extraction writes nothing into a lake")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = move = _never
    copy_file = open_output_stream = open_append_stream = _never


@pytest.fixture
def lake(tmp_path: Path, rows: pa.Table) -> Path:
    for k in range(3):
        path = tmp_path / "lake" / f"part-{k}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows.slice(k * 150, 150), path, row_group_size=50)
    return tmp_path / "lake"


def test_a_lake_is_listed_once_and_each_footer_is_read_once(
    tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Watching()
    monkeypatch.setattr(
        "slc_ops.intake.sources.lake.locate", lambda source, home: (pafs.PyFileSystem(handler), str(lake))
    )
    deployment = Deployment(source=LakeSource(path="lake"))
    assert extract(deployment, WEEK, tmp_path / "windows", refresh=True).rows == 450
    assert handler.seen == {"listing": 1, **{f"footer part-{k}.parquet": 1 for k in range(3)}}
    handler.seen.clear()
    extract(deployment, WEEK, tmp_path / "windows", refresh=True)
    assert handler.seen == {"listing": 1}  # nothing changed, so nothing is opened


def test_the_footers_of_named_parquet_files_are_read_once(
    tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()
    real = {"footer": pq.read_metadata, "file": pq.ParquetFile}

    def footer(path: Path) -> pq.FileMetaData:
        seen[f"footer {path.name}"] += 1
        return real["footer"](path)

    def file(path: Path, metadata: pq.FileMetaData | None = None, **options: Any) -> pq.ParquetFile:
        seen[f"footer {Path(path).name}"] += metadata is None
        return real["file"](path, metadata=metadata, **options)

    monkeypatch.setattr(pq, "read_metadata", footer)
    monkeypatch.setattr(pq, "ParquetFile", file)
    deployment = Deployment(source=FilesSource(paths=("lake/*.parquet",)))
    assert extract(deployment, WEEK, tmp_path / "windows", home=tmp_path).rows == 450
    assert seen == {f"footer part-{k}.parquet": 1 for k in range(3)}
