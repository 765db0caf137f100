"""The heartbeat of a lease: a thread that prolongs it while its owner works, and carries the owner's progress along."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from containers.process import Progress
from farm.config import Config
from farm.ledger.ledger import Ledger
from farm.ledger.rules import Lease
from kernelfarm.errors import Code, FarmError

PROGRESS_S = 0.25
"""Progress reaches the ledger at most this often."""


class Heart:
    """Beats for a lease inside a `with` block. `on_lost` is called in the heart's thread when the lease is lost."""

    def __init__(self, ledger: Ledger, lease: Lease, settings: Config, on_lost: Callable[[], None]) -> None:
        self._ledger = ledger
        self._lease = lease
        self._settings = settings
        self._on_lost = on_lost
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

    def _run(self) -> None:
        told = self._progress
        next_beat = time.monotonic() + self._settings.beat_s
        while not self._stop.wait(min(PROGRESS_S, self._settings.beat_s)):
            progress = self._progress
            if progress is told and time.monotonic() < next_beat:
                continue
            if not self._beat(progress):
                return
            told, next_beat = progress, time.monotonic() + self._settings.beat_s

    def _beat(self, progress: tuple[str, int, int] | None) -> bool:
        try:
            self._ledger.runs.beat(self._lease, lease_s=self._settings.lease_s, progress=progress)
        except FarmError as error:
            if error.code is Code.LEASE_LOST:
                self._on_lost()
                return False
            # The ledger is away for a moment: the next beat tries again, and the lease ends if it stays away.
        return True
