"""The life of a run as pure rules: no clock, no database. `farm.ledger.runs` applies them inside transactions.

queued -> running -> done | failed; back to queued when a worker is interrupted; a running run whose lease is over can
be taken by anyone. Each taking raises the fencing number by one; whoever holds an older number changes nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState

LIVE_STATES = frozenset({RunState.QUEUED, RunState.RUNNING})


class Reason(Enum):
    """Why a run is in its state; tests assert these, never texts."""

    ASKED = "asked"
    TAKEN = "taken"
    COMPILED = "compiled"
    INTERRUPTED = "interrupted"
    ATTEMPTS_EXHAUSTED = "attempts-exhausted"
    COMPILE_ERROR = "compile-error"
    LIMIT_EXCEEDED = "limit-exceeded"
    CHILD_DIED = "child-died"
    FAULT = "fault"
    RESULT_REFUSED = "result-refused"
    PAYLOAD_DIFFERS = "payload-differs"
    ENVIRONMENT = "environment"
    UNWANTED = "unwanted"


class Outcome(Enum):
    """How one attempt ended."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LEASE_EXPIRED = "lease-expired"


class BuildState(Enum):
    """Where a build (one `farm build`) stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """What the rules look at. `lease_until` is in seconds since 1970 UTC, set exactly while running."""

    id: int
    state: RunState
    reason: Reason
    fencing: int = 0
    attempts: int = 0
    max_attempts: int = 3
    worker: str | None = None
    lease_until: float | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a run until `until`; `fencing` is its number, greater than that of every earlier lease."""

    run_id: int
    fencing: int
    worker: str
    until: float


def expired(run: RunStatus, now: float, lease_s: float = math.inf) -> bool:
    """Whether the run is held by a lease that is over, where leases last `lease_s` seconds.

    One that ends much later than any lease could was given before the clock went back: nobody waits for that hour.
    """
    if run.state is not RunState.RUNNING:
        return False
    return run.lease_until is None or not now < run.lease_until <= now + 2 * lease_s


def can_take(run: RunStatus, now: float, lease_s: float = math.inf) -> bool:
    """Whether a worker may take the run now (it may turn out to be worn out: see `take`)."""
    return run.state is RunState.QUEUED or expired(run, now, lease_s)


def take(run: RunStatus, worker: str, now: float, lease_s: float) -> RunStatus:
    """The run in the hands of `worker`, or FAILED with ATTEMPTS_EXHAUSTED when it wore out as many workers as allowed.

    Raises `FarmError` LEASE_LOST when the run cannot be taken.
    """
    if not can_take(run, now, lease_s):
        raise lease_lost(run.id, f"it is {run.state.value}")
    if run.attempts >= run.max_attempts:
        return replace(run, state=RunState.FAILED, reason=Reason.ATTEMPTS_EXHAUSTED, worker=None, lease_until=None)
    return replace(
        run,
        state=RunState.RUNNING,
        reason=Reason.TAKEN,
        fencing=run.fencing + 1,
        attempts=run.attempts + 1,
        worker=worker,
        lease_until=now + lease_s,
    )


def held(run: RunStatus, fencing: int) -> bool:
    """Whether the lease with this fencing number still holds the run.

    An expired lease that nobody took since still holds: its worker was only slow, and no one else has begun.
    """
    return run.state is RunState.RUNNING and run.fencing == fencing


def beat(run: RunStatus, fencing: int, now: float, lease_s: float) -> RunStatus:
    """The run with its lease prolonged to `now + lease_s`. Raises `FarmError` LEASE_LOST."""
    _require_held(run, fencing)
    return replace(run, lease_until=now + lease_s)


def finish(run: RunStatus, fencing: int) -> RunStatus:
    """The run done. Raises `FarmError` LEASE_LOST: a result from a stale lease gets nothing in."""
    _require_held(run, fencing)
    return replace(run, state=RunState.DONE, reason=Reason.COMPILED, worker=None, lease_until=None)


def fail(run: RunStatus, fencing: int, reason: Reason) -> RunStatus:
    """The run failed for good: a compile error comes back at every attempt. Raises `FarmError` LEASE_LOST."""
    _require_held(run, fencing)
    return replace(run, state=RunState.FAILED, reason=reason, worker=None, lease_until=None)


def release(run: RunStatus, fencing: int) -> RunStatus:
    """The run queued again as its worker was told to stop; that attempt does not count. Raises LEASE_LOST."""
    _require_held(run, fencing)
    return replace(
        run,
        state=RunState.QUEUED,
        reason=Reason.INTERRUPTED,
        attempts=run.attempts - 1,
        worker=None,
        lease_until=None,
    )


def cancel(run: RunStatus) -> RunStatus:
    """A queued run that no build waits for any more; every other state stays as it is."""
    return replace(run, state=RunState.CANCELLED, reason=Reason.UNWANTED) if run.state is RunState.QUEUED else run


def workers_wanted(
    runs: Sequence[RunStatus], now: float, alive: Collection[str], limit: int, lease_s: float = math.inf
) -> int:
    """How many workers a build should start now: one per run that can be taken, at most `limit` alive in all.

    A worker that is alive without holding one of the runs is about to take one. The run of an alive worker is left to
    it, also when its lease is over: it may only have slept; `stuck` ends that.
    """
    ready = sum(can_take(run, now, lease_s) and run.worker not in alive for run in runs)
    holders = {run.worker for run in runs if run.state is RunState.RUNNING}
    free = sum(worker not in holders for worker in alive)
    return max(0, min(ready - free, limit - len(alive)))


def stuck(runs: Sequence[RunStatus], now: float, alive: Collection[str], grace_s: float) -> tuple[str, ...]:
    """Workers that are alive but let their lease run out `grace_s` ago: their heart stands still. Sorted."""
    late = {run.worker for run in runs if expired(run, now - grace_s)}
    return tuple(sorted(worker for worker in alive if worker in late))


def _require_held(run: RunStatus, fencing: int) -> None:
    if not held(run, fencing):
        newer = f"lease {run.fencing} came after lease {fencing}"
        why = f"it is {run.state.value}" if run.fencing == fencing else newer
        raise lease_lost(run.id, why)


def lease_lost(run_id: int, why: str) -> FarmError:
    """The error of a worker whose lease is over."""
    return FarmError(
        Code.LEASE_LOST,
        f"the lease on run r{run_id} is lost",
        why,
        "Nothing to do: another worker took the run over.",
        detail={"run": run_id},
    )
