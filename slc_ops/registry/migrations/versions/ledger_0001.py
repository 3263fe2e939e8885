"""The ledger's schema: all tables but ``slc_deployment`` are append-only.

Only a publication's ``retired_at`` may be set later: its version is deleted. The first migration creates the
tables of :mod:`slc_ops.registry.tables`. Once a release has written ledgers, copy the tables here before they
change: a migration creates what its release had.
"""

from alembic import op

from slc_ops.registry import tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the five tables and the triggers that keep four of them append-only."""
    tables.metadata.create_all(op.get_bind())
    for table in (tables.publication, tables.move, tables.erasure, tables.chain):
        refuse_changes(
            table.name, ", ".join(column.name for column in table.c if column.name != "retired_at")
        )


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
