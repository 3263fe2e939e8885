"""The table of ADBC drivers: the extra of each, and the form of its address, query, bounds and errors.

Credentials come from the URL, the Airflow connection or the machine, never from the deployments file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from slc_ops.base.errors import SettingsError
from slc_ops.settings.sources import SqlSource

Address = tuple[str | None, dict[str, str]]
"""An address and the options of a connection; both may contain credentials."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
LOGIN_SECONDS = 10
REFUSED = {
    "INVALID_ARGUMENT", "INVALID_DATA", "NOT_FOUND", "NOT_IMPLEMENTED", "UNAUTHENTICATED", "UNAUTHORIZED",
}  # fmt: skip
"""Status codes of drivers for which a retry is useless."""
GONE = ("08", "57", "53")
"""PostgreSQL's SQLSTATE classes for which a retry may succeed: connection, shutdown or limit, resources."""
PASSING = ("canceling statement", "terminating connection", "out of memory", "No space left")
"""PostgreSQL's messages for which a retry may succeed."""


def may_pass(error: Exception, text: str) -> bool:
    """Return True when a retry may succeed, by the driver's status code."""
    return getattr(getattr(error, "status_code", None), "name", "") not in REFUSED


def may_pass_in_postgresql(error: Exception, text: str) -> bool:
    """Return True when a retry may succeed. Errors between rows have no SQLSTATE.

    >>> may_pass_in_postgresql(ValueError(), "ERROR: canceling statement due to conflict with recovery")
    True
    >>> may_pass_in_postgresql(ValueError(), "ERROR: division by zero")
    False
    """
    if state := getattr(error, "sqlstate", None):
        return str(state).startswith(GONE)
    return not text.startswith("ERROR:") or any(word in text for word in PASSING)


def remember(connection: Any, bounds: Mapping[str, Any]) -> None:
    """Store the window's bounds in the session, by parameters of a separate statement."""
    pairs = [f"set_config('slc_ops.{name}', ${k}, false)" for k, name in enumerate(bounds, start=1)]
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})  # copy takes no parameters
        cursor.execute(f"SELECT {', '.join(pairs)}", [str(value) for value in bounds.values()])
        cursor.fetchall()


def libpq_address(url: sa.URL, source: SqlSource) -> Address:
    """Return the database's address for libpq: a read-only session in UTC."""
    options = "-c timezone=UTC -c default_transaction_read_only=on"
    asked = url.set(drivername="postgresql").update_query_dict({"options": options, "connect_timeout": "10"})
    if (asked.host or "").startswith("/"):  # the directory of a socket
        asked = asked.set(host="").update_query_dict({"host": str(url.host)})
    place, _, query = asked.render_as_string(hide_password=False).partition("?")
    return f"{place}?{query.replace('+', '%20')}", {}  # libpq does not decode a plus


def flight(url: sa.URL, source: SqlSource) -> Address:
    """Return the address of a Flight SQL server (Dremio, InfluxDB, Doris, …), with the login as options."""
    if url.drivername == "grpc":
        refuse_clear_text(url, "use grpc+tls://")
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host
    seconds = str(source.limit_seconds)
    limits = {f"adbc.flight.sql.rpc.timeout_seconds.{each}": seconds for each in ("query", "fetch")}
    who = {"username": url.username, "password": str(url.password) if url.password else None}
    address = f"{url.drivername}://{host}" + (f":{url.port}" if url.port else "")
    return address, limits | {name: value for name, value in who.items() if value is not None}


def snowflake(url: sa.URL, source: SqlSource) -> Address:
    """Return the address of ``snowflake://user:password@account/database/schema?warehouse=…&role=…``.

    ``private_key_file`` replaces the password for key-pair authentication; other parameters go to the driver.
    """
    query = {name: str(value) for name, value in url.query.items()}
    if query.get("protocol") == "http":
        refuse_clear_text(url, "leave protocol out")
    options = {
        "adbc.snowflake.sql.client_option.login_timeout": f"{LOGIN_SECONDS}s",
        "adbc.snowflake.sql.client_option.request_timeout": f"{source.limit_seconds}s",
        "adbc.snowflake.sql.client_option.max_timestamp_precision": "microseconds",
    }
    if key := query.pop("private_key_file", None):
        options["adbc.snowflake.sql.auth_type"] = "auth_jwt"
        options["adbc.snowflake.sql.client_option.jwt_private_key"] = key
    session = {"TIMEZONE": "UTC", "STATEMENT_TIMEOUT_IN_SECONDS": str(source.limit_seconds)}
    named = url.set(drivername="snowflake", query={**session, **query})
    return named.render_as_string(hide_password=False).removeprefix("snowflake://"), options


