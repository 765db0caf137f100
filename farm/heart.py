"""The heartbeat of a lease: a thread that prolongs it while its owner works, and carries the owner's progress along."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from containers.runner import Progress
from farm.config import Config
from farm.ledger.rules import Lease
from farm.worker_runs import WorkerRuns
from kernelfarm.errors import Code, FarmError

PROGRESS_S = 0.25
"""Progress reaches the ledger at most this often."""


class Heart:
    """Beats for a lease inside a `with` block.

    `on_lost` is called in the heart's thread, once, when the lease is lost, when somebody asked for the end of the run,
    or when no progress came for `silence_s` seconds.
    """

    def __init__(self, runs: WorkerRuns, lease: Lease, settings: Config, on_lost: Callable[[], None]) -> None:
        self._runs = runs
        self._lease = lease
        self._settings = settings
        self._on_lost = on_lost
        self._told_at = time.monotonic()
        self._silent = False
        self._progress: tuple[str, int, int] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)

    def __enter__(self) -> Heart:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def tell(self, progress: Progress) -> None:
        """Progress to carry along with the next beat."""
        self._progress = (progress.stage, progress.done, progress.total)
        self._told_at = time.monotonic()

    def require_progress(self) -> None:
        """Raise `FarmError` CHILD_SILENT when it was for want of progress that `on_lost` was called."""
        if self._silent:
            raise FarmError(
                Code.CHILD_SILENT,
                "the compiler was stopped",
                f"it made no progress for {self._settings.silence_s:g} s",
                "Nothing of it was kept. Read its log with `farm logs`, or raise FARM_SILENCE_S.",
            )

    def _run(self) -> None:
        told = self._progress
        next_beat = time.monotonic() + self._settings.beat_s
        while not self._stop.wait(min(PROGRESS_S, self._settings.beat_s)):
            progress = self._progress
            if time.monotonic() > self._told_at + self._settings.silence_s:
                self._silent = True
                self._on_lost()
                return
            if progress is told and time.monotonic() < next_beat:
                continue
            if not self._beat(progress):
                return
            told, next_beat = progress, time.monotonic() + self._settings.beat_s

    def _beat(self, progress: tuple[str, int, int] | None) -> bool:
        try:
            lease = self._runs.beat(self._lease, lease_s=self._settings.lease_s, progress=progress)
            stop = lease.cancel_asked
        except FarmError as error:
            # Else the ledger is away for a moment: the next beat tries again, and the lease ends if it stays away.
            stop = error.code is Code.LEASE_LOST
        if stop:
            self._on_lost()
        return not stop
