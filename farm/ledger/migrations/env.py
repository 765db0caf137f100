"""Alembic's environment: it runs over the connection that `farm.ledger.migrate` hands in, never over its own."""

from __future__ import annotations

from alembic import context

from farm.ledger.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite cannot alter a table in place
    transaction_per_migration=False,
)
context.run_migrations()
