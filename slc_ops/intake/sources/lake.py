"""A lake of Parquet files: Hive-partitioned or flat, on a path or a pyarrow filesystem URI."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import InputError
from slc_ops.base.lineage import Data
from slc_ops.base.window import Window
from slc_ops.intake.dataset_names import at
from slc_ops.intake.sources import Source
from slc_ops.intake.sources.locations import locate, reading, refuse_tables
from slc_ops.intake.sources.parquet import Parts, SourceFile
from slc_ops.settings.sources import LakeSource


class Lake(Source):
    """Rows of a window: by their time in any file, or all rows of the window's partitions.

    The lake is listed once and each file's footer is read once: a listing may take seconds, a footer of a
    remote file two requests.
    """

    def __init__(self, source: LakeSource, home: Path, window: Window) -> None:
        self.source, self.home, self.window = source, home, window
        self.zone = ZoneInfo(window.zone)
        self.selects = source.partition is not None
        self.filesystem, self.root = locate(source, home)
        self.parts = Parts(self.filesystem, source, window, inside=not self.selects)

    def datasets(self) -> list[Data]:
        """Return the data set for lineage."""
        return [at(self.source.path, self.home)]

    def describe(self) -> dict[str, Any]:
        """Return the path as configured."""
        return {"kind": "lake", "path": self.source.path}

    def fingerprint(self) -> str | None:
        """Return a digest of path, size and modification time of files that may have rows of the window.

        Times are compared for equality only, so clock changes do not matter.
        """
        return digest_json([[info.path, info.size, str(info.mtime_ns)] for info in self.files])

    @cached_property
    def files(self) -> list[pafs.FileInfo]:
        """Return the Parquet files to read, by path. In a Hive lake only partitions contain rows."""
        with reading(f"the lake {self.source.path}", self.filesystem):
            root = self.filesystem.get_file_info(self.root)
            if root.type != pafs.FileType.Directory:
                raise InputError(
                    f"the lake {self.root} is not a directory; check its path in the deployments file"
                )
            infos = self.filesystem.get_file_info(pafs.FileSelector(self.root, recursive=True))
        refuse_tables(self.source.path, [info.path for info in infos])
        found = [info for info in infos if info.type == pafs.FileType.File and self._is_data(info.path)]
        partitioned = [info for info in found if self.keys(info.path)]
        chosen = [info for info in partitioned or found if self._claimed(info.path)]
        return sorted(chosen, key=lambda info: info.path)

    def schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """Yield the columns of each file that may contain rows of the window, and its partition's keys."""
        for part, fragment in self.opened:
            yield part.path, self.parts.schema(part, fragment)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the source's own columns, file by file."""
        for part, fragment in self.opened:
            yield from self.parts.batches(part, fragment)

    def keys(self, path: str) -> dict[str, str]:
        """Return the Hive keys of a file.

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
            begin = datetime.fromisoformat(self.keys(path)[partition.key]).replace(tzinfo=self.zone)
        except (KeyError, ValueError):
            raise InputError(
                f"{path} has no date as partition {partition.key!r}; "
                f"expected {partition.key}=2026-01-05/ in its path"
            ) from None
        try:  # days of the window's zone; a clock change alters their length
            beyond = begin + timedelta(days=partition.days)
            return begin < self.window.end and beyond > self.window.start
        except OverflowError:  # the end of the calendar
            return begin.year < self.window.end.year

    @cached_property
    def opened(self) -> list[tuple[SourceFile, ds.ParquetFileFragment]]:
        """Return the files that may contain rows of the window, with their footers."""
        parts = [
            SourceFile(
                info.path,
                info.size,
                values={name: pa.scalar(value) for name, value in self.keys(info.path).items()},
            )
            for info in self.files
        ]
        return self.parts.opened(parts)
