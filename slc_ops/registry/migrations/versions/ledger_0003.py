"""Receipts of erasures: whose rows went, when, by whom, and which versions had learned from them."""

import sqlalchemy as sa
from alembic import op

from slc_ops.registry.migrations.versions.ledger_0001 import refuse_changes

revision = "0003"
down_revision = "0002"

ERASURE = "deployment, key, actor, receipt, at"


def upgrade() -> None:
    """Create the table, append-only like the others."""
    op.create_table(
        "slc_erasure",
        sa.Column("deployment", sa.String(63), primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("receipt", sa.JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    )
    refuse_changes("slc_erasure", ERASURE)


def downgrade() -> None:
    """A receipt is never dropped by a migration."""
    raise NotImplementedError("the ledger is append-only; restore a backup instead of downgrading it")
