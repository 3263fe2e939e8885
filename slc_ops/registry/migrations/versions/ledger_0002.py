"""A champion can be retired: a move that leads to no version; renewals have a kind of their own."""

import sqlalchemy as sa
from alembic import op

from slc_ops.registry.migrations.versions.ledger_0001 import MOVE, refuse_changes

revision = "0002"
down_revision = "0001"

KINDS = "kind IN ('promotion', 'renewal', 'rollback', 'retirement')"
ENDS = "(to_version IS NULL) = (kind = 'retirement')"


def upgrade() -> None:
    """Let ``to_version`` be empty, for a retirement and for nothing else."""
    if op.get_bind().dialect.name == "sqlite":
        _copied()
        return
    op.alter_column("slc_move", "to_version", nullable=True)
    op.drop_constraint("slc_move_kind_check", "slc_move")
    op.create_check_constraint("slc_move_kind", "slc_move", KINDS)
    op.create_check_constraint("slc_move_ends", "slc_move", ENDS)


def _copied() -> None:
    """SQLite cannot change a constraint: the rows move into a new table, in the same transaction."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "slc_move_0002",
        sa.Column("deployment", sa.String(63), sa.ForeignKey("slc_deployment.name"), primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("from_version", sa.Integer),
        sa.Column("to_version", sa.Integer),
        sa.Column("window_start", moment, nullable=False),
        sa.Column("window_end", moment, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("override", sa.Text),
        sa.Column("evidence", sa.JSON, nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.CheckConstraint(KINDS, name="slc_move_kind"),
        sa.CheckConstraint(ENDS, name="slc_move_ends"),
        sa.ForeignKeyConstraint(
            ["deployment", "to_version"], ["slc_publication.deployment", "slc_publication.version"]
        ),
    )
    # Constants of ours are all that is put into the statement.
    op.execute(f"INSERT INTO slc_move_0002 ({MOVE}) SELECT {MOVE} FROM slc_move")  # noqa: S608
    op.drop_table("slc_move")
    op.rename_table("slc_move_0002", "slc_move")
    refuse_changes("slc_move", MOVE)


def downgrade() -> None:
    """The line of champions is never dropped by a migration."""
    raise NotImplementedError("the ledger is append-only; restore a backup instead of downgrading it")
