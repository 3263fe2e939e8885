"""Stream converted batches into one Parquet file, a row group at a time."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as pt

from slc_ops.base.errors import InputError
from slc_ops.base.hashing import ContentDigest, column_hashes
from slc_ops.base.parquet import log_writer
from slc_ops.intake.contract import ALLOWED_TYPES, cast, common_type
from slc_ops.settings.sources import CONTRACT_COLUMNS

if TYPE_CHECKING:
    from slc_ops.intake.manifest import WindowManifest

SPAN = 1 << 16
"""Rows that are hashed and observed together; they fit into a processor's cache."""

ROW_GROUP = 4 * SPAN


class Watcher(Protocol):
    """Receives the rows of a log, while they are written or from the stored file."""

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Receive the next :data:`SPAN` rows of the log (fewer at the end) and their column hashes."""


class Observer(Watcher, Protocol):
    """Receives every row of a window during extraction, which saves a second read."""

    def finish(self, manifest: "WindowManifest") -> object:
        """Store results beside the rows that ``manifest`` describes; no more rows follow."""


class LogWriter:
    """Write batches to one file; buffer one row group, to know the column types before opening the file.

    ``types`` are known from the footers of the window's files; a column that is absent from a batch is null
    there. Row groups and spans start at fixed row numbers, independent of the source's batches. A thread
    compresses a row group while its rows are hashed and observed.
    """

    def __init__(self, path: Path, types: dict[str, pa.DataType], observer: Watcher | None = None) -> None:
        self.path = path
        self.types = dict(types)
        self.digest = ContentDigest()
        self.observer = observer
        self._waiting: list[pa.RecordBatch] = []
        self._rows_waiting = 0
        self._writer: pq.ParquetWriter | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slc-ops-write")
        self._writing: Future[None] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of contract columns."""
        for field in batch.schema:
            known = self.types.get(field.name, pa.null())
            if self._writer is None:
                self.types[field.name] = common_type(field.name, known, field.type)
        self._waiting.append(batch)
        self._rows_waiting += batch.num_rows
        if self._rows_waiting >= ROW_GROUP:
            self._flush(self._rows_waiting // ROW_GROUP * ROW_GROUP)

    def close(self) -> None:
        """Write the remaining rows; a window without rows gives a file without rows."""
        writer = self._flush(self._rows_waiting)
        self._wait()
        writer.close()
        self._thread.shutdown()
        self.schema = writer.schema

    def abandon(self) -> None:
        """Close the file after an error; suppress further errors."""
        self._thread.shutdown()
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()

    def _flush(self, count: int) -> pq.ParquetWriter:
        """Write the first ``count`` buffered rows."""
        writer = self._writer = self._writer or self._open()
        schema = writer.schema
        rows = pa.Table.from_batches([self._fit(batch, schema) for batch in self._waiting], schema)
        group = rows.slice(0, count).combine_chunks()
        self._wait()
        if count:
            self._writing = self._thread.submit(writer.write_table, group, row_group_size=ROW_GROUP)
        for batch in group.to_batches(max_chunksize=SPAN):
            hashes = column_hashes(batch)
            self.digest.add(batch, hashes)
            if self.observer is not None:
                self.observer.add(batch, hashes)
        self._waiting = rows.slice(count).to_batches()
        self._rows_waiting -= count
        return writer

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _open(self) -> pq.ParquetWriter:
        fields = []
        for name in CONTRACT_COLUMNS:
            found = self.types.get(name)
            if found is not None:
                fields.append(pa.field(name, pa_type(ALLOWED_TYPES[name][0]) if pt.is_null(found) else found))
        schema = pa.schema(fields)
        try:
            return log_writer(self.path, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(f"the log cannot be stored as Parquet: {error}; map other columns") from None

    def _fit(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if batch.schema == schema:
            return batch
        columns = []
        for field in schema:
            if field.name not in batch.schema.names:
                ones = field.name == "weight" and field.type == pa.float64()  # the default weight is 1
                columns.append(
                    pa.array(np.ones(batch.num_rows)) if ones else pa.nulls(batch.num_rows, field.type)
                )
                continue
            values = batch.column(field.name)
            common_type(field.name, field.type, values.type)
            columns.append(cast(field.name, values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_log(
    path: Path,
    types: dict[str, pa.DataType],
    rows: Iterable[pa.RecordBatch],
    observer: Watcher | None = None,
) -> LogWriter:
    """Write all rows to one file; return its writer, which has the digest and the schema."""
    writer = LogWriter(path, types, observer)
    try:
        for batch in rows:
            writer.add(batch)
        writer.close()
    except BaseException:  # an interrupt, too, must not leave a partial file
        writer.abandon()
        raise
    return writer


def pa_type(name: str) -> pa.DataType:
    """Return the Arrow type of a name."""
    return pa.timestamp("us", "UTC") if name.startswith("timestamp") else pa.type_for_alias(name)
