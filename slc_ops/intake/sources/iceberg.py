"""A table of an Iceberg catalogue: one snapshot, planned and read by pyiceberg, file by file."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.base.extras import require
from slc_ops.base.lineage import Data
from slc_ops.base.window import Window
from slc_ops.intake.contract import repetitive_text, selection
from slc_ops.intake.sources import Source
from slc_ops.intake.sources.bounds import one_line
from slc_ops.settings.sources import IcebergSource

if TYPE_CHECKING:
    from pyiceberg.table import DataScan, FileScanTask, Table

SQLITE = "sqlite:///"


class Iceberg(Source):
    """The rows of a window in one snapshot of a table. Files are read in the order of their paths."""

    def __init__(self, source: IcebergSource, home: Path, window: Window) -> None:
        require("an Iceberg table", "tables")
        self.source, self.home, self.window = source, home, window

    def datasets(self) -> list[Data]:
        """Return the data set for lineage."""
        return [Data(f"iceberg://{self.source.catalog}", self.source.table)]

    def describe(self) -> dict[str, Any]:
        """Return the table and its snapshot."""
        return {
            "kind": "iceberg",
            "catalog": self.source.catalog,
            "table": self.source.table,
            "snapshot": self._snapshot,
        }

    def fingerprint(self) -> str | None:
        """Return a digest of the files that may contain rows of the window, of their deletes and columns.

        Files never change. A snapshot that only changes other windows does not change it.
        """
        fields = [
            [field.field_id, field.name, str(field.field_type)] for field in self._scan.projection().fields
        ]
        files = [
            [task.file.file_path, sorted(deleted.file_path for deleted in task.delete_files)]
            for task in self._tasks
        ]
        return digest_json([fields, files])

    def schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """Yield the snapshot's columns: the library converts every file to them, also after a rename."""
        yield self.source.table, self._schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the snapshot, file by file."""
        from pyiceberg.io.pyarrow import ArrowScan

        scan = self._scan
        with self._asking():
            reader = ArrowScan(
                self._table.metadata,
                self._table.io,
                scan.projection(),
                scan.row_filter,
                dictionary_columns=tuple(repetitive_text(self._schema, self.source.columns)),
            )
        for task in self._tasks:
            with self._asking():
                yield from reader.to_record_batches([task])

    @cached_property
    def _table(self) -> "Table":
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        with self._asking():
            try:
                return load_catalog(self.source.catalog, **self._properties()).load_table(self.source.table)
            except (NoSuchTableError, NoSuchNamespaceError):
                raise InputError(
                    f"the catalogue {self.source.catalog} has no table {self.source.table}; "
                    "check its name in the deployments file"
                ) from None

    def _properties(self) -> dict[str, str]:
        """Resolve a SQLite catalogue's path relative to ``home``; raise if the file does not exist."""
        properties = dict(self.source.properties)
        uri = properties.get("uri", "")
        if uri.startswith(SQLITE):
            path = self.home / uri.removeprefix(SQLITE)
            if not path.exists():
                raise SourceUnavailable(f"there is no Iceberg catalogue {path}")
            properties["uri"] = f"{SQLITE}{path}"
        return properties

    @cached_property
    def _snapshot(self) -> int | None:
        """Return the requested snapshot: by id, or the newest at a time; None if the table has none."""
        table, asked = self._table, self.source.timestamp(self.window.end)
        if asked is None:
            current = table.current_snapshot()
            return None if current is None else current.snapshot_id
        if isinstance(asked, datetime):
            found = table.snapshot_as_of_timestamp(int(asked.timestamp() * 1000))
        else:
            found = table.snapshot_by_id(asked)
        if found is None:
            shown = asked.isoformat() if isinstance(asked, datetime) else asked
            raise InputError(
                f"the Iceberg table {self.source.table} has no snapshot {shown} (snapshots expire); "
                f"it has {len(table.metadata.snapshots)}, choose as_of among them"
            )
        return found.snapshot_id

    @cached_property
    def _scan(self) -> "DataScan":
        """Return a scan of the log's columns, over files that may have rows of the window or with no time."""
        from pyiceberg import expressions
        from pyiceberg.types import TimestamptzType

        with self._asking():
            # A requested snapshot has the columns of its time; the newest has the current ones.
            scan = self._table.scan(snapshot_id=None if self.source.as_of is None else self._snapshot)
            fields = {field.name: field for field in scan.projection().fields}
            chosen = selection(fields, self.source.columns, ["event_time"], self.source.table)
            time = fields[chosen["event_time"]]
            if isinstance(time.field_type, TimestamptzType):
                start, end = (each.isoformat() for each in (self.window.start, self.window.end))
                e: Any = expressions  # the declared signatures are wrong
                inside = e.And(e.GreaterThanOrEqual(time.name, start), e.LessThan(time.name, end))
                scan = scan.filter(e.Or(inside, e.IsNull(time.name)))
            return scan.select(*chosen.values())

    @cached_property
    def _schema(self) -> pa.Schema:
        return self._scan.projection().as_arrow()

    @cached_property
    def _tasks(self) -> "list[FileScanTask]":
        with self._asking():
            return sorted(self._scan.plan_files(), key=lambda task: task.file.file_path)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn the library's errors into one line each; :class:`SourceUnavailable` for a catalogue that is
        down.
        """
        from pyiceberg.exceptions import RESTError, ServerError, ServiceUnavailableError
        from requests.exceptions import ConnectionError as Unreachable
        from requests.exceptions import Timeout
        from sqlalchemy.exc import InterfaceError, OperationalError

        name = f"the Iceberg table {self.source.table}"
        try:
            yield
        except (
            Unreachable,
            Timeout,
            ServerError,
            ServiceUnavailableError,
            OperationalError,
            InterfaceError,
        ) as error:
            raise SourceUnavailable(
                f"the catalogue {self.source.catalog} cannot be reached: {one_line(error)}; try again later"
            ) from None
        except FileNotFoundError as error:
            raise InputError(
                f"a file of {name} is gone (was it expired, or removed by hand?): {one_line(error)}"
            ) from None
        except (RESTError, ValueError, OSError, pa.ArrowException, NotImplementedError) as error:
            raise InputError(f"{name} cannot be read: {one_line(error)}") from None
