"""The logs of attempts: files while compilers write them, then in the content store too, under the attempt's digest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from farm.actions import Job
from farm.ledger.rules import Lease
from farm.ledger.runs import Runs
from farm.worker_runs import Surround
from kernelfarm.errors import FarmError
from kernelfarm.store import ContentStore


def log_path(logs: Path, run: int, fencing: int) -> Path:
    """The log of one attempt."""
    return logs / f"r{run}" / f"{fencing}.log"


def keep(runs: Runs, store: ContentStore, logs: Path, lease: Lease) -> None:
    """Put an attempt's log, as it is now, into the store and record its digest; nothing where there is no log.

    Raises `FarmError` LEDGER_* or of the disk.
    """
    path = log_path(logs, lease.run_id, lease.fencing)
    if path.is_file():
        runs.keep_log(lease, store.put_file(path))


def keep_earlier(runs: Runs, store: ContentStore, logs: Path, lease: Lease) -> None:
    """As `keep`, for the attempts before this one whose workers died before they could."""
    for attempt in runs.attempts(lease.run_id):
        if attempt.fencing < lease.fencing and attempt.log is None:
            keep(runs, store, logs, replace(lease, fencing=attempt.fencing))


def try_keep(runs: Runs, store: ContentStore, logs: Path, lease: Lease) -> None:
    """As `keep`; a log that cannot be kept stops no run, its file is there."""
    with contextlib.suppress(FarmError):
        keep(runs, store, logs, lease)


def try_keep_earlier(runs: Runs, store: ContentStore, logs: Path, lease: Lease) -> None:
    """As `keep_earlier` and `try_keep`."""
    with contextlib.suppress(FarmError):
        keep_earlier(runs, store, logs, lease)


def keep_of(runs: Runs, store: ContentStore, logs: Path, worker: str, ids: Sequence[int]) -> None:
    """As `keep`, for what a worker process that died left of the runs `ids`. A log that cannot be kept is left."""
    with contextlib.suppress(FarmError):
        for run in ids:
            for attempt in runs.attempts(run):
                if attempt.worker == worker and attempt.log is None:
                    keep(runs, store, logs, Lease(run, attempt.fencing, worker, 0.0))


def keeping(runs: Runs, store: ContentStore, logs: Path) -> Surround:
    """A `Surround` for a worker that shares the farm's disk: afterwards, however the compile ended, its log is kept.

    It is kept before the run counts as ended: who waited for that may then stop the worker.
    """

    @contextlib.contextmanager
    def surround(lease: Lease, job: Job, log: Path) -> Iterator[None]:
        del job, log
        try_keep_earlier(runs, store, logs, lease)
        try:
            yield
        finally:
            try_keep(runs, store, logs, lease)

    return surround
