"""farm.ledger: the truth about builds, runs and leases. The only room that imports SQLAlchemy and Alembic.

SQLite on a local disk by default (write-ahead log, busy timeout). PostgreSQL stays in reach: few statements are
peculiar to one of the two, and one test suite runs over both.
"""
