"""Compiles jobs: from the cache where it can, else by local worker processes that take runs from the ledger.

It looks at the ledger, starts workers while there is something to take, and waits: also for runs that another build
began, which its workers take over when their lease ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache as cache_once
from functools import partial
from typing import TYPE_CHECKING

from farm import cache, hands, logs, runners
from farm.actions import Job
from farm.config import Config
from farm.ledger import rules
from farm.ledger.ledger import Ledger, opened
from farm.ledger.nouns import CacheRow, RunRow
from farm.models import Taken
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Payload, RunState
from kernelfarm.store import ContentStore

if TYPE_CHECKING:
    from farm.reconcile import Hints

WORKER = (sys.executable, "-I", "-m", "farm.worker")
ALONE = "no-cache"
"""Salt of a run that takes nothing from any cache, nor joins a run that may."""
_SLOWER, _SLOWEST = 1.2, 5.0
"""How the pause between two looks at the ledger grows while nothing happens, and up to how many times the first."""


@dataclass(frozen=True, slots=True)
class Session:
    """The state of the farm, open: settings, ledger, content store; `worker` is the program of a worker process."""

    settings: Config
    ledger: Ledger
    store: ContentStore
    worker: Sequence[str] = WORKER


@dataclass(frozen=True, slots=True)
class Cell:
    """One job of a build, as it stands: from the cache, or waiting for a run, or failed before it had one.

    `trouble` says what is wrong with the way to the workers while its run is queued; empty when nothing is. `taken`
    says what was scrubbed from the model.
    """

    model: str
    target: str
    job: Job | None = None
    cached: CacheRow | None = None
    run: RunRow | None = None
    payload: Payload | None = None
    error: FarmError | None = None
    trouble: str = ""
    taken: Taken | None = None

    @property
    def state(self) -> RunState:
        """Where it stands; a cell from the cache is done."""
        if self.error is not None:
            cancelled = self.run is not None and self.run.status.state is RunState.CANCELLED
            return RunState.CANCELLED if cancelled else RunState.FAILED
        if self.cached is not None:
            return RunState.DONE
        return RunState.QUEUED if self.run is None else self.run.status.state


OnChange = Callable[[Sequence[Cell]], None]


def ignore(cells: Sequence[Cell]) -> None:
    """An `OnChange` that does nothing."""
    del cells


@contextlib.contextmanager
def session(settings: Config) -> Iterator[Session]:
    """Open the farm's state, made where it is missing. Raises `FarmError` LEDGER_* or of class ENVIRONMENT."""
    home = settings.home.create()
    files.sweep(home.cache)
    with opened(settings.ledger) as ledger:
        yield Session(settings, ledger, ContentStore(home.store))


def compile_jobs(
    farm: Session,
    jobs: Sequence[Job],
    *,
    workers: int,
    use_cache: bool = True,
    on_change: OnChange = ignore,
    on_begin: OnChange = ignore,
    wait: bool = True,
    wanted: Callable[[], bool] = lambda: True,
) -> list[Cell]:
    """Compile every job; the cells in the order of the jobs, each with a payload or an error.

    At most `workers` processes run at once. `on_begin` gets the cells once every job has its run, `on_change` after
    each change. Without `use_cache` every job is compiled whole (or joined to such a run that is under way), and its
    bytes are compared with those in the cache. KeyboardInterrupt stops the workers, which give their runs back, and
    goes through. With a broker in the settings no worker is started: hints bring the runs to workers that are up;
    without `wait` the cells come back once the hints are sent. What is left ends in INTERRUPTED when `wanted` says no.
    """
    cells: list[Cell] = []
    prepare = cache_once(partial(_require_broker, farm.settings))
    try:
        for job in jobs:
            cells.append(_begin(farm, job, prepare, use_cache=use_cache))
    finally:  # broken off, too, somebody must know which runs were asked for
        on_begin(cells)
    on_change(cells)
    waiting = sorted({cell.run.id for cell in cells if cell.run is not None})
    if waiting:
        with _hands(farm, waiting, workers) as crew:
            if not wait:
                crew.tend([], farm.ledger.runs.now())
                return cells
            cells = _wait(farm, cells, crew, on_change, wanted)
    return [_settle(cell) for cell in cells]


def _require_broker(settings: Config) -> None:
    if settings.broker is not None:
        from farm.reconcile import require_broker  # Celery is imported only where there is a broker

        require_broker(settings)


