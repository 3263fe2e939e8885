"""The ``source`` block of a deployment: where its log lies and how its columns are called there.

No secrets here: databases are named by an environment variable or an Airflow connection, object stores use
the credentials of the machine.
"""

import math
import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, field_validator, model_validator

from slc_ops.settings.part import Part

CONTRACT_COLUMNS = (
    "event_id", "event_time", "user_id", "item_id", "label", "logit",
    "probability", "weight", "group_id", "backbone_version",
)  # fmt: skip

KIND = "`lake`, `sql`, `files` or `simulator`"


def without_secret(location: str) -> str:
    """A path or URI that holds no password and no key.

    >>> without_secret("s3://bucket/lake?region=eu-central-1")
    's3://bucket/lake?region=eu-central-1'
    """
    if "://" in location:
        parts = urlsplit(location)
        keys = {key.lower() for key, _ in parse_qsl(parts.query)}
        if parts.password or "@" in parts.netloc or keys & {"access_key", "secret_key", "session_token"}:
            raise ValueError(
                "holds credentials; leave them out and let the environment or the machine's role provide them"
            )
    return location


Location = Annotated[str, Field(min_length=1), AfterValidator(without_secret)]


class Mapped(Part):
    """What every source may say about its columns."""

    columns: dict[str, str] = Field(default_factory=dict, description="contract column → the source's column")
    naive_time_zone: str | None = Field(
        default=None, description="zone of event times that carry none; without it they are refused"
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

    @field_validator("naive_time_zone")
    @classmethod
    def _known_zone(cls, zone: str | None) -> str | None:
        if zone is not None and zone not in available_timezones():
            raise ValueError(f"{zone!r} is no time zone; use a name such as UTC or Europe/Berlin")
        return zone


class Partition(Part):
    """A Hive key that holds a date: ``week=2026-01-05/`` selects the ``days`` days from that date on.

    With it only the window's partitions are opened, and a row in them with a time outside the window is a
    finding. Without it every file is asked for rows of the window.
    """

    key: str = Field(min_length=1, description="the Hive key")
    days: int = Field(default=1, ge=1, le=3660, description="days from its date on")


class LakeSource(Mapped):
    """Parquet files, Hive-partitioned or flat, on a path or any pyarrow filesystem URI."""

    kind: Literal["lake"] = Field(default="lake", description=KIND)
    path: Location = Field(description="directory or `s3://bucket/prefix`; relative to `SLC_OPS_HOME`")
    partition: Partition | None = Field(
        default=None, description="`{key: week, days: 7}`: the Hive key that holds a date"
    )
    endpoint: str | None = Field(
        default=None, description="S3-compatible server, for example `http://minio:9000`"
    )
    region: str | None = Field(default=None, description="its region")
    anonymous: bool = Field(default=False, description="read a public bucket without credentials")

    @model_validator(mode="after")
    def _s3_only(self) -> Self:
        if (self.endpoint or self.region or self.anonymous) and not self.path.startswith("s3://"):
            raise ValueError("endpoint, region and anonymous are for s3:// paths")
        return self


class SqlSource(Mapped):
    """A query on PostgreSQL or SQLite that binds ``:window_start`` and ``:window_end``."""

    kind: Literal["sql"] = Field(default="sql", description=KIND)
    query: str = Field(
        description="SELECT that binds the window's bounds as parameters, for example "
        "`SELECT * FROM answers WHERE event_time >= :window_start AND event_time < :window_end`"
    )
    url_env: str | None = Field(
        default=None, description="environment variable (in `.env.sources`) with the database's URL"
    )
    connection: str | None = Field(default=None, description="or an Airflow connection with it")
    batch_rows: int = Field(default=50_000, ge=1, le=10_000_000, description="rows per fetch")
    limit_seconds: int = Field(
        default=1800, ge=1, le=86_400, description="longest time that the database may take for a fetch"
    )

    @model_validator(mode="after")
    def _bound_and_named(self) -> Self:
        for name in ("window_start", "window_end"):
            if not re.search(rf"(?<![:\w]):{name}\b", self.query):
                raise ValueError(
                    f"the query does not bind :{name}; the window's bounds are parameters, never text"
                )
        if (self.url_env is None) == (self.connection is None):
            raise ValueError("name the database with either url_env or connection")
        return self


class FilesSource(Mapped):
    """CSV, Feather or Parquet files by path or pattern; the newest file is not more right than the others."""

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
    """A simulated platform; ``platform`` are fields of :class:`slc_ops.intake.population.Platform`."""

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


Source = Annotated[LakeSource | SqlSource | FilesSource | SimulatorSource, Field(discriminator="kind")]
