"""What a worker asks of the ledger; `farm.ledger.runs.Runs` answers it on the spot, `farm.gate.client` from afar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from farm.actions import Job
from farm.ledger.nouns import NOWHERE, Seat
from farm.ledger.rules import Lease, Reason
from kernelfarm.errors import FarmError


class TakenRun(Protocol):
    """A run as far as its worker looks at it. `action` is the job's canonical JSON; one with a `salt` stands alone."""

    @property
    def id(self) -> int: ...
    @property
    def action(self) -> str: ...
    @property
    def salt(self) -> str: ...


class WorkerRuns(Protocol):
    """The operations of a worker; all but `take` need its lease and raise LEASE_LOST for a stale one."""

    def take(
        self, worker: str, *, lease_s: float, among: Sequence[int], seat: Seat = NOWHERE
    ) -> tuple[Lease, TakenRun] | None: ...

    def beat(self, lease: Lease, *, lease_s: float, progress: tuple[str, int, int] | None = None) -> Lease: ...

    def finish(self, lease: Lease, payload: str, *, max_rss_bytes: int | None = None) -> object: ...

    def fail(self, lease: Lease, reason: Reason, error: FarmError) -> None: ...

    def release(self, lease: Lease) -> None: ...

    def lose(self, lease: Lease, error: FarmError) -> None: ...


Surround = Callable[[Lease, Job, Path], AbstractContextManager[None]]
"""What goes on around a compile, under the heart: (lease, job, log file) -> a block that brings the job's bytes into
the store on entry, where they are not, and the log to where it is kept."""
