"""Stream converted batches into one Parquet file, a row group at a time."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as pt

from slc_ops.base.errors import InputError
from slc_ops.base.hashing import ContentDigest, column_hashes
from slc_ops.base.parquet import SPAN, log_writer
from slc_ops.intake.contract import ALLOWED_TYPES, TIME, cast, common_type
from slc_ops.settings.sources import CONTRACT_COLUMNS

if TYPE_CHECKING:
    from slc_ops.intake.manifest import WindowManifest

ROW_GROUP = 4 * SPAN


class Watcher(Protocol):
    """Receives the rows of a log, while they are written or from the stored file."""

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Receive the next :data:`SPAN` rows of the log (fewer at the end) and their column hashes."""


class Observer(Watcher, Protocol):
    """Receives every row of a window during extraction, which saves a second read."""

    def finish(self, manifest: "WindowManifest") -> object:
        """Store results beside the rows that ``manifest`` describes; no more rows follow."""


def write_log(
    path: Path,
    types: dict[str, pa.DataType],
    rows: Iterable[pa.RecordBatch],
    observer: Watcher | None = None,
) -> tuple[ContentDigest, pa.Schema]:
    """Write batches of contract columns to one file; return the digest of their content, and their schema.

    ``types`` are known from the footers of the window's files; a column that is absent from a batch is null
    there. Row groups and spans start at fixed row numbers, independent of the source's batches. A thread
    compresses a row group while its rows are hashed and observed. No rows give a file without rows.
    """
    digest, schema = ContentDigest(), pa.schema([])
    writer: pq.ParquetWriter | None = None
    writing: Future[None] | None = None
    with ExitStack() as files, ThreadPoolExecutor(1, thread_name_prefix="slc-ops-write") as thread:
        for group in row_groups(types, rows):
            if writer is None:
                schema = group.schema
                writer = files.enter_context(new_log(path, schema))
            if writing is not None:
                writing.result()
            if group.num_rows:
                writing = thread.submit(writer.write_table, group, row_group_size=ROW_GROUP)
            for batch in group.to_batches(max_chunksize=SPAN):
                hashes = column_hashes(batch)
                digest.add(batch, hashes)
                if observer is not None:
                    observer.add(batch, hashes)
        if writing is not None:
            writing.result()
    return digest, schema


def row_groups(types: dict[str, pa.DataType], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in multiples of :data:`ROW_GROUP`, then the remaining ones, with one schema.

    The first group is buffered to know the types of all columns.
    """
    types, schema = dict(types), None
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        for field in batch.schema if schema is None else ():
            types[field.name] = common_type(field.name, types.get(field.name, pa.null()), field.type)
        waiting.append(batch)
        count += batch.num_rows
        if count >= ROW_GROUP:
            schema = schema or schema_of(types)
            rows = pa.Table.from_batches([fitted(each, schema) for each in waiting], schema)
            whole = count // ROW_GROUP * ROW_GROUP
            yield rows.slice(0, whole).combine_chunks()
            waiting, count = rows.slice(whole).to_batches(), count - whole
    schema = schema or schema_of(types)
    yield pa.Table.from_batches([fitted(each, schema) for each in waiting], schema).combine_chunks()


def schema_of(types: dict[str, pa.DataType]) -> pa.Schema:
    """Return the columns in the contract's order; one without any value has its first allowed type."""
    known = {name: types[name] for name in CONTRACT_COLUMNS if name in types}
    for name, kind in known.items():
        if pt.is_null(kind):
            known[name] = TIME if name == "event_time" else pa.type_for_alias(ALLOWED_TYPES[name][0])
    return pa.schema(known)


def new_log(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Open the writer of a log; raise :class:`InputError` for a type that Parquet cannot store."""
    try:
        return log_writer(path, schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"the log cannot be stored as Parquet: {error}; map other columns") from None


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with all columns of the schema, in its types."""
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
