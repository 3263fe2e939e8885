"""Databases as Arrow batches through ADBC: code that all drivers share."""

import queue
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.intake.sources.bounds import BOUND, Patience, in_time, one_line
from slc_ops.settings.sources import SqlSource

ColumnOf = Callable[[list[Any]], pa.Array]
"""Converts Python values to an Arrow column, as the path through SQLAlchemy does."""

MODULES = {
    "bigquery": "adbc_driver_bigquery",
    "grpc": "adbc_driver_flightsql",
    "postgresql": "adbc_driver_postgresql",
    "snowflake": "adbc_driver_snowflake",
}
"""Database → the module of its driver."""
REFUSED = {
    "INVALID_ARGUMENT", "INVALID_DATA", "NOT_FOUND", "NOT_IMPLEMENTED", "UNAUTHENTICATED", "UNAUTHORIZED",
}  # fmt: skip
"""Status codes for which a retry is useless."""


def has_driver(backend: str) -> bool:
    """Return True when an ADBC driver for the database is installed."""
    return backend in MODULES and find_spec(MODULES[backend]) is not None


def arrow_batches(
    url: sa.URL, source: SqlSource, bounds: dict[str, Any], shown: str, column_of: ColumnOf
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the query, at most ``batch_rows`` at a time; a thread fetches ahead."""
    if url.get_backend_name() == "postgresql":
        from slc_ops.intake.sources.postgresql import batches

        return ahead(batches(url, source, bounds, shown, column_of))
    return ahead(prepared_batches(url, source, bounds, shown, column_of))


def prepared_batches(
    url: sa.URL, source: SqlSource, bounds: dict[str, Any], shown: str, column_of: ColumnOf
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a prepared statement with the window's bounds as parameters.

    These servers have no read-only sessions: the user of the URL should have read access only.
    """
    from slc_ops.intake.sources.warehouses import connection_of

    if not re.match(r"\s*(select|with)\b", source.query, re.IGNORECASE):
        raise InputError(f"the query for {shown} must begin with SELECT or WITH: a source may only read")
    asked = connection_of(url, source)
    values = [asked.value(bounds[name]) for name in BOUND.findall(source.query)]
    dbapi = import_module(f"{MODULES[url.get_backend_name()]}.dbapi")
    with (
        asking(shown),
        closing(dbapi.connect(**asked.place, db_kwargs=asked.options, autocommit=True)) as link,
        link.cursor() as cursor,
        limited(cursor, source, shown) as clock,
    ):
        cursor.execute(BOUND.sub(asked.parameter, source.query), values)
        for batch in clock.with_each(iter(cursor.fetch_record_batch())):
            names = [asked.name(name) for name in batch.schema.names]
            yield from cut(batch.columns, names, source.batch_rows, column_of)


@contextmanager
def asking(shown: str) -> Iterator[None]:
    """Turn a driver's errors into one-line errors; an unreachable server is :class:`SourceUnavailable`."""
    import adbc_driver_manager as manager

    try:
        yield
    except (manager.Error, pa.ArrowException, OSError) as error:
        if isinstance(error, manager.Error) and error.status_code.name in REFUSED:
            raise InputError(f"the server {shown} refused the query: {one_line(error)}") from None
        raise SourceUnavailable(f"the server {shown} failed: {one_line(error)}") from None


@contextmanager
def limited(cursor: Any, source: SqlSource, shown: str) -> Iterator[Patience]:
    """Cancel the query after ``limit_seconds``: some drivers retry for ever."""
    import adbc_driver_manager as manager

    with in_time(source.limit_seconds, cursor.adbc_cancel) as clock:
        try:
            yield clock
        except (manager.Error, pa.ArrowException, OSError) as error:
            if not clock.is_over():
                raise
            raise SourceUnavailable(
                f"{shown} took longer than limit_seconds: {source.limit_seconds}; {one_line(error)}"
            ) from None


def cut(
    columns: list[pa.Array], names: list[str], rows: int, column_of: ColumnOf
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most ``rows`` rows with plain values; raise for a duplicate column name."""
    if len(set(names)) < len(names):
        raise InputError(f"the query returns a column twice: {', '.join(names)}; name each once")
    found = pa.record_batch([plain(column, column_of) for column in columns], names=names)
    for first in range(0, found.num_rows, rows):
        yield found.slice(first, rows)


def plain(found: pa.Array, column_of: ColumnOf) -> pa.Array:
    """Convert values as SQLAlchemy returns them: exact decimals, UUIDs as text, float32 by shortest digits.

    Decimals with scale 0 (NUMBER in warehouses) become 64-bit integers.
    """
    if isinstance(found.type, pa.OpaqueType) and found.type.type_name == "numeric":
        texts = found.storage.to_pylist()
        return column_of([None if text is None else Decimal(text) for text in texts])
    if isinstance(found.type, pa.OpaqueType) and found.type.type_name == "uuid":  # older drivers
        values = found.storage.to_pylist()
        return column_of([None if value is None else uuid.UUID(bytes=value) for value in values])
    if isinstance(found, pa.ExtensionArray):
        return column_of(found.to_pylist())
    if pa.types.is_float32(found.type):
        return pc.cast(pc.cast(found, pa.string()), pa.float64())
    if pa.types.is_decimal(found.type) and found.type.scale == 0:
        try:
            return pc.cast(found, pa.int64())
        except pa.ArrowInvalid:
            raise InputError(
                f"the query returns {found.type} beyond 64 bits; cast the column to text in the query"
            ) from None
    return found


def ahead(batches: Iterator[pa.RecordBatch], depth: int = 2) -> Iterator[pa.RecordBatch]:
    """Yield the same batches, produced by a thread up to ``depth`` batches ahead."""
    made: queue.Queue[tuple[pa.RecordBatch | None, BaseException | None]] = queue.Queue(depth)
    left = threading.Event()

    def put(batch: pa.RecordBatch | None, error: BaseException | None) -> None:
        while not left.is_set():
            try:
                return made.put((batch, error), timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for batch in batches:
                put(batch, None)
                if left.is_set():
                    break
            put(None, None)
        except BaseException as error:  # raised in the consumer
            put(None, error)
        finally:
            batches.close()  # type: ignore[attr-defined]  # a generator; closes the connection

    thread = threading.Thread(target=work, name="slc-ops-fetch", daemon=True)
    thread.start()
    try:
        while True:
            batch, error = made.get()
            if error is not None:
                raise error
            if batch is None:
                return
            yield batch
    finally:
        left.set()
        thread.join()
