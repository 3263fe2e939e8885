"""The ledger's schema: all tables but ``slc_deployment`` are append-only.

Only a publication's ``retired_at`` may be set later: its version is deleted.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

PUBLICATION = (
    "deployment, version, key, run_id, method, window_start, window_end, verdict, metrics, published_at"
)
MOVE = (
    "deployment, revision, kind, from_version, to_version, window_start, window_end, "
    "actor, reason, override, evidence, at"
)
KINDS = "kind IN ('promotion', 'renewal', 'rollback', 'retirement')"
ENDS = "(to_version IS NULL) = (kind = 'retirement')"
ERASURE = "deployment, key, actor, receipt, at"
CHAIN = "deployment, position, kind, key, digest, refers, previous, hash, signature"


def upgrade() -> None:
    """Create the five tables and the triggers that keep four of them append-only."""
    timestamp = sa.DateTime(timezone=True)
    op.create_table(
        "slc_deployment",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("champion", sa.Integer),
        sa.Column("challenger", sa.Integer),
    )
    op.create_table(
        "slc_publication",
        sa.Column("deployment", sa.String(63), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("method", sa.String(32), nullable=False),
        sa.Column("window_start", timestamp, nullable=False),
        sa.Column("window_end", timestamp, nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.Column("published_at", timestamp, nullable=False),
        sa.Column("retired_at", timestamp),
    )
    op.create_index(
        "slc_publication_key",
        "slc_publication",
        ["key"],
        unique=True,
        sqlite_where=sa.text("retired_at IS NULL"),
        postgresql_where=sa.text("retired_at IS NULL"),
    )
    op.create_table(
        "slc_move",
        sa.Column("deployment", sa.String(63), sa.ForeignKey("slc_deployment.name"), primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("from_version", sa.Integer),
        sa.Column("to_version", sa.Integer),
        sa.Column("window_start", timestamp, nullable=False),
        sa.Column("window_end", timestamp, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("override", sa.Text),
        sa.Column("evidence", sa.JSON, nullable=False),
        sa.Column("at", timestamp, nullable=False),
        sa.CheckConstraint(KINDS, name="slc_move_kind"),
        sa.CheckConstraint(ENDS, name="slc_move_ends"),
        sa.ForeignKeyConstraint(
            ["deployment", "to_version"], ["slc_publication.deployment", "slc_publication.version"]
        ),
    )
    op.create_table(
        "slc_erasure",
        sa.Column("deployment", sa.String(63), primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("receipt", sa.JSON, nullable=False),
        sa.Column("at", timestamp, nullable=False),
    )
    op.create_table(
        "slc_chain",
        sa.Column("deployment", sa.String(63), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("refers", sa.JSON, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("signature", sa.Text),
    )
    refuse_changes("slc_publication", PUBLICATION)
    refuse_changes("slc_move", MOVE)
    refuse_changes("slc_erasure", ERASURE)
    refuse_changes("slc_chain", CHAIN)


def refuse_changes(table: str, columns: str) -> None:
    """Create triggers that refuse UPDATE, DELETE and, on PostgreSQL, TRUNCATE."""
    if op.get_bind().dialect.name == "sqlite":
        for name, event in (("update", f"UPDATE OF {columns}"), ("delete", "DELETE")):
            op.execute(
                f"CREATE TRIGGER {table}_no_{name} BEFORE {event} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {table}_grows() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{table} is append-only'; END $$"
    )
    for name, event in (("update", f"UPDATE OF {columns}"), ("delete", "DELETE"), ("truncate", "TRUNCATE")):
        op.execute(
            f"CREATE TRIGGER {table}_no_{name} BEFORE {event} ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_grows()"
        )


def downgrade() -> None:
    """Raise: a migration never drops the champion history."""
    raise NotImplementedError("the ledger is append-only; restore a backup instead of downgrading it")
