"""PostgreSQL as Arrow batches, through ADBC: the cursor, the limits and the values of the other way."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.settings.sources import SqlSource

ROWS = "slc_ops_rows"
GONE = ("08", "57", "53")
"""SQLSTATE classes that trying again may cure: connection, shutdown or time limit, resources."""


def arrow_batches(
    url: sa.URL,
    source: SqlSource,
    bounds: dict[str, Any],
    shown: str,
    column_of: Callable[[list[Any]], pa.Array],
) -> Iterator[pa.RecordBatch]:
    """The rows of the query, ``batch_rows`` at a time, through a cursor of the server.

    The bounds are parameters of a statement of their own; the query finds them in the session. It is
    declared as a cursor, which only a single SELECT can be, in a read-only transaction.
    """
    import adbc_driver_manager as manager
    from adbc_driver_postgresql import dbapi  # type: ignore[import-untyped]  # it has no stubs

    try:
        with closing(dbapi.connect(address(url, source.limit_seconds))) as connection:
            names = [f"slc_ops.{name}" for name in bounds]
            values = [str(value) for value in bounds.values()]
            pairs = ", ".join(f"set_config('{name}', ${k}, false)" for k, name in enumerate(names, start=1))
            ask(connection, f"SELECT {pairs}", values)
            kind = "bigint" if source.epoch_unit else "timestamp" if source.naive_time_zone else "timestamptz"
            query = re.sub(
                r"(?<![:\w]):(window_start|window_end)\b",
                rf"current_setting('slc_ops.\1')::{kind}",
                source.query,
            )
            ask(connection, f"DECLARE {ROWS} NO SCROLL CURSOR FOR {query}")
            while (rows := ask(connection, f"FETCH {source.batch_rows} FROM {ROWS}")).num_rows:
                if len(set(rows.column_names)) < rows.num_columns:
                    listed = ", ".join(rows.column_names)
                    raise InputError(f"the query returns a column twice: {listed}; name each once")
                columns = [plain(rows.column(k), column_of) for k in range(rows.num_columns)]
                yield pa.record_batch(columns, names=rows.column_names)
    except manager.Error as error:
        text = str(error)
        text = " ".join(text[max(text.find("ERROR:"), 0) :].split())[
            :300
        ]  # what stands before it is the query
        if not error.sqlstate or error.sqlstate.startswith(GONE):
            raise SourceUnavailable(f"the database {shown} failed: {text}") from None
        raise InputError(f"the database {shown} refused the query, which may only read: {text}") from None


def ask(connection: Any, statement: str, values: list[str] | None = None) -> pa.Table:
    """One statement and its rows; a COPY, the driver's habit, takes no cursor."""
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        cursor.execute(statement, values)
        return cursor.fetch_arrow_table()


def address(url: sa.URL, seconds: int) -> str:
    """The database's address for libpq: a read-only session in UTC with a limit per statement."""
    options = f"-c timezone=UTC -c statement_timeout={seconds * 1000} -c default_transaction_read_only=on"
    asked = url.set(drivername="postgresql").update_query_dict({"options": options, "connect_timeout": "10"})
    if (asked.host or "").startswith("/"):  # the directory of a socket
        asked = asked.set(host="").update_query_dict({"host": str(url.host)})
    place, _, query = asked.render_as_string(hide_password=False).partition("?")
    return f"{place}?{query.replace('+', '%20')}"  # libpq takes a plus for a plus


def plain(values: pa.ChunkedArray, column_of: Callable[[list[Any]], pa.Array]) -> pa.Array:
    """The values as the other way has them: exact decimals, UUIDs as text, short floats as written."""
    found = values.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)
    if isinstance(found.type, pa.OpaqueType) and found.type.type_name == "numeric":
        texts = found.storage.to_pylist()
        return column_of([None if text is None else Decimal(text) for text in texts])
    if isinstance(found, pa.ExtensionArray):
        return column_of(found.to_pylist())
    if pa.types.is_float32(found.type):
        return pc.cast(pc.cast(found, pa.string()), pa.float64())
    return found
