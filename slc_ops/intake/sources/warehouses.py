"""How each warehouse is addressed through ADBC: Flight SQL, Snowflake, BigQuery.

Credentials come with the URL or the Airflow connection, or from the machine; nothing of them is in the
deployments file.
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
    """What a server takes as it is."""
    return value


@dataclass(frozen=True)
class Address:
    """What a driver is handed, and how its server takes the bounds and names the columns."""

    address: str | None = field(repr=False)
    options: dict[str, str] = field(repr=False)  # with credentials
    parameter: str = "?"
    value: Callable[[Any], Any] = same
    name: Callable[[str], str] = same

    @property
    def place(self) -> dict[str, str]:
        """The address as an argument, for drivers that have one."""
        return {} if self.address is None else {"uri": self.address}


def connection_of(url: sa.URL, source: SqlSource) -> Address:
    """The address and the options for the driver of the URL's database."""
    return {"grpc": flight, "snowflake": snowflake, "bigquery": bigquery}[url.get_backend_name()](url, source)


def flight(url: sa.URL, source: SqlSource) -> Address:
    """A Flight SQL server (Dremio, InfluxDB, Doris, …), which takes user and password apart."""
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
    """``snowflake://user:password@account/database/schema?warehouse=…&role=…``.

    ``private_key_file`` instead of a password names the key of a user with key-pair authentication; other
    parameters are the driver's own. Its columns are called ``EVENT_ID`` where nobody quoted them, and mean
    ``event_id``.
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
    """``bigquery://project/dataset?location=EU``, with the credentials of the machine.

    ``credentials_path`` names another file of credentials, ``credentials`` holds one.
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
    """A parameter in the type of the log's times: these drivers take no times, so they get text."""
    if source.epoch_unit:
        return "?"
    return f"cast(? as {local if source.naive_time_zone else instant})"


def spelled(value: Any) -> Any:
    """A time as text."""
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value


def refuse_clear_text(url: sa.URL, remedy: str) -> None:
    """No password travels without TLS, except on this machine."""
    if url.password and url.host not in LOOPBACK:
        raise SettingsError(f"{url.drivername}:// would send the password in the clear; {remedy}")
