"""A Flight SQL server (Dremio, InfluxDB, Doris, …) as Arrow batches, through ADBC."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from slc_ops.base.errors import InputError, SettingsError, SourceUnavailable
from slc_ops.intake.sources.adbc import plain
from slc_ops.settings.sources import SqlSource

LOOPBACK = ("localhost", "127.0.0.1", "::1")
BOUND = re.compile(r"(?<![:\w]):(window_start|window_end)\b")
REFUSED = {
    "INVALID_ARGUMENT", "INVALID_DATA", "NOT_FOUND", "NOT_IMPLEMENTED", "UNAUTHENTICATED", "UNAUTHORIZED",
}  # fmt: skip
"""What trying again does not cure."""


def flight_batches(
    url: sa.URL,
    source: SqlSource,
    bounds: dict[str, Any],
    shown: str,
    column_of: Callable[[list[Any]], pa.Array],
) -> Iterator[pa.RecordBatch]:
    """The rows of the query, at most ``batch_rows`` at a time.

    The window's bounds are parameters of a prepared statement. Flight SQL knows no read-only sessions: the
    user that the URL names should have the right to read, and no other.
    """
    import adbc_driver_manager as manager
    from adbc_driver_flightsql import dbapi

    if not re.match(r"\s*(select|with)\b", source.query, re.IGNORECASE):
        raise InputError(f"the query for {shown} must begin with SELECT or WITH: a source may only read")
    values = [bounds[name] for name in BOUND.findall(source.query)]
    try:
        with (
            closing(dbapi.connect(address(url), options(url, source.limit_seconds), autocommit=True)) as link,
            link.cursor() as cursor,
        ):
            cursor.execute(BOUND.sub("?", source.query), values)
            for batch in cursor.fetch_record_batch():
                names = batch.schema.names
                if len(set(names)) < len(names):
                    raise InputError(f"the query returns a column twice: {', '.join(names)}; name each once")
                columns = [plain(pa.chunked_array([column]), column_of) for column in batch.columns]
                found = pa.record_batch(columns, names=names)
                for first in range(0, found.num_rows, source.batch_rows):
                    yield found.slice(first, source.batch_rows)
    except (manager.Error, pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())[:300]
        if isinstance(error, manager.Error) and error.status_code.name in REFUSED:
            raise InputError(f"the server {shown} refused the query: {text}") from None
        raise SourceUnavailable(f"the server {shown} failed: {text}") from None


def address(url: sa.URL) -> str:
    """The server's address for the driver, which takes user and password apart."""
    if url.drivername == "grpc" and url.password and url.host not in LOOPBACK:
        raise SettingsError("grpc:// would send the password in the clear; use grpc+tls://")
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host
    return f"{url.drivername}://{host}" + (f":{url.port}" if url.port else "")


def options(url: sa.URL, seconds: int) -> dict[str, str]:
    """Who asks, and how long the server may take for the query and between two batches."""
    limits = {f"adbc.flight.sql.rpc.timeout_seconds.{each}": str(seconds) for each in ("query", "fetch")}
    who = {"username": url.username, "password": str(url.password) if url.password else None}
    return limits | {name: value for name, value in who.items() if value is not None}
