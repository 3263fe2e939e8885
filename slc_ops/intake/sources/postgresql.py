"""PostgreSQL as Arrow batches through ADBC, with the limits and values of the path through SQLAlchemy."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.intake.sources.adbc import ColumnOf, cut, limited
from slc_ops.intake.sources.bounds import BOUND
from slc_ops.settings.sources import SqlSource

GONE = ("08", "57", "53")
"""SQLSTATE classes for which a retry may succeed: connection, shutdown or time limit, resources."""
PASSING = ("canceling statement", "terminating connection", "out of memory", "No space left")
"""Messages for which a retry may succeed."""
BATCH_BYTES = 1 << 23
"""Approximate size of the driver's batches."""


def batches(
    url: sa.URL, source: SqlSource, bounds: dict[str, Any], shown: str, column_of: ColumnOf
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the query, at most ``batch_rows`` at a time, by PostgreSQL's binary copy.

    A separate statement stores the bounds in the session by parameters; the query reads them there. It runs
    as a subquery, which admits a single SELECT only, in a read-only transaction.
    """
    import adbc_driver_manager as manager
    from adbc_driver_postgresql import dbapi  # type: ignore[import-untyped]  # it has no stubs

    try:
        with closing(dbapi.connect(address(url))) as connection, connection.cursor() as cursor:
            remember(connection, bounds)
            with limited(cursor, source, shown) as clock:
                cursor.adbc_statement.set_options(
                    **{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)}
                )
                cursor.execute(as_table(source))
                for batch in clock.with_each(iter(cursor.fetch_record_batch())):
                    yield from cut(batch.columns, batch.schema.names, source.batch_rows, column_of)
    except (manager.Error, pa.ArrowException, OSError) as error:
        text = str(error)
        text = " ".join(text[max(text.find("ERROR:"), 0) :].split())[:300]  # drops the query before it
        if may_pass(text, getattr(error, "sqlstate", None)):
            raise SourceUnavailable(f"the database {shown} failed: {text}") from None
        raise InputError(f"the database {shown} refused the query, which may only read: {text}") from None


def may_pass(text: str, state: str | None) -> bool:
    """Return True when a retry may succeed. Errors between rows have no SQLSTATE.

    >>> may_pass("ERROR: canceling statement due to conflict with recovery", None), may_pass("", "08006")
    (True, True)
    >>> may_pass('ERROR: column "at" does not exist', "42703"), may_pass("ERROR: division by zero", None)
    (False, False)
    """
    if state:
        return state.startswith(GONE)
    return not text.startswith("ERROR:") or any(word in text for word in PASSING)


def remember(connection: Any, bounds: dict[str, Any]) -> None:
    """Store the window's bounds in the session."""
    pairs = [f"set_config('slc_ops.{name}', ${k}, false)" for k, name in enumerate(bounds, start=1)]
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})  # copy takes no parameters
        cursor.execute(f"SELECT {', '.join(pairs)}", [str(value) for value in bounds.values()])
        cursor.fetchall()


def as_table(source: SqlSource) -> str:
    """Return the query as a subquery, with the bounds from the session."""
    kind = "bigint" if source.epoch_unit else "timestamp" if source.naive_time_zone else "timestamptz"
    query = BOUND.sub(rf"current_setting('slc_ops.\1')::{kind}", source.query)
    inner = query.rstrip().rstrip(";")
    return f"SELECT * FROM (\n{inner}\n) AS slc_ops_rows"  # noqa: S608 - the operator's own query


def address(url: sa.URL) -> str:
    """Return the database's address for libpq: a read-only session in UTC."""
    options = "-c timezone=UTC -c default_transaction_read_only=on"
    asked = url.set(drivername="postgresql").update_query_dict({"options": options, "connect_timeout": "10"})
    if (asked.host or "").startswith("/"):  # the directory of a socket
        asked = asked.set(host="").update_query_dict({"host": str(url.host)})
    place, _, query = asked.render_as_string(hide_password=False).partition("?")
    return f"{place}?{query.replace('+', '%20')}"  # libpq does not decode a plus
