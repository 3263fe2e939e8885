"""A table or a query of a DuckDB file, opened read-only without access to other files and networks."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.base.extras import require
from slc_ops.base.lineage import Data
from slc_ops.base.window import Window
from slc_ops.intake.dataset_names import tables_of
from slc_ops.intake.sources import Source
from slc_ops.intake.sources.bounds import BOUND, Patience, bounds, limited, one_line
from slc_ops.settings.sources import DuckdbSource

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_ROWS = 1 << 16
ALONE = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""Disables access to other files and to the network."""
IN_UTC = "SET TimeZone = 'UTC'; SET lock_configuration = true"
"""Locks the settings, so that a query cannot change them."""


class Duckdb(Source):
    """The rows of a table, which extraction filters by time, or those that a query selects."""

    def __init__(self, source: DuckdbSource, home: Path, window: Window) -> None:
        require("a DuckDB file", "warehouse")
        self.source, self.window = source, window
        self.selects = source.query is not None
        self.path = home / source.path

    def datasets(self) -> list[Data]:
        """Return the data sets for lineage."""
        tables = [self.source.table] if self.source.table else tables_of(self.source.query or "")
        return [Data(f"duckdb://{self.path}", table) for table in tables]

    def describe(self) -> dict[str, Any]:
        """Return the file with its table or the digest of the query."""
        asked = (
            {"query": digest_json(self.source.query)} if self.source.query else {"table": self.source.table}
        )
        return {"kind": "duckdb", "path": self.source.path, **asked}

    def fingerprint(self) -> str | None:
        """Return a digest of size and modification time of the file and its write-ahead log."""
        self._require_file()
        wal = self.path.with_name(f"{self.path.name}.wal")
        seen = [path.stat() for path in (self.path, wal) if path.exists()]
        return digest_json([[stat.st_size, stat.st_mtime_ns] for stat in seen])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        import duckdb

        self._require_file()
        with self._asking():
            connection = duckdb.connect(self.path, read_only=True, config=dict(ALONE))
        with closing(connection), self._asking():
            connection.execute(IN_UTC)
            query, values = self._asked(connection)
            clock = Patience(self.source.limit_seconds, whole=True)
            with limited(clock, connection.interrupt):
                reader: Any = connection.sql(query, params=values or None).to_arrow_reader(BATCH_ROWS)
                yield from clock.with_each(iter(reader))

    def _asked(self, connection: "DuckDBPyConnection") -> tuple[str, dict[str, Any]]:
        import duckdb

        if self.source.query is None:
            return f"SELECT * FROM {quoted(str(self.source.table))}", {}  # noqa: S608 - a quoted name
        query = BOUND.sub(r"$\1", self.source.query)
        statements = connection.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InputError(f"the query on {self.source.path} may only read: expected one SELECT")
        return query, bounds(self.source, self.window)

    def _require_file(self) -> None:
        if not self.path.is_file():  # DuckDB would report that it cannot create it
            raise InputError(f"there is no DuckDB file {self.path}; check its path in the deployments file")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except duckdb.InterruptException:
            raise SourceUnavailable(
                f"{self.source.path} took longer than limit_seconds: {self.source.limit_seconds}"
            ) from None
        except duckdb.IOException as error:  # another process writes to it, or it is of a newer release
            raise SourceUnavailable(f"{self.source.path} cannot be opened: {one_line(error)}") from None
        except duckdb.Error as error:
            raise InputError(f"{self.source.path} cannot be read: {one_line(error)}") from None


def quoted(name: str) -> str:
    """Quote a table's name for SQL, with its schema before a dot.

    >>> quoted('logs.odd"name')
    '"logs"."odd""name"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))
