"""CSV, Feather and Parquet files: exports, hand-overs, backfills."""

import glob
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from slc_ops.base.errors import InputError
from slc_ops.base.files import digest_json
from slc_ops.intake.contract import NUMBERS
from slc_ops.intake.sources.locations import reading
from slc_ops.settings.sources import FilesSource

BATCH_ROWS = 1 << 16


class Files:
    """All rows of the named files; extraction chooses those of the window."""

    claims = False

    def __init__(self, source: FilesSource, home: Path) -> None:
        self.source = source
        self.home = home
        self._footers: dict[Path, pq.FileMetaData] = {}

    def describe(self) -> dict[str, Any]:
        """Where the rows come from."""
        return {"kind": "files", "paths": list(self.source.paths)}

    def fingerprint(self) -> str | None:
        """Paths, sizes and times of change; times are compared for being equal, never with a clock."""
        seen = [(path, path.stat()) for path in self.files]
        return digest_json([[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in seen])

    @cached_property
    def files(self) -> list[Path]:
        """The files that the patterns name, each once."""
        found: set[Path] = set()
        for pattern in self.source.paths:
            matches = glob.glob(str(self.home / pattern), recursive=True)
            if not matches:
                raise InputError(
                    f"no file matches {self.home / pattern}; check paths in the deployments file"
                )
            found |= {Path(match) for match in matches}
        return sorted(found)

    def schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """Each file's columns."""
        for path in self.files:
            with reading(str(path), LOCAL):
                if path.suffix == ".parquet":
                    self._footers[path] = pq.read_metadata(path)
                    yield str(path), self._footers[path].schema.to_arrow_schema()
                elif path.suffix in (".feather", ".arrow"):
                    with pa.ipc.open_file(path) as reader:
                        yield str(path), reader.schema
                else:
                    with self._csv(path) as reader:
                        yield str(path), reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, file by file."""
        for path in self.files:
            with reading(str(path), LOCAL):
                if path.suffix == ".parquet":
                    with pq.ParquetFile(path, metadata=self._footers.get(path)) as file:
                        yield from file.iter_batches(BATCH_ROWS)
                elif path.suffix in (".feather", ".arrow"):
                    with pa.ipc.open_file(path) as reader:
                        yield from (reader.get_batch(k) for k in range(reader.num_record_batches))
                else:
                    with self._csv(path) as reader:
                        yield from reader

    def _csv(self, path: Path) -> pacsv.CSVStreamingReader:
        """CSV has no types, so the contract's are asked for: ids stay text (007 is not 7), times too."""
        rename = self.source.columns
        types = {rename.get(column, column): pa.float64() for column in NUMBERS}
        texts = ("event_id", "user_id", "item_id", "group_id", "backbone_version")
        types |= {rename.get(column, column): pa.string() for column in texts}
        time = rename.get("event_time", "event_time")
        types[time] = pa.string() if self.source.epoch_unit is None else pa.int64()
        return pacsv.open_csv(
            path,
            parse_options=pacsv.ParseOptions(newlines_in_values=True),
            # only an empty field is missing: "NA" may be an item
            convert_options=pacsv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True
            ),
        )


LOCAL = pafs.LocalFileSystem()
