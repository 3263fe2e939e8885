"""A Delta table: the files that its log lists, without deleted rows.

The library replays the log. The files are read like those of a lake, one after the other, so that the same
version gives the same rows in the same order (the library's own engine guarantees no order).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.base.extras import require
from slc_ops.base.lineage import Data
from slc_ops.base.window import Window
from slc_ops.intake.contract import selection
from slc_ops.intake.dataset_names import at
from slc_ops.intake.sources import Source
from slc_ops.intake.sources.bounds import one_line
from slc_ops.intake.sources.locations import locate
from slc_ops.intake.sources.parquet import Parts, SourceFile
from slc_ops.settings.sources import DeltaSource

if TYPE_CHECKING:
    from deltalake import DeltaTable

UNDERSTOOD = {
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview",
    "v2Checkpoint", "vacuumProtocolCheck", "variantType", "variantType-preview",
}  # fmt: skip
"""Table features that affect reading and are supported here or by the library."""
DELETED = "deletionVectors"
MILLISECOND = timedelta(milliseconds=1)


class Delta(Source):
    """The rows of a window in one version of a table."""

    def __init__(self, source: DeltaSource, home: Path, window: Window) -> None:
        require("a Delta table", "tables")
        self.source, self.home, self.window = source, home, window
        self.filesystem, self.root = locate(source, home)
        self.parts = Parts(self.filesystem, source, window, inside=True)

    def datasets(self) -> list[Data]:
        """Return the data set for lineage."""
        return [at(self.source.path, self.home)]

    def describe(self) -> dict[str, Any]:
        """Return the table and its version."""
        return {"kind": "delta", "path": self.source.path, "version": self.table.version()}

    def fingerprint(self) -> str | None:
        """Return a digest of the files that may contain rows of the window, their deletions and the columns.

        A version that only changes other windows, or only adds a column, does not change it.
        """
        fields = self._fields
        chosen = selection([each.name for each in fields.values()], self.source.columns).values()
        names = sorted(
            (inner, each.name, str(each.type)) for inner, each in fields.items() if each.name in chosen
        )
        seen = [
            [part.path, part.size, None if part.kept is None else np.flatnonzero(~part.kept).tolist()]
            for part in self.files
        ]
        return digest_json([names, seen])

    def schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """Yield the table's columns, then those of each file that may contain rows of the window."""
        yield self.source.path, pa.schema(list(self._fields.values()))
        for part, fragment in self.opened:
            yield part.path, self.parts.schema(part, fragment)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the version, file by file."""
        for part, fragment in self.opened:
            yield from self.parts.batches(part, fragment)

    @cached_property
    def table(self) -> "DeltaTable":
        """Return the table in the requested version; only the log is read."""
        from deltalake import DeltaTable

        place = self.root if isinstance(self.filesystem, pafs.LocalFileSystem) else self.source.path
        with asking(self.source.path):
            table = DeltaTable(place, storage_options=storage_options(self.source))
            version = self._version(table)
            if version is not None and version != table.version():
                self._load(table, version)
        needed = set(table.protocol().reader_features or ()) - UNDERSTOOD
        if needed:
            raise InputError(
                f"the Delta table {self.source.path} needs what cannot be read here: "
                f"{', '.join(sorted(needed))}; read it through its own engine with kind: sql"
            )
        if table.metadata().configuration.get("delta.columnMapping.mode") == "id":
            raise InputError(
                f"the Delta table {self.source.path} maps its columns by id, which cannot be read here; "
                "map them by name, or read it through its own engine with kind: sql"
            )
        return table

    @cached_property
    def files(self) -> list[SourceFile]:
        """Return the files of the version that may contain rows of the window, by path."""
        with asking(self.source.path):
            actions = pa.table(self.table.get_add_actions(flatten=True))
            kept = self._kept()
        partition = [name for name in actions.column_names if name.startswith("partition.")]
        found = []
        for row in range(actions.num_rows):
            path = actions["path"][row].as_py()
            if "://" in path or path.startswith("/"):
                raise InputError(
                    f"the Delta table {self.source.path} has files elsewhere ({path}), as a shallow clone "
                    "does; name the table that it was cloned from"
                )
            if self._may_hold(actions, row):
                found.append(
                    SourceFile(
                        f"{self.root}/{unquote(path)}",
                        actions["size_bytes"][row].as_py(),
                        values={name.removeprefix("partition."): actions[name][row] for name in partition},
                        fields=self._fields,
                        kept=kept.get(path),
                    )
                )
        return sorted(found, key=lambda part: part.path)

    @cached_property
    def _fields(self) -> dict[str, pa.Field]:
        """Map names in the files to columns of the table."""
        fields = pa.schema(self.table.schema().to_arrow())
        key = b"delta.columnMapping.physicalName"
        return {
            (each.metadata or {}).get(key, each.name.encode()).decode(): each.remove_metadata()
            for each in fields
        }

    @cached_property
    def opened(self) -> list[tuple[SourceFile, ds.ParquetFileFragment]]:
        """Return the files that may contain rows of the window, with their footers."""
        try:
            return self.parts.opened(self.files)
        except InputError as error:
            raise InputError(
                f"version {self.table.version()} of the Delta table {self.source.path} cannot be read any "
                f"more (was it vacuumed?): {error}"
            ) from None

    def _load(self, table: "DeltaTable", version: int) -> None:
        from deltalake.exceptions import DeltaError

        newest = table.version()
        try:
            table.load_as_version(version)
        except DeltaError as error:
            raise InputError(
                f"the Delta table {self.source.path} has no version {version} (any more), its newest is "
                f"{newest}: {one_line(error)}"
            ) from None

    def _version(self, table: "DeltaTable") -> int | None:
        """Return the requested version: by number, or the newest at a time, by the log's timestamps."""
        timestamp = self.source.timestamp(self.window.end)
        if not isinstance(timestamp, datetime):
            return timestamp
        milliseconds = int(timestamp.timestamp() * 1000)
        commits: list[tuple[int, Any]] = [
            (entry["version"], entry.get("timestamp")) for entry in table.history()
        ]
        if any(timestamp is None for _, timestamp in commits):
            raise InputError(
                f"the log of the Delta table {self.source.path} does not say when its versions were made; "
                "give as_of a version"
            )
        known = [version for version, timestamp in commits if timestamp <= milliseconds]
        if not known:
            oldest = min(version for version, _ in commits)
            raise InputError(
                f"the Delta table {self.source.path} has no version as old as {timestamp.isoformat()}; "
                f"its oldest version is of {oldest}"
            )
        return max(known)

    def _kept(self) -> dict[str, np.ndarray]:
        """Map each file with deleted rows to a mask of the remaining rows."""
        if DELETED not in (self.table.protocol().reader_features or ()):
            return {}
        vectors = pa.table(self.table.deletion_vectors())
        found = {}
        for uri, rows in zip(vectors["filepath"].to_pylist(), vectors["selection_vector"], strict=True):
            found[uri] = rows.values.to_numpy(zero_copy_only=False)
        paths = pa.table(self.table.get_add_actions())["path"].to_pylist()
        by_path = {path: kept for path in paths for uri, kept in found.items() if uri.endswith(f"/{path}")}
        if len(by_path) != len(found):
            raise InputError(
                f"the Delta table {self.source.path} has deleted rows in files that its log does not name; "
                "read it through its own engine with kind: sql"
            )
        return by_path

    def _may_hold(self, actions: pa.Table, row: int) -> bool:
        """Return False when a file's statistics exclude rows of the window and rows without a time."""
        name = self.source.columns.get("event_time", "event_time")
        low, high, nulls = (
            actions[f"{what}.{name}"][row].as_py() if f"{what}.{name}" in actions.column_names else None
            for what in ("min", "max", "null_count")
        )
        if not (isinstance(low, datetime) and isinstance(high, datetime) and low.tzinfo and high.tzinfo):
            return True
        # Statistics may be truncated to milliseconds.
        return (
            bool(nulls)
            or nulls is None
            or (high + MILLISECOND >= self.window.start and low < self.window.end)
        )


