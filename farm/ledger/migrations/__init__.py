"""Alembic migrations of the ledger, run by `farm.ledger.migrate`."""
