"""A lake of Parquet files: Hive-partitioned or flat, on a path or a pyarrow filesystem URI."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
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
from slc_ops.intake.contract import selection
from slc_ops.intake.sources.locations import locate, reading
from slc_ops.settings.sources import LakeSource

BATCH_ROWS = 1 << 16


class Lake:
    """Rows of a window: by their time, in whatever file they lie, or in the partitions that claim them."""

    def __init__(self, source: LakeSource, home: Path) -> None:
        self.source = source
        self.claims = source.partition is not None
        self.filesystem, self.root = locate(source, home)
        self.remote = not isinstance(self.filesystem, pafs.LocalFileSystem)

    def describe(self) -> dict[str, Any]:
        """Where the rows come from."""
        return {"kind": "lake", "path": self.source.path}

    def fingerprint(self, window: Window) -> str | None:
        """Paths, sizes and times of change of the files that may hold rows of the window."""
        return digest_json([[info.path, info.size, str(info.mtime_ns)] for info in self.files(window)])

    def files(self, window: Window) -> list[pafs.FileInfo]:
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
        chosen = [info for info in partitioned or found if self._claimed(info.path, window)]
        return sorted(chosen, key=lambda info: info.path)

    def schemas(self, window: Window) -> Iterator[tuple[str, pa.Schema]]:
        """The columns of each file that may hold rows of the window, and its partition's keys."""
        for path, fragment in self._fragments(window):
            schema = fragment.physical_schema
            for key in self.keys(path):
                if key not in schema.names:
                    schema = schema.append(pa.field(key, pa.string()))
            yield path, schema

    def batches(self, window: Window) -> Iterator[pa.RecordBatch]:
        """The rows with the source's own columns, file by file."""
        for path, fragment in self._fragments(window):
            names = fragment.physical_schema.names
            wanted = [name for name in selection(names, self.source.columns).values() if name in names]
            groups = [group.id for group in fragment.row_groups]
            with reading(path, self.filesystem), self.filesystem.open_input_file(path) as stream:
                file = pq.ParquetFile(stream, pre_buffer=self.remote)
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

    def _claimed(self, path: str, window: Window) -> bool:
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
        return first < window.end and first + timedelta(days=partition.days) > window.start

    def _fragments(self, window: Window) -> Iterator[tuple[str, ds.ParquetFileFragment]]:
        """The files, without row groups that by their statistics hold nothing of the window."""
        for info in self.files(window):
            with reading(info.path, self.filesystem):
                fragment = ds.ParquetFileFormat().make_fragment(info.path, self.filesystem)
                fragment.ensure_complete_metadata()
                inside = self._inside(fragment.physical_schema, window)
                if inside is not None:
                    fragment = fragment.subset(inside)
            if fragment.num_row_groups:
                yield info.path, fragment

    def _inside(self, schema: pa.Schema, window: Window) -> ds.Expression | None:
        """A filter where the time decides; rows without a time come too, to be counted."""
        name = self.source.columns.get("event_time", "event_time")
        if self.claims or name not in schema.names:
            return None
        found = schema.field(name).type
        if not pa.types.is_timestamp(found) or found.tz is None:
            return None
        time = ds.field(name)
        return ((time >= pa.scalar(window.start)) & (time < pa.scalar(window.end))) | time.is_null()

    def _with_keys(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        wanted = selection(self.keys(path), self.source.columns).values()
        for key, value in self.keys(path).items():
            if key in wanted and key not in batch.schema.names:
                batch = batch.append_column(key, pa.repeat(value, batch.num_rows))
        return batch
