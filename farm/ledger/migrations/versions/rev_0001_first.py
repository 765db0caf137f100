"""The first tables: runs, attempts, cache, builds, cells.

Written out rather than taken from `farm.ledger.tables`: a migration must not change when the tables do.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_RUN_STATES = "'queued', 'running', 'done', 'failed', 'cancelled'"
_REASONS = (
    "'asked', 'taken', 'compiled', 'interrupted', 'attempts-exhausted', 'compile-error', 'limit-exceeded', "
    "'child-died', 'fault', 'result-refused', 'payload-differs', 'environment', 'unwanted'"
)
_OUTCOMES = "'done', 'failed', 'interrupted', 'lease-expired'"
_BUILD_STATES = "'running', 'done', 'failed', 'interrupted'"
_LIVE = sa.text("state IN ('queued', 'running')")


def upgrade() -> None:
    """Make the tables."""
    _runs()
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("fencing", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("outcome", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("max_rss_bytes", sa.BigInteger()),
        sa.CheckConstraint(f"outcome IN ({_OUTCOMES})", name=op.f("ck_attempts_outcome")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_attempts_run_id"),
        sa.PrimaryKeyConstraint("run_id", "fencing", name="pk_attempts"),
    )
    op.create_table(
        "cache",
        sa.Column("execution_key", sa.Text(), nullable=False),
        sa.Column("recipe_key", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("recorded_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_cache_run_id"),
        sa.PrimaryKeyConstraint("execution_key", name="pk_cache"),
    )
    op.create_index("ix_cache_recipe_key", "cache", ["recipe_key"])
    _builds()


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("execution_key", sa.Text(), nullable=False),
        sa.Column("recipe_key", sa.Text(), nullable=False),
        sa.Column("salt", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("fencing", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text()),
        sa.Column("lease_until", sa.Double()),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("payload", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.CheckConstraint(f"state IN ({_RUN_STATES})", name=op.f("ck_runs_state")),
        sa.CheckConstraint(f"reason IN ({_REASONS})", name=op.f("ck_runs_reason")),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_recipe_key", "runs", ["recipe_key"])
    columns = ["execution_key", "salt"]
    op.create_index("ix_runs_live", "runs", columns, unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE)


def _builds() -> None:
    op.create_table(
        "builds",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.CheckConstraint(f"state IN ({_BUILD_STATES})", name=op.f("ck_builds_state")),
        sa.PrimaryKeyConstraint("id", name="pk_builds"),
    )
    op.create_table(
        "cells",
        sa.Column("build_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("execution_key", sa.Text()),
        sa.Column("run_id", sa.Integer()),
        sa.Column("cached", sa.Boolean(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.ForeignKeyConstraint(["build_id"], ["builds.id"], name="fk_cells_build_id"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_cells_run_id"),
        sa.PrimaryKeyConstraint("build_id", "position", name="pk_cells"),
    )
    op.create_index("ix_cells_run_id", "cells", ["run_id"])


def downgrade() -> None:
    """Remove the tables."""
    for table in ("cells", "builds", "cache", "attempts", "runs"):
        op.drop_table(table)