@contextmanager
def asking(path: str) -> Iterator[None]:
    """Turn the library's errors into one-line errors; an unreachable store is :class:`SourceUnavailable`."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        yield
    except TableNotFoundError:
        raise InputError(f"{path} is not a Delta table (it has no _delta_log); check its path") from None
    except (DeltaError, OSError) as error:
        text = one_line(error)
        if isinstance(error, OSError) and not isinstance(error, (FileNotFoundError, PermissionError)):
            raise SourceUnavailable(
                f"the Delta table {path} cannot be reached: {text}; try again later"
            ) from None
        raise InputError(f"the Delta table {path} cannot be read: {text}") from None


def storage_options(source: DeltaSource) -> dict[str, str]:
    """Return the store's address for the library; credentials come from the environment or the machine."""
    parts = urlsplit(source.path)
    clear = str((source.endpoint or "").startswith("http://")).lower()
    if parts.scheme in ("abfs", "abfss"):
        if not source.endpoint:
            return {}
        account = (parts.hostname or "").partition(".")[0]
        return {"AZURE_STORAGE_ENDPOINT": f"{source.endpoint}/{account}", "AZURE_ALLOW_HTTP": clear}
    if parts.scheme in ("gs", "gcs"):
        options = {"GOOGLE_BASE_URL": source.endpoint, "GOOGLE_ALLOW_HTTP": clear} if source.endpoint else {}
        return options | ({"GOOGLE_SKIP_SIGNATURE": "true"} if source.anonymous else {})
    options = {}
    if source.endpoint:
        options["AWS_ENDPOINT_URL"] = source.endpoint
        options["AWS_ALLOW_HTTP"] = clear
    if source.endpoint or source.region:
        options["AWS_REGION"] = source.region or "us-east-1"
    if source.anonymous:
        options["AWS_SKIP_SIGNATURE"] = "true"
    return options
