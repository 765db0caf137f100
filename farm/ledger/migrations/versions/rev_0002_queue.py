"""For workers that a queue feeds: losses apart from failures, cancels, detached builds, hints, who worked where.

Written out rather than taken from `farm.ledger.tables`: a migration must not change when the tables do.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_REASONS = (
    "'asked', 'taken', 'compiled', 'interrupted', 'attempts-exhausted', 'compile-error', 'limit-exceeded', "
    "'child-died', 'fault', 'result-refused', 'payload-differs', 'environment', 'lost', 'total-timeout', "
    "'silence-timeout', 'cancel-asked', 'unwanted'"
)
_OUTCOMES = "'done', 'failed', 'interrupted', 'lease-expired', 'lost', 'cancelled'"
_BUILD_STATES = "'running', 'detached', 'done', 'failed', 'interrupted', 'cancelled'"


def upgrade() -> None:
    """Change the tables; rows that are there keep their meaning."""
    # An attempt that is going on, or that ended a run by itself, was no loss.
    op.execute(
        "UPDATE runs SET attempts = attempts - 1 "
        "WHERE attempts > 0 AND state <> 'queued' AND reason NOT IN ('attempts-exhausted', 'unwanted')"
    )
    with op.batch_alter_table("runs") as table:
        table.alter_column("attempts", new_column_name="losses", existing_type=sa.Integer(), existing_nullable=False)
        table.alter_column(
            "max_attempts", new_column_name="max_losses", existing_type=sa.Integer(), existing_nullable=False
        )
        table.add_column(sa.Column("not_before", sa.Double()))
        table.add_column(sa.Column("hinted_at", sa.Double()))
        table.add_column(sa.Column("target", sa.Text(), nullable=False, server_default=""))
        table.add_column(sa.Column("model_bytes", sa.BigInteger(), nullable=False, server_default="0"))
        table.drop_constraint(op.f("ck_runs_reason"), type_="check")
        table.create_check_constraint(op.f("ck_runs_reason"), f"reason IN ({_REASONS})")
    op.create_index("ix_runs_past", "runs", ["target", "model_bytes"])
    with op.batch_alter_table("attempts") as table:
        table.add_column(sa.Column("host", sa.Text(), nullable=False, server_default=""))
        table.add_column(sa.Column("runner", sa.Text(), nullable=False, server_default=""))
        table.add_column(sa.Column("image", sa.Text()))
        table.add_column(sa.Column("log", sa.Text()))
        table.drop_constraint(op.f("ck_attempts_outcome"), type_="check")
        table.create_check_constraint(op.f("ck_attempts_outcome"), f"outcome IN ({_OUTCOMES})")
    with op.batch_alter_table("builds") as table:
        table.add_column(sa.Column("place", sa.Text(), nullable=False, server_default=""))
        table.drop_constraint(op.f("ck_builds_state"), type_="check")
        table.create_check_constraint(op.f("ck_builds_state"), f"state IN ({_BUILD_STATES})")
    op.create_table(
        "workers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("image", sa.Text()),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_workers"),
    )


def downgrade() -> None:
    """There is no way back: older farms do not know the states that rows may have by now."""
    raise NotImplementedError
