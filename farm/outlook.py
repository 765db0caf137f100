"""What a build can tell its user beyond the state of its cells: why some wait, and how long it will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from farm import forecast
from farm.forecast import Waiting
from farm.ledger.history import Past
from farm.ledger.nouns import RunRow
from farm.ledger.workers import WorkerRow
from farm.scheduler import Cell, Session
from kernelfarm.nouns import RunState

SEEN_S = 20.0
"""A worker that was seen within so many seconds is up."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Why runs wait, by id; seconds until the whole build is done, None while that is not known."""

    waiting: Mapping[int, Waiting] = field(default_factory=dict)
    left_s: float | None = None


def slots_of(workers: Sequence[WorkerRow]) -> int:
    """Compiles that workers serving a queue may do at once."""
    return sum(worker.slots for worker in workers if not worker.draining)


class Outlook:
    """Looks at the ledger for the cells of one build. `slots`: compiles at once of the build's own workers."""

    def __init__(self, farm: Session, slots: int) -> None:
        self._farm = farm
        self._slots = slots
        self._past: dict[str, list[Past]] = {}

    def look(self, cells: Sequence[Cell]) -> Seen:
        """What can be told now. Raises `FarmError` LEDGER_*."""
        own = {cell.run.id: cell.run for cell in cells if cell.run is not None and not cell.state.final}
        if not own:
            return Seen()
        ledger = self._farm.ledger
        if self._farm.settings.broker is None:  # its own workers take no run of another build
            live: list[RunRow] = list(own.values())
            slots = self._slots
        else:
            live = ledger.runs.live()
            slots = slots_of(ledger.workers.alive(SEEN_S))
        now = ledger.runs.now()
        found = {number: forecast.waiting(run, live, slots, now) for number, run in own.items()}
        waiting = {number: why for number, why in found.items() if why is not None}
        return Seen(waiting, self._left(live, frozenset(own), slots, now))

    def _left(self, live: Sequence[RunRow], own: frozenset[int], slots: int, now: float) -> float | None:
        """Seconds until all own runs are done; those of others that come before them count."""
        if slots == 0:
            return None
        last = max(own)
        running: list[float] = []
        queued: list[float] = []
        for run in live:
            seconds = forecast.left(run, self._expected(run), now)
            if seconds is None and run.id in own:
                return None
            if run.id > last:
                continue
            (running if run.status.state is RunState.RUNNING else queued).append(seconds or 0.0)
        return forecast.makespan(running, queued, slots)

    def _expected(self, run: RunRow) -> float | None:
        if run.target not in self._past:
            self._past[run.target] = self._farm.ledger.history.past(run.target)
        return forecast.estimate(self._past[run.target], run.model_bytes)
