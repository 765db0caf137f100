"""What the ledger remembers of runs that have ended: for estimates, and for `farm gc`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from farm.ledger.database import Database
from farm.ledger.rules import LIVE_STATES
from farm.ledger.tables import attempts, cache, runs
from kernelfarm.nouns import RunState


@dataclass(frozen=True, slots=True)
class Past:
    """A run that was done: bytes of its model, seconds from its first taking to its end."""

    model_bytes: int
    seconds: float


class History:
    """Questions about ended runs, and the forgetting of cache entries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def past(self, target: str, limit: int = 200) -> list[Past]:
        """The newest runs for a target that were done, newest first."""
        done = (runs.c.target == target, runs.c.state == RunState.DONE.value, runs.c.started_at.is_not(None))
        query = sa.select(runs.c.model_bytes, runs.c.started_at, runs.c.ended_at).where(*done)
        with self._database.read() as connection:
            found = connection.execute(query.order_by(runs.c.id.desc()).limit(limit)).all()
        return [Past(size, end - start) for size, start, end in found if end is not None]

    def needed(self) -> Iterator[tuple[str, str, str | None]]:
        """(execution key, action, payload) of every run that is live or whose payload the cache holds."""
        query = sa.select(runs.c.execution_key, runs.c.action, cache.c.payload).select_from(
            runs.outerjoin(cache, cache.c.run_id == runs.c.id)
        )
        live = runs.c.state.in_([state.value for state in LIVE_STATES])
        with self._database.read() as connection:
            for row in connection.execute(query.where(sa.or_(live, cache.c.run_id.is_not(None)))):
                yield row.execution_key, row.action, row.payload

    def logs(self, since: float) -> frozenset[str]:
        """Digests of the logs in the content store, of runs that did not end before a time, seconds since 1970 UTC."""
        young = sa.or_(runs.c.ended_at.is_(None), runs.c.ended_at >= since)
        joined = attempts.join(runs, attempts.c.run_id == runs.c.id)
        query = sa.select(attempts.c.log).select_from(joined).where(attempts.c.log.is_not(None), young)
        with self._database.read() as connection:
            return frozenset(connection.execute(query).scalars())

    def ended_before(self, time: float) -> list[int]:
        """Ids of the runs that ended before a time, in seconds since 1970 UTC."""
        with self._database.read() as connection:
            return list(connection.execute(sa.select(runs.c.id).where(runs.c.ended_at < time)).scalars())

    def stale(self, time: float) -> list[str]:
        """Execution keys of the cache entries that were recorded before a time, sorted."""
        query = sa.select(cache.c.execution_key).where(cache.c.recorded_at < time).order_by(cache.c.execution_key)
        with self._database.read() as connection:
            return list(connection.execute(query).scalars())
