"""The ``source`` block of a deployment: the location of its log and the names of its columns.

It contains no secrets: databases are named by an environment variable or an Airflow connection, object stores
use the credentials of the machine.
"""

import math
import re
from datetime import date, datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from slc_ops.base.errors import SettingsError
from slc_ops.base.window import parse_timestamp
from slc_ops.settings.blocks import SettingsBlock, Zone

CONTRACT_COLUMNS = (
    "event_id", "event_time", "user_id", "item_id", "label", "logit",
    "probability", "weight", "group_id", "backbone_version", "served_probability", "served_version",
)  # fmt: skip

KIND = "`lake`, `delta`, `iceberg`, `sql`, `duckdb`, `files` or `simulator`"


SECRET_KEYS = {"access_key", "secret_key", "session_token", "account_key", "sas_token", "client_secret"}


def without_secret(location: str) -> str:
    """Return a path or URI; raise ``ValueError`` if it contains a password or key.

    >>> without_secret("s3://bucket/lake?region=eu-central-1")
    's3://bucket/lake?region=eu-central-1'
    """
    if "://" in location:
        parts = urlsplit(location)
        keys = {key.lower() for key, _ in parse_qsl(parts.query)}
        user = "@" in parts.netloc and parts.scheme not in (
            "abfs",
            "abfss",
        )  # the container precedes "@"
        if parts.password or user or keys & SECRET_KEYS:
            raise ValueError(
                "holds credentials; leave them out and let the environment or the machine's role provide them"
            )
    return location


Location = Annotated[str, Field(min_length=1), AfterValidator(without_secret)]


class Mapped(SettingsBlock):
    """Settings of columns and event times that every source has."""

    kind: str = Field(description=KIND)
    columns: dict[str, str] = Field(
        default_factory=dict, description="column of the log → the source's column"
    )
    naive_time_zone: Zone | None = Field(
        default=None,
        description="zone of naive event times; unset: they are refused. A repeated local time counts as the "
        "first of the two, a skipped one is moved forward; both are counted",
    )
    epoch_unit: Literal["s", "ms", "us"] | None = Field(
        default=None, description="unit of event times that are numbers since 1970 in UTC"
    )

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, columns: dict[str, str]) -> dict[str, str]:
        for column, name in columns.items():
            if column not in CONTRACT_COLUMNS:
                raise ValueError(f"the log has no column {column!r}; it has: {', '.join(CONTRACT_COLUMNS)}")
            if not name:
                raise ValueError(f"column {column!r} is mapped to an empty name")
        return columns


class Partition(SettingsBlock):
    """A Hive key with a date: ``week=2026-01-05/`` contains the ``days`` days from that date on.

    With it only the window's partitions are opened, and a row in them with a time outside the window is a
    finding. Without it every file is scanned for rows of the window.
    """

    key: str = Field(min_length=1, description="the Hive key; its dates are days of the window's zone")
    days: int = Field(default=1, ge=1, le=3660, description="days from its date on")


MEANT_FOR = {
    "endpoint": ("s3", "gs", "gcs", "abfs", "abfss"),
    "region": ("s3",),
    "anonymous": ("s3", "gs", "gcs"),
}
"""Setting of a location → the path schemes that support it."""


class Located(Mapped):
    """A directory, by a path or any pyarrow filesystem URI."""

    path: Location = Field(
        description="directory (relative to `SLC_OPS_HOME`), `s3://bucket/prefix`, `gs://bucket/prefix` or "
        "`abfs://container@account.dfs.core.windows.net/prefix`"
    )
    endpoint: str | None = Field(
        default=None,
        description="another server with the same API, for example `http://minio:9000`",
    )
    region: str | None = Field(default=None, description="its region (S3)")
    anonymous: bool = Field(
        default=False, description="read a public bucket without credentials (S3, Google Cloud)"
    )

    @model_validator(mode="after")
    def _understood_there(self) -> Self:
        scheme = urlsplit(self.path).scheme if "://" in self.path else ""
        for name, schemes in MEANT_FOR.items():
            if getattr(self, name) and scheme not in schemes:
                raise ValueError(f"{name} is for paths with {' or '.join(f'{each}://' for each in schemes)}")
        return self


class LakeSource(Located):
    """Parquet files, Hive-partitioned or flat; table formats over such files have their own kinds."""

    kind: Literal["lake"] = Field(default="lake", description=KIND)
    partition: Partition | None = Field(
        default=None, description="`{key: week, days: 7}`: the Hive key with a date"
    )


def timestamp_or_version(value: Any) -> Any:
    """Parse ``as_of``: a timestamp with a zone, an integer version, or ``3d`` (after the window's end)."""
    if isinstance(value, (bool, float)):
        raise ValueError(f"must be a version, a timestamp or a number of days such as 3d, found {value}")
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,4}d", value):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]+", value):
        return int(value)
    if isinstance(value, (str, date)):
        try:
            return parse_timestamp(value if isinstance(value, str) else value.isoformat())
        except SettingsError as error:
            raise ValueError(str(error)) from None
    return value


class Versioned(SettingsBlock):
    """Settings of a table with a history."""

    as_of: Annotated[int | datetime | str | None, BeforeValidator(timestamp_or_version)] = Field(
        default=None,
        description="a version (Delta) or snapshot id (Iceberg), a timestamp, or `3d`: "
        "three days after each window's end; unset: the current state",
    )

    def timestamp(self, end: datetime) -> int | datetime | None:
        """Return the version or time to read for a window that ends at ``end``; None: the current one."""
        if isinstance(self.as_of, str):
            return end + timedelta(days=int(self.as_of.removesuffix("d")))
        return self.as_of


