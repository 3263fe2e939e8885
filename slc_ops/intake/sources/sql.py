"""A database query, streamed. The window's bounds are bound parameters, never text in the query."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc as saexc

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import SettingsError, SourceUnavailable
from slc_ops.base.extras import MissingExtra
from slc_ops.base.lineage import Data
from slc_ops.base.threads import made_ahead
from slc_ops.base.window import Window
from slc_ops.intake.dataset_names import in_database
from slc_ops.intake.sources import Source
from slc_ops.intake.sources.adbc import column_of, each_once, fetched, has_driver, refusal
from slc_ops.intake.sources.bounds import Patience, bounds, one_line
from slc_ops.intake.sources.drivers import DRIVERS
from slc_ops.settings.connections import Connection, find_connection
from slc_ops.settings.sources import SqlSource


class Query(Source):
    """Rows that the operator's query selects for the window.

    The session is read-only and in UTC, and a fetch may take ``limit_seconds``. PostgreSQL streams through a
    server-side cursor. SQLite has no time type: its bounds are text such as ``2026-01-05 00:00:00+00:00``,
    for ``datetime(column) >= datetime(:window_start)``.
    """

    selects = True

    def __init__(self, source: SqlSource, home: Path, window: Window) -> None:
        self.source, self.window = source, window
        self.url = database_url(source, home)

    def datasets(self) -> list[Data]:
        """Return the data sets for lineage."""
        return in_database(self.url, self.source.query)

    def describe(self) -> dict[str, Any]:
        """Return the database and the digest of the query, without user and password."""
        url = self.url
        shown = sa.URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
        return {"kind": "sql", "database": shown.render_as_string(), "query": digest_json(self.source.query)}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the query's rows, ``batch_rows`` at a time: as Arrow if the ADBC driver is installed."""
        if not has_driver(self.url.get_backend_name()):
            return self.through_python()
        rows = fetched(self.url, self.source, bounds(self.source, self.window), self._shown())
        return made_ahead(rows, depth=3)

    def through_python(self) -> Iterator[pa.RecordBatch]:
        """Yield the same rows through SQLAlchemy."""
        engine = self._engine()
        options = {"stream_results": True, "max_row_buffer": self.source.batch_rows}
        if engine.dialect.name == "postgresql":
            options["postgresql_readonly"] = True
        try:
            with engine.connect().execution_options(**options) as connection:
                patience = Patience(self.source.limit_seconds)
                if engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("PRAGMA query_only = ON")
                    guard(connection.connection.driver_connection, patience)
                result = connection.execute(
                    sa.text(self.source.query),
                    bounds(self.source, self.window, text=engine.dialect.name == "sqlite"),
                )
                names = list(result.keys())
                each_once(names)
                for rows in patience.with_each(result.partitions(self.source.batch_rows)):
                    columns = zip(*rows, strict=True)
                    yield pa.record_batch([column_of(values) for values in columns], names=names)
        except (saexc.OperationalError, saexc.InterfaceError) as error:
            raise SourceUnavailable(f"the database {self._shown()} failed: {one_line(error)}") from None
        except saexc.DBAPIError as error:
            if error.connection_invalidated:
                raise SourceUnavailable(
                    f"the database {self._shown()} went away: {one_line(error)}"
                ) from None
            raise refusal(self._shown(), one_line(error)) from None
        finally:
            engine.dispose()

    def _engine(self) -> sa.Engine:
        try:
            return sa.create_engine(self.url, poolclass=sa.NullPool, connect_args=self._connect_args())
        except (saexc.NoSuchModuleError, ModuleNotFoundError):
            backend = self.url.get_backend_name()
            if backend in DRIVERS:
                driver = DRIVERS[backend]
                missing = {driver.extra: driver.module.replace("_", "-")}
                raise MissingExtra(self._shown(), missing) from None
            raise SettingsError(
                f"{self._shown()} needs SQLAlchemy's dialect for {backend} and its driver, which is not "
                "installed"
            ) from None

    def _shown(self) -> str:
        return str(self.describe()["database"])

    def _connect_args(self) -> dict[str, Any]:
        if self.url.get_backend_name() == "postgresql":
            milliseconds = self.source.limit_seconds * 1000
            options = f"-c timezone=UTC -c statement_timeout={milliseconds}"
            return {"options": options, "connect_timeout": 10}
        return {}


