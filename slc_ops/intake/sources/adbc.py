"""Databases as Arrow batches, through ADBC: what its drivers have in common."""

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
"""A column of Python values in Arrow, as the other way has it."""

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
"""What trying again does not cure."""


def has_driver(backend: str) -> bool:
    """Whether a database can be read through ADBC here."""
    return backend in MODULES and find_spec(MODULES[backend]) is not None


def arrow_batches(
    url: sa.URL, source: SqlSource, bounds: dict[str, Any], shown: str, column_of: ColumnOf
) -> Iterator[pa.RecordBatch]:
    """The rows of the query, at most ``batch_rows`` at a time, fetched by a thread while they are used."""
    if url.get_backend_name() == "postgresql":
        from slc_ops.intake.sources.postgresql import batches

        return ahead(batches(url, source, bounds, shown, column_of))
    return ahead(prepared_batches(url, source, bounds, shown, column_of))


def prepared_batches(
    url: sa.URL, source: SqlSource, bounds: dict[str, Any], shown: str, column_of: ColumnOf
) -> Iterator[pa.RecordBatch]:
    """The rows of a prepared statement whose parameters are the window's bounds.

    These servers know no read-only sessions: the user that the URL names should have the right to read, and
    no other.
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
    """A driver's complaints in one line each; a server that does not answer may be back in a minute."""
    import adbc_driver_manager as manager

    try:
        yield
    except (manager.Error, pa.ArrowException, OSError) as error:
        if isinstance(error, manager.Error) and error.status_code.name in REFUSED:
            raise InputError(f"the server {shown} refused the query: {one_line(error)}") from None
        raise SourceUnavailable(f"the server {shown} failed: {one_line(error)}") from None


@contextmanager
def limited(cursor: Any, source: SqlSource, shown: str) -> Iterator[Patience]:
    """Cancel what takes longer than ``limit_seconds``: some drivers try again for ever."""
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
    """Batches of at most ``rows`` rows with plain values; a name that is there twice is refused."""
    if len(set(names)) < len(names):
        raise InputError(f"the query returns a column twice: {', '.join(names)}; name each once")
    found = pa.record_batch([plain(column, column_of) for column in columns], names=names)
    for first in range(0, found.num_rows, rows):
        yield found.slice(first, rows)


def plain(found: pa.Array, column_of: ColumnOf) -> pa.Array:
    """The values as the other way has them: exact decimals, UUIDs as text, short floats as written.

    Whole decimals, which warehouses call NUMBER, are whole numbers.
    """
    if isinstance(found.type, pa.OpaqueType) and found.type.type_name == "numeric":
        texts = found.storage.to_pylist()
        return column_of([None if text is None else Decimal(text) for text in texts])
    if isinstance(found.type, pa.OpaqueType) and found.type.type_name == "uuid":  # of older drivers
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
    """The same batches, made by a thread that is up to ``depth`` of them ahead."""
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
        except BaseException as error:  # it is raised where the batches are used
            put(None, error)
        finally:
            batches.close()  # type: ignore[attr-defined]  # a generator; it gives the connection back

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
