"""The ledger's tables as they are at `HEAD`; the Alembic migrations make them.

Times are seconds since 1970 UTC. Documents (actions, payload files, errors) are canonical JSON in text columns.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)

from farm.ledger.rules import BuildState, Outcome, Reason
from kernelfarm.nouns import RunState

HEAD = "0002"
"""Revision of the newest migration; a test compares it with Alembic's own answer."""

_NUMBERS = 1 << 31


def is_number(number: int) -> bool:
    """Whether a run or a build may have this number. PostgreSQL answers a larger one with an error."""
    return 0 < number < _NUMBERS


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def one_of(column: str, kind: type[RunState] | type[Reason] | type[Outcome] | type[BuildState]) -> CheckConstraint:
    """A check that a text column holds a member's value of an enumeration (or NULL where the column allows it)."""
    values = ", ".join(f"'{member.value}'" for member in kind)
    return CheckConstraint(f"{column} IN ({values})", name=column)


LIVE = "state IN ('queued', 'running')"

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("execution_key", Text, nullable=False),
    Column("recipe_key", Text, nullable=False, index=True),
    Column("salt", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("losses", Integer, nullable=False),
    Column("max_losses", Integer, nullable=False),
    Column("fencing", Integer, nullable=False),
    Column("worker", Text),
    Column("lease_until", Double),
    Column("not_before", Double),
    Column("hinted_at", Double),
    Column("stage", Text, nullable=False),
    Column("done", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("payload", Text),
    Column("error", Text),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("target", Text, nullable=False),
    Column("model_bytes", BigInteger, nullable=False),
    one_of("state", RunState),
    one_of("reason", Reason),
    # Two builds of the same thing at once: the second finds the first's run instead of making its own.
    Index("ix_runs_live", "execution_key", "salt", unique=True, sqlite_where=text(LIVE), postgresql_where=text(LIVE)),
    Index("ix_runs_past", "target", "model_bytes"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("run_id", Integer, ForeignKey("runs.id"), primary_key=True),
    Column("fencing", Integer, primary_key=True),
    Column("worker", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("outcome", Text),
    Column("error", Text),
    Column("max_rss_bytes", BigInteger),
    Column("host", Text, nullable=False),
    Column("runner", Text, nullable=False),
    Column("image", Text),
    Column("log", Text),
    one_of("outcome", Outcome),
)

cache = Table(
    "cache",
    metadata,
    Column("execution_key", Text, primary_key=True),
    Column("recipe_key", Text, nullable=False, index=True),
    Column("payload", Text, nullable=False),
    Column("run_id", Integer, ForeignKey("runs.id"), nullable=False),
    Column("recorded_at", Double, nullable=False),
)

builds = Table(
    "builds",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("request", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("place", Text, nullable=False),
    one_of("state", BuildState),
)

cells = Table(
    "cells",
    metadata,
    Column("build_id", Integer, ForeignKey("builds.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("model", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("execution_key", Text),
    Column("run_id", Integer, ForeignKey("runs.id"), index=True),
    Column("cached", Boolean, nullable=False),
    Column("error", Text),
)

workers = Table(
    "workers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("runner", Text, nullable=False),
    Column("image", Text),
    Column("slots", Integer, nullable=False),
    Column("since", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("draining", Boolean, nullable=False),
)