def bigquery(url: sa.URL, source: SqlSource) -> Address:
    """Return the options of ``bigquery://project/dataset?location=EU``, with the machine's credentials.

    ``credentials_path`` names another credentials file, ``credentials`` contains one.
    """
    own = "adbc.bigquery.sql"
    query = {name: str(value) for name, value in url.query.items()}
    if not url.host:
        raise SettingsError("a BigQuery URL names its project: bigquery://project/dataset")
    options = {f"{own}.project_id": url.host}
    if url.database:
        options[f"{own}.dataset_id"] = url.database
    for name, value in query.items():
        if name == "location":
            options[f"{own}.{name}"] = value
        elif name in ("credentials", "credentials_path"):
            kind = "json_credential_string" if name == "credentials" else "json_credential_file"
            options[f"{own}.auth_type"] = f"{own}.auth_type.{kind}"
            options[f"{own}.auth_credentials"] = value
        else:
            raise SettingsError(
                f"a BigQuery URL has no parameter {name!r}; it takes location and credentials_path"
            )
    return None, options


def refuse_clear_text(url: sa.URL, remedy: str) -> None:
    """Raise when a password would be sent without TLS to another machine."""
    if url.password and url.host not in LOOPBACK:
        raise SettingsError(f"{url.drivername}:// would send the password in the clear; {remedy}")


@dataclass(frozen=True)
class Driver:
    """A driver's module, its extra, the address of a URL, and the form of a query."""

    module: str
    extra: str
    address: Callable[[sa.URL, SqlSource], Address]
    bound: str = "?"
    """A bound in the query: ``\\1`` is its name, ``{kind}`` the type of the log's times."""
    kinds: tuple[str, str, str] = ("", "", "")
    """Types of timestamps, local times and numbers; "" needs no type."""
    times_as_text: bool = False
    lower_case: bool = False
    """True if upper-case column names (unquoted identifiers) become lower case: ``EVENT_ID``."""
    may_pass: Callable[[Exception, str], bool] = may_pass
    """Returns True for an error (and its text) after which a retry may succeed."""
    remember: Callable[[Any, Mapping[str, Any]], None] | None = None
    """Stores the bounds in the session: it is read-only, and admits the query as a subquery only."""
    statement: dict[str, str] = field(default_factory=dict)
    """Options of the statement."""

    def parameter(self, source: SqlSource) -> str:
        """Return a bound in the query, cast to the type of the log's times."""
        kind = self.kinds[2 if source.epoch_unit else 1 if source.naive_time_zone else 0]
        return self.bound.format(kind=kind) if kind else "?"

    def value(self, bound: Any) -> Any:
        """Return the value of a bound."""
        return bound.isoformat(sep=" ") if self.times_as_text and isinstance(bound, datetime) else bound

    def name(self, column: str) -> str:
        """Return the name of a column."""
        return column.lower() if self.lower_case and column.isupper() else column


DRIVERS = {
    "bigquery": Driver(
        "adbc_driver_bigquery", "bigquery", bigquery, "cast(? as {kind})", ("timestamp", "datetime", ""),
        times_as_text=True,
    ),
    "grpc": Driver("adbc_driver_flightsql", "warehouse", flight),
    "postgresql": Driver(  # binary COPY takes no parameters: the session stores the bounds
        "adbc_driver_postgresql", "warehouse", libpq_address,
        r"current_setting('slc_ops.\1')::{kind}", ("timestamptz", "timestamp", "bigint"),
        may_pass=may_pass_in_postgresql, remember=remember,
        statement={"adbc.postgresql.batch_size_hint_bytes": str(1 << 23)},
    ),
    "snowflake": Driver(
        "adbc_driver_snowflake", "snowflake", snowflake, "cast(? as {kind})",
        ("timestamp_tz", "timestamp_ntz", ""), times_as_text=True, lower_case=True,
    ),
}  # fmt: skip
"""Database → its driver; other databases need their SQLAlchemy dialect."""
