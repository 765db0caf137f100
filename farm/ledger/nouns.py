"""Runs, attempts and cache entries as the ledger holds them. Times are seconds since 1970 UTC."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy.engine import Row

from farm.ledger import rows
from farm.ledger.rules import Outcome, RunStatus
from kernelfarm.errors import FarmError


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the ledger holds it. `action`, `payload` and `error` are JSON; times are seconds since 1970 UTC."""

    status: RunStatus
    execution_key: str
    recipe_key: str
    salt: str
    action: str
    stage: str
    done: int
    total: int
    payload: str | None
    error: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    target: str = ""
    model_bytes: int = 0

    @property
    def id(self) -> int:
        """Number of the run; people see it as r<number>."""
        return self.status.id

    @property
    def seconds(self) -> float | None:
        """Time from the first taking to the end; None before the end."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at

    def failure(self) -> FarmError | None:
        """The error of a failed run."""
        return None if self.error is None else FarmError.from_json(json.loads(self.error))


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One lease on a run: where it worked, and how it ended.

    `max_rss_bytes` is the largest resident set of a compile that was done; `image` and `log` are digests, that of the
    whole log once it lies in the content store.
    """

    run_id: int
    fencing: int
    worker: str
    started_at: float
    ended_at: float | None
    outcome: Outcome | None
    error: str | None
    max_rss_bytes: int | None
    host: str = ""
    runner: str = ""
    image: str | None = None
    log: str | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a worker works: its host's name, the runner that it compiles with, the digest of that one's image."""

    host: str = ""
    runner: str = ""
    image: str | None = None


NOWHERE = Seat()
"""The seat of a worker that does not say."""


@dataclass(frozen=True, slots=True)
class CacheRow:
    """What an execution key gave: the payload's canonical JSON and the run that made it."""

    execution_key: str
    recipe_key: str
    payload: str
    run_id: int
    recorded_at: float


def run_of(row: Row[tuple[object, ...]]) -> RunRow:
    """The run in a row of the table, each value checked; raises `FarmError` LEDGER_CORRUPT."""
    values, name = row._mapping, f"run r{row.id}"
    return rows.read(RunRow, {**values, "status": rows.read(RunStatus, values, name)}, name)


def attempt_of(row: Row[tuple[object, ...]]) -> AttemptRow:
    """As `run_of`, for an attempt."""
    return rows.read(AttemptRow, row._mapping, f"attempt {row.fencing} of run r{row.run_id}")


def cached_of(row: Row[tuple[object, ...]]) -> CacheRow:
    """As `run_of`, for an entry of the cache."""
    return rows.read(CacheRow, row._mapping, f"the cache entry {row.execution_key}")
