"""Why a run waits and how long a build will take: pure rules over what the ledger knows. For people, never for keys."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from farm.ledger.history import Past
from farm.ledger.nouns import RunRow
from kernelfarm.nouns import RunState

_LIKE = 20
"""Past runs that an estimate looks at: the newest of the like."""
_NEAR = 2.0
"""Models whose sizes differ by at most this factor are alike."""


class Wait(Enum):
    """Why a run is queued."""

    NO_WORKER = "no-worker"
    """Nobody serves the queue."""
    PAUSE = "pause"
    """What it ran on was lost; it is tried again after a pause."""
    BEHIND = "behind"
    """All workers are busy, or older runs come first."""
    NEXT = "next"
    """A worker is about to take it."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a run is queued; `ahead` counts the older queued runs, `seconds` is what is left of a pause."""

    reason: Wait
    ahead: int = 0
    seconds: float = 0.0

    def describe(self) -> str:
        """In words, without the word waiting."""
        match self.reason:
            case Wait.NO_WORKER:
                return "no worker is up"
            case Wait.PAUSE:
                return f"its worker was lost; again in {spell(self.seconds)}"
            case Wait.BEHIND:
                return f"{self.ahead} ahead" if self.ahead else "all workers are busy"
            case Wait.NEXT:
                return "next"


def waiting(run: RunRow, live: Sequence[RunRow], slots: int, now: float) -> Waiting | None:
    """Why a run is queued, where `live` are all live runs and `slots` compiles may run at once; None if it is not."""
    status = run.status
    if status.state is not RunState.QUEUED:
        return None
    if status.not_before is not None and status.not_before > now:
        return Waiting(Wait.PAUSE, seconds=status.not_before - now)
    if slots == 0:
        return Waiting(Wait.NO_WORKER)
    running = sum(other.status.state is RunState.RUNNING for other in live)
    ahead = sum(other.status.state is RunState.QUEUED and other.id < run.id for other in live)
    return Waiting(Wait.NEXT if running + ahead < slots else Wait.BEHIND, ahead)


def estimate(past: Sequence[Past], model_bytes: int) -> float | None:
    """Seconds that a compile for a model of so many bytes takes: the median of the newest past runs of the like.

    `past` are runs for the same target, newest first. None when there is none of the like.
    """
    like = [one.seconds for one in past if _near(one.model_bytes, model_bytes)][:_LIKE]
    return statistics.median(like) if like else None


def _near(one: int, other: int) -> bool:
    low, high = sorted((max(one, 1), max(other, 1)))
    return high <= low * _NEAR


def left(run: RunRow, expected_s: float | None, now: float) -> float | None:
    """Seconds until a live run is done once it runs: what is expected less what it has run; None if unknown.

    A run that takes longer than expected is taken to be nearly done.
    """
    if expected_s is None:
        return None
    begun = run.started_at if run.status.state is RunState.RUNNING else None
    return expected_s if begun is None else max(expected_s - (now - begun), min(1.0, expected_s))


def makespan(running: Sequence[float], queued: Sequence[float], slots: int) -> float:
    """Seconds until all is done: `running` and `queued` are seconds left of runs, taken in order by `slots` workers."""
    free = [*sorted(running), *([0.0] * max(0, slots - len(running)))]
    if queued and not free:
        free = [0.0]
    heapq.heapify(free)
    end = max(free, default=0.0)
    for seconds in queued:
        finish = heapq.heappop(free) + seconds
        heapq.heappush(free, finish)
        end = max(end, finish)
    return end


def spell(seconds: float) -> str:
    """A length of time for people: "8 s", "3 min", "2 h 5 min"."""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