def _begin(farm: Session, job: Job, prepare: Callable[[], None], *, use_cache: bool) -> Cell:
    """The cell of a job: from the cache, or with its run; `prepare` is called before a run is asked for."""
    cell = Cell(job.model.name, job.action.target_name, job)
    runs, key, salt = farm.ledger.runs, job.action.execution_key, "" if use_cache else ALONE
    while True:
        try:
            entry = runs.cached(key) if use_cache else None
            found = cache.lookup(runs, farm.store, key) if use_cache else None
        except FarmError as error:
            return replace(cell, error=error)
        if found is not None:
            return replace(cell, payload=found[0], cached=found[1])
        prepare()
        # An entry without its bytes is compiled again; one that another build makes in this moment is not.
        ask = runs.submit_unless_cached if use_cache and entry is None else partial(runs.submit, salt=salt)
        made = ask(
            execution_key=key,
            recipe_key=job.action.recipe_key,
            action=canonical.encode(job).decode(),
            max_losses=farm.settings.max_losses,
            target=job.action.target_name,
            model_bytes=job.model.size + sum(item.size for item in job.model.external),
        )
        if made is not None:
            return replace(cell, run=made[0])


def _hands(farm: Session, runs: Sequence[int], workers: int) -> _Crew | Hints:
    if farm.settings.broker is None:
        return _Crew(farm, runs, workers)
    from farm.reconcile import Hints

    return Hints(farm, runs)


def _wait(
    farm: Session, cells: list[Cell], crew: _Crew | Hints, on_change: OnChange, wanted: Callable[[], bool]
) -> list[Cell]:
    """Look at the runs until all are final, or none of them is wanted."""
    runs = farm.ledger.runs
    pause = farm.settings.poll_s
    while True:
        rows = {row.id: row for row in runs.select(crew.runs)}
        seen = [_seen(cell, rows[cell.run.id], crew.trouble) if cell.run is not None else cell for cell in cells]
        pause = min(pause * _SLOWER, farm.settings.poll_s * _SLOWEST)
        if seen != cells:
            cells = seen
            pause = farm.settings.poll_s
            on_change(cells)
        statuses = [row.status for row in rows.values()]
        if all(status.state.final for status in statuses) or not wanted():
            return cells
        crew.tend(statuses, runs.now())
        time.sleep(pause)


def _seen(cell: Cell, run: RunRow, trouble: str) -> Cell:
    return replace(cell, run=run, trouble=trouble if run.status.state is RunState.QUEUED else "")


def _settle(cell: Cell) -> Cell:
    """The cell with the payload or the error that its final run has."""
    if cell.run is None:
        return cell
    if cell.run.payload is not None:
        return replace(cell, payload=canonical.decode(Payload, cell.run.payload.encode(), name=f"run r{cell.run.id}"))
    cancelled = FarmError(Code.INTERRUPTED, f"run r{cell.run.id} was cancelled", next_step="Run the build again.")
    return replace(cell, error=cell.run.failure() or cancelled)


@dataclass(frozen=True, slots=True)
class _Hand:
    """A worker process, and how often the build's runs had been taken when it was started."""

    process: subprocess.Popen[bytes]
    takings: int


class _Crew:
    """The worker processes of one build. They end with the block, however it ends."""

    trouble = ""

    def __init__(self, farm: Session, runs: Sequence[int], limit: int) -> None:
        self.runs = runs
        self._farm = farm
        self._settings = farm.settings
        self._argv = farm.worker
        self._log = farm.settings.home.worker_log
        self._limit = limit
        self._cores = max(1, cores() // min(limit, len(runs)))
        self._alive: dict[str, _Hand] = {}
        self._futile = 0

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for hand in self._alive.values():
            hand.process.terminate()
        for hand in self._alive.values():
            try:
                hand.process.wait(timeout=hands.PATIENCE_S)
            except subprocess.TimeoutExpired:
                hand.process.kill()
                hand.process.wait()
                runners.sweep(self._settings.home)
        files.sweep(self._settings.home.cache)  # what killed workers left

    def tend(self, statuses: Sequence[rules.RunStatus], now: float) -> None:
        """Bury the workers that ended, kill those that hang, start those that are wanted.

        Raises WORKER_FAILED when none of them can work.
        """
        takings = sum(status.fencing for status in statuses)
        for name, hand in list(self._alive.items()):
            status = hand.process.poll()
            if status is None:
                continue
            del self._alive[name]
            if status:
                farm = self._farm
                logs.keep_of(farm.ledger.runs, farm.store, farm.settings.home.logs, name, self.runs)
            worked = status == 0 or takings > hand.takings
            self._futile = 0 if worked else self._futile + 1
            if self._futile >= hands.FUTILE_LIMIT:
                raise hands.futile(self._log, name, status)
        for name in rules.stuck(statuses, now, self._alive, self._settings.beat_s):
            self._alive[name].process.kill()
        for _ in range(rules.workers_wanted(statuses, now, self._alive, self._limit, self._settings.lease_s)):
            self._start(takings)

    def _start(self, takings: int) -> None:
        name = f"local-{os.getpid()}-{secrets.token_hex(4)}"
        process = hands.start(self._argv, name, self._cores, self._log, self.runs)
        self._alive[name] = _Hand(process, takings)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))
