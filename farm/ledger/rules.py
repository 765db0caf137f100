"""The life of a run as pure rules: no clock, no database. `farm.ledger.runs` applies them inside transactions.

queued -> running -> done | failed; back to queued when a worker is interrupted or its infrastructure is lost; a running
run whose lease is over can be taken by anyone. Each taking raises the fencing number by one; whoever holds an older
number changes nothing more.

A failure is final: a compile error comes back at every attempt. Only a loss (a worker that fell silent, an engine that
went away) brings the run back, after a pause and at most `max_losses` times. A cancel is a fact of the run: a queued
run ends at once, a running one when its worker sees it or its lease is over.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState

LIVE_STATES = frozenset({RunState.QUEUED, RunState.RUNNING})
_PAUSE_S = 5.0
_PAUSE_MAX_S = 60.0


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
    LOST = "lost"
    """Back in the queue: what it ran on was lost."""
    TOTAL_TIMEOUT = "total-timeout"
    SILENCE_TIMEOUT = "silence-timeout"
    CANCEL_ASKED = "cancel-asked"
    """Somebody asked for its end; a run that is still running ends as soon as its worker sees it."""
    UNWANTED = "unwanted"
    """As CANCEL_ASKED, because no build waits for it any more."""


_ENDING = frozenset({Reason.CANCEL_ASKED, Reason.UNWANTED})


class Outcome(Enum):
    """How one attempt ended."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LEASE_EXPIRED = "lease-expired"
    LOST = "lost"
    CANCELLED = "cancelled"


class BuildState(Enum):
    """Where a build (one `farm build`) stands."""

    RUNNING = "running"
    """A process waits for it."""
    DETACHED = "detached"
    """No process waits for it: the workers go on, `farm build --resume` waits again and writes the bundles."""
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


WANTING = frozenset({BuildState.RUNNING, BuildState.DETACHED})
"""States of a build that still wants its runs."""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """What the rules look at. `lease_until` and `not_before` are in seconds since 1970 UTC.

    `lease_until` is set exactly while running; before `not_before` nobody takes a queued run. `losses` counts the
    leases that ended because infrastructure was lost.
    """

    id: int
    state: RunState
    reason: Reason
    fencing: int = 0
    losses: int = 0
    max_losses: int = 3
    worker: str | None = None
    lease_until: float | None = None
    not_before: float | None = None

    @property
    def cancel_asked(self) -> bool:
        """Whether somebody asked for the run's end; it may be running still."""
        return self.reason in _ENDING


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a run until `until`; `fencing` is its number, greater than that of every earlier lease.

    `cancel_asked`: stop the compile and `release`, the run is not wanted any more.
    """

    run_id: int
    fencing: int
    worker: str
    until: float
    cancel_asked: bool = False


def expired(run: RunStatus, now: float, lease_s: float = math.inf) -> bool:
    """Whether the run is held by a lease that is over, where leases last `lease_s` seconds.

    One that ends much later than any lease could was given before the clock went back: nobody waits for that hour.
    """
    if run.state is not RunState.RUNNING:
        return False
    return run.lease_until is None or not now < run.lease_until <= now + 2 * lease_s


def can_take(run: RunStatus, now: float, lease_s: float = math.inf) -> bool:
    """Whether a worker may take the run now (it may turn out to be worn out, or not wanted: see `take`)."""
    if run.state is not RunState.QUEUED:
        return expired(run, now, lease_s)
    return run.not_before is None or not now < run.not_before <= now + 2 * _PAUSE_MAX_S  # the clock may have gone back


def pause_s(losses: int) -> float:
    """Seconds between the loss with this number, from 1, and the next attempt: 5, 10, 20, ... at most 60."""
    return min(_PAUSE_MAX_S, _PAUSE_S * 2.0 ** min(losses - 1, 10))


def take(run: RunStatus, worker: str, now: float, lease_s: float) -> RunStatus:
    """The run in the hands of `worker`.

    Or, where its last lease ended in silence: CANCELLED when that was asked for, FAILED with ATTEMPTS_EXHAUSTED when
    it wore out as many workers as allowed. Raises `FarmError` LEASE_LOST when the run cannot be taken.
    """
    if not can_take(run, now, lease_s):
        raise lease_lost(run.id, f"it is {run.state.value}")
    lost = run.state is RunState.RUNNING
    if lost and run.cancel_asked:
        return _ended(run, RunState.CANCELLED, run.reason)
    losses = run.losses + int(lost)
    if lost and losses >= run.max_losses:
        return replace(_ended(run, RunState.FAILED, Reason.ATTEMPTS_EXHAUSTED), losses=losses)
    return replace(
        run,
        state=RunState.RUNNING,
        reason=Reason.TAKEN,
        fencing=run.fencing + 1,
        losses=losses,
        worker=worker,
        lease_until=now + lease_s,
        not_before=None,
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
    """The run done, also when its end was asked for meanwhile: the result is there.

    Raises `FarmError` LEASE_LOST: a result from a stale lease gets nothing in.
    """
    _require_held(run, fencing)
    return _ended(run, RunState.DONE, Reason.COMPILED)


def fail(run: RunStatus, fencing: int, reason: Reason) -> RunStatus:
    """The run failed for good: a compile error comes back at every attempt. Raises `FarmError` LEASE_LOST."""
    _require_held(run, fencing)
    return _ended(run, RunState.FAILED, reason)


def release(run: RunStatus, fencing: int) -> RunStatus:
    """The run given back by a worker that was told to stop: CANCELLED when that was asked for, else queued again.

    Raises `FarmError` LEASE_LOST.
    """
    _require_held(run, fencing)
    if run.cancel_asked:
        return _ended(run, RunState.CANCELLED, run.reason)
    return replace(run, state=RunState.QUEUED, reason=Reason.INTERRUPTED, worker=None, lease_until=None)


def lose(run: RunStatus, fencing: int, now: float) -> RunStatus:
    """The run queued again after a pause, because its worker lost what it ran on.

    CANCELLED when that was asked for, FAILED with ATTEMPTS_EXHAUSTED after `max_losses`. Raises `FarmError` LEASE_LOST.
    """
    _require_held(run, fencing)
    if run.cancel_asked:
        return _ended(run, RunState.CANCELLED, run.reason)
    losses = run.losses + 1
    if losses >= run.max_losses:
        return replace(_ended(run, RunState.FAILED, Reason.ATTEMPTS_EXHAUSTED), losses=losses)
    waiting = replace(run, state=RunState.QUEUED, reason=Reason.LOST, worker=None, lease_until=None)
    return replace(waiting, losses=losses, not_before=now + pause_s(losses))


def cancel(run: RunStatus, reason: Reason = Reason.CANCEL_ASKED) -> RunStatus:
    """A queued run ends, a running one is marked with the reason; a final one stays as it is."""
    if run.state is RunState.QUEUED:
        return _ended(run, RunState.CANCELLED, reason)
    return replace(run, reason=reason) if run.state is RunState.RUNNING and not run.cancel_asked else run


def want(run: RunStatus) -> RunStatus:
    """A running run whose end was asked for, and which somebody asks for again: it goes on if it still can."""
    return replace(run, reason=Reason.TAKEN) if run.state is RunState.RUNNING and run.cancel_asked else run


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


def _ended(run: RunStatus, state: RunState, reason: Reason) -> RunStatus:
    return replace(run, state=state, reason=reason, worker=None, lease_until=None, not_before=None)


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
