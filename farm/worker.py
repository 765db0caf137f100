"""The local worker: takes runs by lease, compiles them, brings accepted results in. `python -m farm.worker` is one.

A worker trusts the ledger alone: what it may work on, how long, and whether its result still counts. When its lease is
lost (it slept, or the clock jumped) it drops what it has; the fencing number keeps a late result out in any case.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

from containers import process
from containers.process import Progress
from containers.result import Accepted
from farm import config
from farm.actions import Job, require_current
from farm.config import Config
from farm.heart import Heart
from farm.ledger.ledger import Ledger, opened
from farm.ledger.rules import Lease, Reason
from farm.ledger.runs import RunRow
from farm.objects import ObjectCache
from farm.payload import payload_digest
from kernelfarm import canonical, files, objects
from kernelfarm.child import ChildResult
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Payload
from kernelfarm.store import ContentStore

Runner = Callable[[Path, Path, Callable[[Progress], None]], tuple[Accepted, ChildResult]]
"""Compiles what a scratch folder's "in" holds: (scratch, log file, progress) -> checked result, how the child ended."""

MODEL_FILE = "model.onnx"
_PR_SET_PDEATHSIG = 1

_REASONS = {
    Code.CHILD_TIMEOUT: Reason.LIMIT_EXCEEDED,
    Code.TOOL_TIMEOUT: Reason.LIMIT_EXCEEDED,
    Code.CHILD_MEMORY: Reason.LIMIT_EXCEEDED,
    Code.CHILD_FILE_SIZE: Reason.LIMIT_EXCEEDED,
    Code.CHILD_KILLED: Reason.CHILD_DIED,
    Code.CHILD_CRASHED: Reason.CHILD_DIED,
    Code.RESULT_REFUSED: Reason.RESULT_REFUSED,
    Code.STORE_CORRUPT: Reason.ENVIRONMENT,
    Code.STORE_MISSING: Reason.ENVIRONMENT,
}


class LeaseGone(Exception):
    """Raised in the middle of a compile when the heart finds that the lease is lost."""


def trust(job: Job) -> None:
    """A `recheck` that believes every job."""
    del job


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: its name is unique among all that ever used the ledger; `cores` is what a compile may use.

    `interrupt` is called from another thread when the lease is lost, to end the compile at once. `recheck` is called
    with the job before and after its compile and raises when the job's keys are not true any more.
    """

    name: str
    settings: Config
    ledger: Ledger
    store: ContentStore
    runner: Runner
    cores: int
    interrupt: Callable[[], None] = lambda: None
    recheck: Callable[[Job], None] = trust

    def work(self, runs: Sequence[int]) -> int:
        """Take and compile these runs until none of them can be taken; returns how many it took.

        What goes wrong with a run is recorded in the ledger and not raised. KeyboardInterrupt gives the run back first.
        """
        count = 0
        while True:
            taken = self.ledger.runs.take(self.name, lease_s=self.settings.lease_s, among=runs)
            if taken is None:
                return count
            count += 1
            lease, row = taken
            with _Settled(self.ledger, lease), Heart(self.ledger, lease, self.settings, self.interrupt) as heart:
                payload, ended = self._compile(row, lease, heart)
                text = canonical.encode(payload).decode()
                self.ledger.runs.finish(lease, text, max_rss_bytes=ended.max_rss_bytes)

    def _compile(self, row: RunRow, lease: Lease, heart: Heart) -> tuple[Payload, ChildResult]:
        job = canonical.decode(Job, row.action.encode(), name=f"the job of run r{row.id}")
        home = self.settings.home
        log = log_path(home.logs, row.id, lease.fencing)
        with files.coded("a run could not be prepared", home.cache):
            log.parent.mkdir(parents=True, exist_ok=True)
            self.recheck(job)
            with files.temp_folder(home.cache) as scratch:
                prepare(scratch / "in", job, self.store, self.cores)
                cache = ObjectCache(home.objects)
                if not row.salt:  # a run with one is to stand alone
                    offer(scratch / "in", cache.folder(job))
                accepted, ended = self.runner(scratch, log, heart.tell)
                self.recheck(job)
                payload = take_in(job, accepted, self.store)
                cache.merge(job, accepted.objects)
                return payload, ended


class _Settled:
    """Records how a run's compile ended, whatever ended it, unless the lease is lost: then nothing is left to say."""

    def __init__(self, ledger: Ledger, lease: Lease) -> None:
        self._ledger = ledger
        self._lease = lease

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None or isinstance(error, LeaseGone):
            return True
        if isinstance(error, KeyboardInterrupt):
            with contextlib.suppress(FarmError):  # lost, or the ledger is away: the lease runs out
                self._ledger.runs.release(self._lease)
            return False
        if not isinstance(error, FarmError):
            fault = f"{type(error).__name__}: {error}"
            self._fail(Reason.FAULT, FarmError(Code.INTERNAL, "the worker stopped by a fault of its own", fault))
            return False
        if error.code is not Code.PAYLOAD_DIFFERS:  # that one was recorded when it was found
            self._fail(reason_of(error), error)
        return True

    def _fail(self, reason: Reason, error: FarmError) -> None:
        try:
            self._ledger.runs.fail(self._lease, reason, error)
        except FarmError as refusal:
            if refusal.code is not Code.LEASE_LOST:
                raise


