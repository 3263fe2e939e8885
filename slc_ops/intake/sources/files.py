"""CSV, Feather and Parquet files: exports, hand-overs, backfills."""

import glob
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import InputError
from slc_ops.base.lineage import Data
from slc_ops.base.tabular import TabularFile
from slc_ops.base.window import Window
from slc_ops.intake.contract import NUMBERS, TEXTS
from slc_ops.intake.dataset_names import at
from slc_ops.intake.sources import Source
from slc_ops.intake.sources.locations import reading, refuse_tables
from slc_ops.settings.sources import FilesSource


class Files(Source):
    """All rows of the named files; extraction filters those of the window."""

    def __init__(self, source: FilesSource, home: Path, window: Window) -> None:
        self.source, self.home = source, home

    def datasets(self) -> list[Data]:
        """Return the data sets for lineage."""
        return [at(path, self.home) for path in self.source.paths]

    def describe(self) -> dict[str, Any]:
        """Return the paths as configured."""
        return {"kind": "files", "paths": list(self.source.paths)}

    def fingerprint(self) -> str | None:
        """Return a digest of paths, sizes and modification times; times are compared for equality only."""
        seen = [(path, path.stat()) for path in self.files]
        return digest_json([[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in seen])

    @cached_property
    def files(self) -> list[Path]:
        """Return the files that match the patterns, each once."""
        found: set[Path] = set()
        for pattern in self.source.paths:
            matches = glob.glob(str(self.home / pattern), recursive=True)
            if not matches:
                raise InputError(
                    f"no file matches {self.home / pattern}; check paths in the deployments file"
                )
            found |= {Path(match) for match in matches}
        refuse_tables("paths", marks_around(found))
        return sorted(found)

    @cached_property
    def tables(self) -> dict[str, TabularFile]:
        """Return the files by path, with the contract's types for CSV: ids stay text (007 is not 7)."""
        time = pa.string() if self.source.epoch_unit is None else pa.int64()
        types: dict[str, pa.DataType] = dict.fromkeys(TEXTS, pa.string())
        types |= dict.fromkeys(NUMBERS, pa.float64()) | {"event_time": time}
        named = {self.source.columns.get(name, name): each for name, each in types.items()}
        found = {}
        for path in self.files:
            with reading(str(path), LOCAL):
                found[str(path)] = TabularFile(path, types=named, strict=True, check_utf8=False)
        return found

    def schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """Yield the columns of each file."""
        for path, file in self.tables.items():
            yield path, file.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, file by file."""
        for path, file in self.tables.items():
            with reading(path, LOCAL):
                yield from file.batches()


def marks_around(files: Iterable[Path]) -> Iterator[str]:
    """Yield the metadata of table formats beside or above the files."""
    for directory in sorted({parent for path in files for parent in path.parents}):
        for pattern in ("_delta_log", "metadata/*.metadata.json", ".hoodie"):
            yield from map(str, directory.glob(pattern))


LOCAL = pafs.LocalFileSystem()
