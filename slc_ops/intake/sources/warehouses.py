"""Addresses of warehouses for ADBC: Flight SQL, Snowflake, BigQuery.

Credentials come from the URL, the Airflow connection or the machine, never from the deployments file.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from slc_ops.base.errors import SettingsError
from slc_ops.settings.sources import SqlSource

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LOGIN_SECONDS = 10


def same(value: Any) -> Any:
    """Return the value unchanged."""
    return value


@dataclass(frozen=True)
class Address:
    """Arguments of a driver, and the conversion of bounds and column names."""

    address: str | None = field(repr=False)
    options: dict[str, str] = field(repr=False)  # includes credentials
    parameter: str = "?"
    value: Callable[[Any], Any] = same
    name: Callable[[str], str] = same

    @property
    def place(self) -> dict[str, str]:
        """Return the address as an argument, for drivers that have one."""
        return {} if self.address is None else {"uri": self.address}


def connection_of(url: sa.URL, source: SqlSource) -> Address:
    """Return the address and options for the driver of the URL's database."""
    return {"grpc": flight, "snowflake": snowflake, "bigquery": bigquery}[url.get_backend_name()](url, source)


def flight(url: sa.URL, source: SqlSource) -> Address:
    """Return the address of a Flight SQL server (Dremio, InfluxDB, Doris, …), with the login as options."""
    if url.drivername == "grpc":
        refuse_clear_text(url, "use grpc+tls://")
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host
    seconds = str(source.limit_seconds)
    limits = {f"adbc.flight.sql.rpc.timeout_seconds.{each}": seconds for each in ("query", "fetch")}
    who = {"username": url.username, "password": str(url.password) if url.password else None}
    return Address(
        f"{url.drivername}://{host}" + (f":{url.port}" if url.port else ""),
        limits | {name: value for name, value in who.items() if value is not None},
    )


def snowflake(url: sa.URL, source: SqlSource) -> Address:
    """Return the address of ``snowflake://user:password@account/database/schema?warehouse=…&role=…``.

    ``private_key_file`` replaces the password for key-pair authentication; other parameters go to the driver.
    Upper-case column names (unquoted identifiers) become lower case: ``EVENT_ID`` means ``event_id``.
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
    return Address(
        named.render_as_string(hide_password=False).removeprefix("snowflake://"),
        options,
        parameter=typed(source, "timestamp_tz", "timestamp_ntz"),
        value=spelled,
        name=lambda name: name.lower() if name.isupper() else name,
    )


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
    return Address(None, options, parameter=typed(source, "timestamp", "datetime"), value=spelled)


def typed(source: SqlSource, instant: str, local: str) -> str:
    """Return a parameter cast to the type of the log's times: these drivers accept times as text only."""
    if source.epoch_unit:
        return "?"
    return f"cast(? as {local if source.naive_time_zone else instant})"


def spelled(value: Any) -> Any:
    """Return a time as text; other values unchanged."""
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value


def refuse_clear_text(url: sa.URL, remedy: str) -> None:
    """Raise when a password would be sent without TLS to another machine."""
    if url.password and url.host not in LOOPBACK:
        raise SettingsError(f"{url.drivername}:// would send the password in the clear; {remedy}")