def reason_of(error: FarmError) -> Reason:
    """The reason that the ledger keeps for a compile's error."""
    fallback = Reason.ENVIRONMENT if error.status is Status.ENVIRONMENT else Reason.COMPILE_ERROR
    return _REASONS.get(error.code, fallback)


def log_path(logs: Path, run: int, fencing: int) -> Path:
    """The log of one attempt."""
    return logs / f"r{run}" / f"{fencing}.log"


def prepare(folder: Path, job: Job, store: ContentStore, cores: int) -> None:
    """Fill a compile's input folder from the store, every byte verified."""
    request = {
        "schema": "compile-request/1",
        "model": MODEL_FILE,
        "model_name": job.model.name,
        "shapes": {name: list(dims) for name, dims in job.action.recipe.options.shapes},
        "target": job.target,
        "jobs": cores,
    }
    folder.mkdir()
    (folder / "request.json").write_bytes(canonical.dumps(request))
    store.export(job.model.digest, folder / MODEL_FILE)
    for external in job.model.external:
        if external.name.split("/")[0] in (MODEL_FILE, "request.json", objects.FOLDER):
            why = "a compile needs this name for itself"
            raise FarmError(Code.EXTERNAL_OUTSIDE, f"external data is named {external.name!r}", why, "Rename it.")
        place = folder / external.name
        place.parent.mkdir(parents=True, exist_ok=True)
        store.export(external.digest, place)


def offer(folder: Path, entries: Path) -> None:
    """Let the compile whose input `folder` was prepared take objects from the cache's folder `entries`."""
    (folder / objects.FOLDER).symlink_to(entries)


def take_in(job: Job, accepted: Accepted, store: ContentStore) -> Payload:
    """Put a checked result's files into the store; the payload that they are. Raises RESULT_REFUSED or as the store."""
    payload = Payload(payload_digest(accepted.folder), job.model.name, job.action.target_name, files=accepted.files)
    for entry in payload.files:
        if store.put_file(accepted.folder / entry.name) != entry.digest:
            raise FarmError(Code.RESULT_REFUSED, f"{entry.name} changed while it was taken in")
    return payload


def process_runner(settings: Config) -> Runner:
    """The runner `process` with the limits of these settings."""

    def compile_in(scratch: Path, log: Path, tell: Callable[[Progress], None]) -> tuple[Accepted, ChildResult]:
        return process.compile_in(scratch, log_path=log, limits=settings.limits, on_progress=tell)

    return compile_in


def run_process(arguments: Sequence[str] | None = None, *, runner: Runner | None = None) -> int:
    """A worker process: `--name NAME --cores N --parent PID RUN...`. Returns its exit status.

    Ends when the process `--parent` dies, on SIGTERM (130, the run given back), or when there is nothing to take.
    """
    options = _parse(arguments)
    _die_with(options.parent)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGUSR1, _drop)
    os.umask(0o022)
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    try:
        settings = config.load()
        files.sweep(settings.home.cache)
        with opened(settings.ledger) as ledger:
            store = ContentStore(settings.home.store)
            interrupt = partial(signal.pthread_kill, main_thread, signal.SIGUSR1)
            work = runner or process_runner(settings)
            recheck = require_current if runner is None else trust
            Worker(options.name, settings, ledger, store, work, options.cores, interrupt, recheck).work(options.runs)
    except FarmError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.status)
    except KeyboardInterrupt:
        return int(Status.INTERRUPTED)
    return int(Status.DONE)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m farm.worker", description="A worker process of one build.")
    parser.add_argument("--name", required=True)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("runs", type=int, nargs="+")
    return parser.parse_args(arguments)


def _die_with(parent: int) -> None:
    """Ask the kernel for SIGTERM when the parent's thread that started this process ends; stop if it has already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(int(Status.INTERRUPTED))


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):  # one is enough; the clean-up is not to be broken off
        signal.signal(name, signal.SIG_IGN)
    raise KeyboardInterrupt


def _drop(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise LeaseGone


if __name__ == "__main__":
    raise SystemExit(run_process())
