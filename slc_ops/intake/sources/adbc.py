"""The loader of databases with an ADBC driver: a query as Arrow batches.

:mod:`slc_ops.intake.sources.drivers` has the differences between drivers.
"""

import re
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.intake.sources.bounds import BOUND, Patience, limited, one_line
from slc_ops.intake.sources.drivers import DRIVERS, Driver
from slc_ops.settings.sources import SqlSource


def has_driver(backend: str) -> bool:
    """Return True when an ADBC driver for the database is installed."""
    return backend in DRIVERS and find_spec(DRIVERS[backend].module) is not None


def fetched(
    url: sa.URL, source: SqlSource, bounds: dict[str, Any], shown: str
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of the query, at most ``batch_rows`` at a time.

    The window's bounds are parameters of the query, or of the session. After ``limit_seconds`` the query is
    cancelled: some drivers retry for ever.
    """
    import adbc_driver_manager as manager

    driver = DRIVERS[url.get_backend_name()]
    address, options = driver.address(url, source)
    query = only_reading(BOUND.sub(driver.parameter(source), source.query), driver, shown)
    values = [driver.value(bounds[name]) for name in BOUND.findall(source.query)]
    where = {} if address is None else {"uri": address}
    dbapi = import_module(f"{driver.module}.dbapi")
    clock = Patience(source.limit_seconds)
    try:
        opened = dbapi.connect(**where, db_kwargs=options, autocommit=driver.remember is None)
        with closing(opened) as connection, connection.cursor() as cursor:
            if driver.remember is not None:
                driver.remember(connection, bounds)
            with limited(clock, cursor.adbc_cancel):
                cursor.adbc_statement.set_options(**driver.statement)
                cursor.execute(query, values if driver.remember is None else None)
                for batch in clock.with_each(iter(cursor.fetch_record_batch())):
                    names = [driver.name(name) for name in batch.schema.names]
                    yield from cut(batch.columns, names, source.batch_rows)
    except (manager.Error, pa.ArrowException, OSError) as error:
        text = one_line(str(error)[max(str(error).find("ERROR:"), 0) :])  # drops the query before it
        if clock.is_over():
            raise SourceUnavailable(
                f"{shown} took longer than limit_seconds: {source.limit_seconds}; {text}"
            ) from None
        if driver.may_pass(error, text):
            raise SourceUnavailable(f"the database {shown} failed: {text}") from None
        raise refusal(shown, text) from None


def refusal(shown: str, text: str) -> InputError:
    """Return the error of a query that the database refused, with the remedy for times in text columns."""
    hint = ""
    if "operator does not exist: text" in text:
        hint = "; cast times that are text, at::timestamptz >= :window_start"
    return InputError(f"the database {shown} refused the query, which may only read: {text}{hint}")


def only_reading(query: str, driver: Driver, shown: str) -> str:
    """Return a query that cannot write.

    A subquery admits a single SELECT only. Warehouses have no read-only sessions: there, the user of the URL
    should have read access only.
    """
    if driver.remember is not None:
        inner = query.rstrip().rstrip(";")
        return f"SELECT * FROM (\n{inner}\n) AS slc_ops_rows"  # noqa: S608 - the operator's own query
    if not re.match(r"\s*(select|with)\b", query, re.IGNORECASE):
        raise InputError(f"the query for {shown} must begin with SELECT or WITH: a source may only read")
    return query


def cut(columns: list[pa.Array], names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most ``rows`` rows with plain values; raise for a duplicate column name."""
    each_once(names)
    found = pa.record_batch([plain(column) for column in columns], names=names)
    for first in range(0, found.num_rows, rows):
        yield found.slice(first, rows)


def each_once(names: list[str]) -> None:
    """Raise for a duplicate column name."""
    if len(set(names)) < len(names):
        raise InputError(f"the query returns a column twice: {', '.join(names)}; name each once")


def plain(found: pa.Array) -> pa.Array:
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


def column_of(values: Sequence[Any]) -> pa.Array:
    """Convert Python values to an Arrow column; raise for a mixture of times with and without a zone."""
    kinds = {type(value) for value in values} - {type(None)}
    if uuid.UUID in kinds:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    if datetime in kinds:
        naive = sum(value.tzinfo is None for value in values if value is not None)
        if 0 < naive < sum(value is not None for value in values):
            raise InputError(f"the query returns {naive} times without a zone among times with one")
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(
            f"the query returns a column of mixed types: {found}; cast it in the query"
        ) from None
