"""A lake of Parquet files: Hive-partitioned or flat, on a path or a pyarrow filesystem URI."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from slc_ops.base.errors import InputError
from slc_ops.base.files import digest_json
from slc_ops.base.window import Window
from slc_ops.intake.contract import repetitive_text, selection
from slc_ops.intake.sources.locations import locate, reading
from slc_ops.settings.sources import LakeSource

BATCH_ROWS = 1 << 16


class Lake:
    """Rows of a window: by their time, in whatever file they lie, or in the partitions that claim them.

    The lake is listed once and each file's footer is read once: a listing may take seconds, a footer of a
    remote file two requests.
    """

    def __init__(self, source: LakeSource, home: Path, window: Window) -> None:
        self.source, self.window = source, window
        self.selects = source.partition is not None
        self.filesystem, self.root = locate(source, home)
        self.remote = not isinstance(self.filesystem, pafs.LocalFileSystem)

    def describe(self) -> dict[str, Any]:
        """Where the rows come from."""
        return {"kind": "lake", "path": self.source.path}

    def fingerprint(self) -> str | None:
        """Paths, sizes and times of change of the files that may hold rows of the window.

        Times are compared for being equal and never with a clock, so a clock may jump.
        """
        return digest_json([[info.path, info.size, str(info.mtime_ns)] for info in self.files])

    @cached_property
    def files(self) -> list[pafs.FileInfo]:
        """The Parquet files to look at, by path. In a Hive lake only partitions hold rows."""
        with reading(f"the lake {self.source.path}", self.filesystem):
            root = self.filesystem.get_file_info(self.root)
            if root.type != pafs.FileType.Directory:
                raise InputError(
                    f"the lake {self.root} is not a directory; check its path in the deployments file"
                )
            infos = self.filesystem.get_file_info(pafs.FileSelector(self.root, recursive=True))
        found = [info for info in infos if info.type == pafs.FileType.File and self._is_data(info.path)]
        partitioned = [info for info in found if self.keys(info.path)]
        chosen = [info for info in partitioned or found if self._claimed(info.path)]
        return sorted(chosen, key=lambda info: info.path)

    def schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """The columns of each file that may hold rows of the window, and its partition's keys."""
        for path, fragment in self._fragments:
            schema = fragment.physical_schema
            for key in self.keys(path):
                if key not in schema.names:
                    schema = schema.append(pa.field(key, pa.string()))
            yield path, schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows with the source's own columns, file by file."""
        for path, fragment in self._fragments:
            names = fragment.physical_schema.names
            wanted = [name for name in selection(names, self.source.columns).values() if name in names]
            groups = [group.id for group in fragment.row_groups]
            with reading(path, self.filesystem), self.filesystem.open_input_file(path) as stream:
                file = pq.ParquetFile(
                    stream,
                    metadata=fragment.metadata,
                    pre_buffer=self.remote,
                    read_dictionary=repetitive_text(fragment.physical_schema, self.source.columns),
                )
                for group in groups:  # one at a time, so that memory holds one and not the file
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=wanted):
                        yield self._with_keys(batch, path)

    def keys(self, path: str) -> dict[str, str]:
        """Hive keys of a file.

        ``week=2026-01-05/site=a%20b/part-0.parquet`` has ``{"week": "2026-01-05", "site": "a b"}``.
        """
        parts = path.removeprefix(self.root).strip("/").split("/")[:-1]
        pairs = (part.split("=", 1) for part in parts if "=" in part)
        return {key: unquote(value) for key, value in pairs}

    def _is_data(self, path: str) -> bool:
        inside = path.removeprefix(self.root).strip("/")
        hidden = any(part.startswith(("_", ".")) for part in inside.split("/"))
        return inside.endswith((".parquet", ".pq")) and not hidden

    def _claimed(self, path: str) -> bool:
        partition = self.source.partition
        if partition is None:
            return True
        try:
            first = datetime.fromisoformat(self.keys(path)[partition.key]).replace(tzinfo=UTC)
        except (KeyError, ValueError):
            raise InputError(
                f"{path} has no date as partition {partition.key!r}; "
                f"expected {partition.key}=2026-01-05/ in its path"
            ) from None
        try:
            beyond = first + timedelta(days=partition.days)
        except OverflowError:  # the last days of the calendar
            return first < self.window.end
        return first < self.window.end and beyond > self.window.start

    @cached_property
    def _fragments(self) -> list[tuple[str, ds.ParquetFileFragment]]:
        """The files with their footers, without row groups that by their statistics hold nothing wanted."""
        found = []
        for info in self.files:
            with reading(info.path, self.filesystem):
                fragment = ds.ParquetFileFormat().make_fragment(
                    info.path, self.filesystem, file_size=info.size
                )
                fragment.ensure_complete_metadata()
                inside = self._inside(fragment.physical_schema)
                if inside is not None:
                    fragment = fragment.subset(inside)
            if fragment.num_row_groups:
                found.append((info.path, fragment))
        return found

    def _inside(self, schema: pa.Schema) -> ds.Expression | None:
        """A filter where the time decides; rows without a time come too, to be counted."""
        name = selection(schema.names, self.source.columns).get("event_time")
        if self.selects or name is None:
            return None
        found = schema.field(name).type
        if not pa.types.is_timestamp(found) or found.tz is None:
            return None
        time = ds.field(name)
        start, end = pa.scalar(self.window.start), pa.scalar(self.window.end)
        return ((time >= start) & (time < end)) | time.is_null()

    def _with_keys(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        wanted = selection(self.keys(path), self.source.columns).values()
        for key, value in self.keys(path).items():
            if key in wanted and key not in batch.schema.names:
                batch = batch.append_column(key, pa.repeat(value, batch.num_rows))
        return batch
