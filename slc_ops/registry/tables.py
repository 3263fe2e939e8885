"""The ledger's tables, and their rows as values.

``migrations/`` creates them, and triggers: all but ``slc_deployment`` are append-only, except
``slc_publication.retired_at``.
``slc_deployment`` has one row per deployment, which a promotion compares and sets.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    TypeDecorator,
)

from slc_ops.base.window import Window
from slc_ops.registry.publication import ChampionChange, Version


class Timestamp(TypeDecorator[datetime]):
    """A UTC timestamp; SQLite drops the zone, so it is added when reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        found: datetime = value
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


metadata = MetaData()

deployment = Table(
    "slc_deployment",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("champion", Integer),
    Column("challenger", Integer),
)

publication = Table(
    "slc_publication",
    metadata,
    Column("deployment", String(63), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("key", String(64), nullable=False),
    Column("run_id", String(64), nullable=False),
    Column("method", String(32), nullable=False),
    Column("window_start", Timestamp, nullable=False),
    Column("window_end", Timestamp, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("metrics", JSON, nullable=False),
    Column("published_at", Timestamp, nullable=False),
    Column("retired_at", Timestamp),
)
Index(
    "slc_publication_key",
    publication.c.key,
    unique=True,
    sqlite_where=publication.c.retired_at.is_(None),
    postgresql_where=publication.c.retired_at.is_(None),
)

move = Table(
    "slc_move",
    metadata,
    Column("deployment", String(63), ForeignKey("slc_deployment.name"), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("from_version", Integer),
    Column("to_version", Integer),  # empty: the champion was retired
    Column("window_start", Timestamp, nullable=False),
    Column("window_end", Timestamp, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("override", Text),
    Column("evidence", JSON, nullable=False),
    Column("at", Timestamp, nullable=False),
    CheckConstraint("kind IN ('promotion', 'renewal', 'rollback', 'retirement')", name="slc_move_kind"),
    CheckConstraint("(to_version IS NULL) = (kind = 'retirement')", name="slc_move_ends"),
    ForeignKeyConstraint(
        ["deployment", "to_version"], ["slc_publication.deployment", "slc_publication.version"]
    ),
)

erasure = Table(
    "slc_erasure",
    metadata,
    Column("deployment", String(63), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("actor", Text, nullable=False),
    Column("receipt", JSON, nullable=False),
    Column("at", Timestamp, nullable=False),
)

chain = Table(
    "slc_chain",
    metadata,
    Column("deployment", String(63), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("key", String(64), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("refers", JSON, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("signature", Text),
)


def row_of(entry: Version | ChampionChange) -> dict[str, Any]:
    """Return a version as values of ``slc_publication``, a change as values of ``slc_move``."""
    values = dict(vars(entry))
    window: Window = values.pop("window")
    if isinstance(entry, Version):
        values["version"] = values.pop("number")
    return values | {"window_start": window.start, "window_end": window.end}


def version_of(row: Row[Any]) -> Version:
    """Return a row of ``slc_publication`` as a version."""
    values = _join_window(row)
    return Version(number=values.pop("version"), **values)


def change_of(row: Row[Any]) -> ChampionChange:
    """Return a row of ``slc_move`` as a change."""
    return ChampionChange(**_join_window(row))


def _join_window(row: Row[Any]) -> dict[str, Any]:
    values = dict(row._mapping)
    return values | {"window": Window(values.pop("window_start"), values.pop("window_end"))}