class DeltaSource(Located, Versioned):
    """A Delta table; deleted and replaced rows are not read."""

    kind: Literal["delta"] = Field(default="delta", description=KIND)


SECRET_WORDS = ("secret", "password", "token", "credential", "access-key", "account-key", "signer")


class IcebergSource(Mapped, Versioned):
    """A table of an Iceberg catalogue."""

    kind: Literal["iceberg"] = Field(default="iceberg", description=KIND)
    table: str = Field(min_length=1, description="the table's full name, for example `logs.answers`")
    catalog: str = Field(
        default="default",
        description="the catalogue's name; its secrets come from `PYICEBERG_CATALOG__<NAME>__…` variables",
    )
    properties: dict[str, str] = Field(
        default_factory=dict,
        description="the catalogue's properties without secrets, for example `{type: sql, uri: "
        "sqlite:///catalogue.db}` or `{type: rest, uri: https://…}`",
    )

    @field_validator("properties")
    @classmethod
    def _no_secrets(cls, properties: dict[str, str]) -> dict[str, str]:
        for name, value in properties.items():
            if any(word in name.lower() for word in SECRET_WORDS) or "@" in urlsplit(value).netloc:
                raise ValueError(
                    f"{name} holds credentials; leave it out and set PYICEBERG_CATALOG__<NAME>__… in "
                    "the environment"
                )
        return properties


def bound_query(query: str) -> str:
    """Return a query that binds both bounds of the window; raise ``ValueError`` otherwise."""
    for name in ("window_start", "window_end"):
        if not re.search(rf"(?<![:\w]):{name}\b", query):
            raise ValueError(
                f"the query does not bind :{name}; the window's bounds are parameters, never text"
            )
    return query


BoundQuery = Annotated[str, AfterValidator(bound_query)]


class DuckdbSource(Mapped):
    """A table or a query of a DuckDB file, opened read-only."""

    kind: Literal["duckdb"] = Field(default="duckdb", description=KIND)
    path: str = Field(min_length=1, description="the file; relative to `SLC_OPS_HOME`")
    table: str | None = Field(default=None, min_length=1, description="its table or view")
    query: BoundQuery | None = Field(default=None, description="or a SELECT that binds the window's bounds")
    limit_seconds: int = Field(default=1800, ge=1, le=86_400, description="time limit of the query")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("name either a table or a query")
        return self


class SqlSource(Mapped):
    """A database query that binds ``:window_start`` and ``:window_end``."""

    kind: Literal["sql"] = Field(default="sql", description=KIND)
    query: BoundQuery = Field(
        description="SELECT that binds the window's bounds as parameters, for example "
        "`SELECT * FROM answers WHERE event_time >= :window_start AND event_time < :window_end`"
    )
    url_env: str | None = Field(
        default=None, description="environment variable (in `.env.sources`) with the database's URL"
    )
    connection: str | None = Field(default=None, description="or an Airflow connection with the URL")
    batch_rows: int = Field(default=50_000, ge=1, le=10_000_000, description="rows per fetch")
    limit_seconds: int = Field(default=1800, ge=1, le=86_400, description="time limit of a fetch")

    @model_validator(mode="after")
    def _named(self) -> Self:
        if (self.url_env is None) == (self.connection is None):
            raise ValueError("name the database with either url_env or connection")
        return self


class FilesSource(Mapped):
    """CSV, Feather or Parquet files by path or pattern; newer files do not override older ones."""

    kind: Literal["files"] = Field(default="files", description=KIND)
    paths: tuple[str, ...] = Field(
        min_length=1, description="files or patterns; Parquet, Feather or CSV (also `.csv.gz`)"
    )

    @field_validator("paths")
    @classmethod
    def _known_suffixes(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            suffixes = (".csv", ".csv.gz", ".feather", ".arrow", ".parquet")
            if not PurePosixPath(path).name.endswith(suffixes):
                raise ValueError(f"{path!r} has none of the endings {', '.join(suffixes)}")
        return paths


class SimulatorSource(Mapped):
    """A simulated platform; ``platform`` has the fields of ``slc_ops.demo.population.Platform``."""

    kind: Literal["simulator"] = Field(default="simulator", description=KIND)
    start: str = Field(default="2026-01-05", description="first week")
    platform: dict[str, Any] = Field(default_factory=dict, description="parameters of the simulated platform")

    @field_validator("platform")
    @classmethod
    def _finite_numbers(cls, platform: dict[str, Any]) -> dict[str, Any]:
        for name, value in platform.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, found {value}")
        return platform


READERS: dict[type[Mapped], str] = {
    LakeSource: "slc_ops.intake.sources.lake:Lake",
    DeltaSource: "slc_ops.intake.sources.delta:Delta",
    IcebergSource: "slc_ops.intake.sources.iceberg:Iceberg",
    SqlSource: "slc_ops.intake.sources.sql:Query",
    DuckdbSource: "slc_ops.intake.sources.duckdb:Duckdb",
    FilesSource: "slc_ops.intake.sources.files:Files",
    SimulatorSource: "slc_ops.demo.population:Simulation",
}
"""The registry of sources: the settings class of a kind → its reader, imported on use."""
SOURCES = tuple(READERS)
if TYPE_CHECKING:
    Source = Mapped
else:
    Source = Annotated[Union[SOURCES], Field(discriminator="kind")]  # noqa: UP007 - of a tuple