def guard(connection: Any, patience: Patience) -> None:
    """Restrict a SQLite session to reading and computing: no ATTACH, no PRAGMA, no VACUUM INTO a file."""
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY
    )
    connection.set_progress_handler(patience.is_over, 100_000)  # instructions: some milliseconds


def database_url(source: SqlSource, home: Path) -> sa.URL:
    """Return the database's URL, from the environment or an Airflow connection."""
    if source.connection is not None:
        return connection_url(source.connection)
    text = os.environ.get(source.url_env or "")
    if not text:
        raise SettingsError(
            f"the environment variable {source.url_env} is not set; it must hold the database's URL, "
            "for example postgresql://user@host/logs"
        )
    try:
        url = sa.make_url(text)
    except saexc.ArgumentError:  # not shown: the text may contain a password
        raise SettingsError(f"the environment variable {source.url_env} holds no database URL") from None
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
        path = home / url.database
        if not path.exists():  # SQLite would create it and report "no such table"
            raise SourceUnavailable(f"there is no SQLite database {path}")
        return url.set(database=str(path))
    return url


def connection_url(name: str) -> sa.URL:
    """Return a database's URL from an Airflow connection."""
    found = find_connection(name)
    if found is None:
        raise SettingsError(f"there is no Airflow connection {name!r}; create it or use url_env")
    kinds: dict[str, Callable[[Connection], sa.URL]] = {
        "gcpbigquery": bigquery_url,
        "google_cloud_platform": bigquery_url,
        "postgres": postgresql_url,
        "postgresql": postgresql_url,
        "snowflake": snowflake_url,
        "sqlite": lambda sqlite: sa.URL.create("sqlite", database=sqlite.host),
    }
    if found.conn_type not in kinds:
        raise SettingsError(
            f"the Airflow connection {name!r} is of type {found.conn_type}; expected postgres, sqlite, "
            "snowflake or google_cloud_platform"
        )
    return kinds[found.conn_type](found)


def postgresql_url(found: Connection) -> sa.URL:
    """Return the URL of an Airflow connection of type ``postgres``."""
    return sa.URL.create(
        "postgresql+psycopg",
        username=found.login,
        password=found.password,
        host=found.host,
        port=found.port,
        database=found.schema,
    )


def snowflake_url(found: Connection) -> sa.URL:
    """Return the URL of an Airflow connection of type ``snowflake``; account and database are extras."""
    account = found.extra.get("account") or found.host
    if not account:
        raise SettingsError(f"the Airflow connection {found.conn_id!r} names no account")
    region = found.extra.get("region")
    names = [str(each) for each in (found.extra.get("database"), found.schema) if each]
    given = {name: found.extra.get(name) for name in ("warehouse", "role", "private_key_file")}
    return sa.URL.create(
        "snowflake",
        username=found.login,
        password=found.password,
        host=f"{account}.{region}" if region else str(account),
        database="/".join(names) or None,
        query={name: str(value) for name, value in given.items() if value},
    )


def bigquery_url(found: Connection) -> sa.URL:
    """Return the URL of an Airflow connection of type ``google_cloud_platform`` (``schema``: dataset)."""
    given = {
        "credentials_path": found.extra.get("key_path"),
        "credentials": found.extra.get("keyfile_dict"),
        "location": found.extra.get("location"),
    }
    texts = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items() if value
    }
    return sa.URL.create(
        "bigquery", host=found.extra.get("project") or None, database=found.schema or None, query=texts
    )
