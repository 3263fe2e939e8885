"""Alembic's entry point: migrate on the connection that the ledger passes in."""

from alembic import context

from slc_ops.registry.database import SCHEMA_TABLE

context.configure(
    connection=context.config.attributes["connection"], version_table=SCHEMA_TABLE, transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
