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
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

from containers.result import Accepted
from containers.runner import Runner, Tag
from farm import config, describe, runners
from farm.actions import Job, require_current
from farm.config import Config
from farm.heart import Heart
from farm.ledger.ledger import opened
from farm.ledger.nouns import Seat
from farm.ledger.rules import Lease, Reason
from farm.logs import keeping, log_path
from farm.objects import ObjectCache
from farm.payload import payload_digest
from farm.worker_runs import Surround, TakenRun, WorkerRuns
from kernelfarm import canonical, files, objects
from kernelfarm.child import ChildResult
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Execution, Payload
from kernelfarm.store import ContentStore

RunnerOf = Callable[[Execution], Runner]
"""Which runner compiles an action: the one that its execution names, or a test's."""

MODEL_FILE = "model.onnx"
RULES_FILE = "rules.json"
_PR_SET_PDEATHSIG = 1

_REASONS = {
    Code.CHILD_TIMEOUT: Reason.TOTAL_TIMEOUT,
    Code.CHILD_SILENT: Reason.SILENCE_TIMEOUT,
    Code.TOOL_TIMEOUT: Reason.LIMIT_EXCEEDED,
    Code.CHILD_MEMORY: Reason.LIMIT_EXCEEDED,
    Code.CHILD_FILE_SIZE: Reason.LIMIT_EXCEEDED,
    Code.CHILD_OUTPUT: Reason.LIMIT_EXCEEDED,
    Code.CHILD_KILLED: Reason.CHILD_DIED,
    Code.CHILD_CRASHED: Reason.CHILD_DIED,
    Code.RESULT_REFUSED: Reason.RESULT_REFUSED,
    Code.STORE_CORRUPT: Reason.ENVIRONMENT,
    Code.STORE_MISSING: Reason.ENVIRONMENT,
}

LOST = frozenset(
    {
        Code.RUNNER_LOST,
        Code.RUNNER_UNAVAILABLE,
        Code.GATE_UNREACHABLE,
        Code.REGISTRY_UNREACHABLE,
        Code.REGISTRY_REFUSED,
        Code.BLOB_MISSING,
        Code.BLOB_REFUSED,
    }
)
"""What says nothing about the run, only about what it ran on: it is tried again, here or elsewhere, a few times."""


class LeaseGone(Exception):
    """Raised in the middle of a compile when the heart says stop: the lease is lost, the run is not wanted any more, or
    the compile makes no progress."""


def trust(job: Job) -> None:
    """A `recheck` that believes every job."""
    del job


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: its name is unique among all that ever used the ledger; `cores` is what a compile may use.

    `interrupt` is called from another thread when the lease is lost, to end the compile at once. `recheck` is called
    with the job before and after its compile and raises when the job's keys are not true any more. `surround` brings
    inputs in and logs out: `farm.logs.keeping`, or that of a worker elsewhere.
    """

    name: str
    settings: Config
    runs: WorkerRuns
    store: ContentStore
    runner_of: RunnerOf
    surround: Surround
    cores: int
    interrupt: Callable[[], None] = lambda: None
    recheck: Callable[[Job], None] = trust

    def work(self, runs: Sequence[int]) -> int:
        """Take and compile these runs until none of them can be taken; returns how many it took.

        What goes wrong with a run is recorded in the ledger and not raised. KeyboardInterrupt gives the run back first.
        """
        count = 0
        while True:
            seat = Seat(host=socket.gethostname())
            taken = self.runs.take(self.name, lease_s=self.settings.lease_s, among=runs, seat=seat)
            if taken is None:
                return count
            count += 1
            lease, row = taken
            with _Settled(self.runs, lease), Heart(self.runs, lease, self.settings, self.interrupt) as heart:
                try:
                    payload, ended = self._compile(row, lease, heart)
                except LeaseGone:
                    heart.require_progress()
                    raise
                text = canonical.encode(payload).decode()
                self.runs.finish(lease, text, max_rss_bytes=ended.max_rss_bytes)

    def _compile(self, row: TakenRun, lease: Lease, heart: Heart) -> tuple[Payload, ChildResult]:
        job = canonical.decode(Job, row.action.encode(), name=f"the job of run r{row.id}")
        home = self.settings.home
        log = log_path(home.logs, row.id, lease.fencing)
        with files.coded("a run could not be prepared", home.cache):
            log.parent.mkdir(parents=True, exist_ok=True)
            self.recheck(job)
            with self.surround(lease, job, log), files.temp_folder(home.cache) as scratch:
                prepare(scratch / "in", job, self.store, self.cores)
                cache = ObjectCache(home.objects)
                accepted, ended = self.runner_of(job.action.execution).compile_in(
                    scratch,
                    log_path=log,
                    limits=replace(self.settings.limits, cores=self.cores),
                    on_progress=heart.tell,
                    objects=None if row.salt else cache.folder(job),  # a run with a salt is to stand alone
                    tag=Tag(row.id, lease.fencing),
                )
                accepted = describe.completed(job, accepted)
                self.recheck(job)
                payload = take_in(job, accepted, self.store)
                cache.merge(job, accepted.objects)
                return payload, ended


class _Settled:
    """Records how a run's compile ended, whatever ended it, unless the lease is lost: then nothing is left to say."""

    def __init__(self, runs: WorkerRuns, lease: Lease) -> None:
        self._runs = runs
        self._lease = lease

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None:
            return True
        if isinstance(error, KeyboardInterrupt | LeaseGone):
            with contextlib.suppress(FarmError):  # lost, or the ledger is away: the lease runs out
                self._runs.release(self._lease)
            return isinstance(error, LeaseGone)
        if not isinstance(error, FarmError):
            fault = f"{type(error).__name__}: {error}"
            self._fail(Reason.FAULT, FarmError(Code.INTERNAL, "the worker stopped by a fault of its own", fault))
            return False
        if error.code in LOST:
            self._unless_lost(partial(self._runs.lose, self._lease, error))
        else:  # PAYLOAD_DIFFERS ended the run when it was found: then the lease is over too
            self._fail(reason_of(error), error)
        return True

    def _fail(self, reason: Reason, error: FarmError) -> None:
        self._unless_lost(partial(self._runs.fail, self._lease, reason, error))

    def _unless_lost(self, act: Callable[[], object]) -> None:
        try:
            act()
        except FarmError as refusal:
            if refusal.code is not Code.LEASE_LOST:
                raise


def reason_of(error: FarmError) -> Reason:
    """The reason that the ledger keeps for a compile's error."""
    fallback = Reason.ENVIRONMENT if error.status is Status.ENVIRONMENT else Reason.COMPILE_ERROR
    return _REASONS.get(error.code, fallback)


def prepare(folder: Path, job: Job, store: ContentStore, cores: int) -> None:
    """Fill a compile's input folder from the store, every byte verified."""
    options = job.action.recipe.options
    request = {
        "schema": "compile-request/1",
        "model": MODEL_FILE,
        "model_name": job.model.name,
        "shapes": {name: list(dims) for name, dims in options.shapes},
        "target": job.target,
        "jobs": cores,
        "rules": None if options.rules is None else RULES_FILE,
    }
    folder.mkdir()
    (folder / "request.json").write_bytes(canonical.dumps(request))
    store.export(job.model.digest, folder / MODEL_FILE)
    if options.rules is not None:
        store.export(options.rules.digest, folder / RULES_FILE)
    for external in job.model.external:
        if external.name.split("/")[0] in (MODEL_FILE, RULES_FILE, "request.json", objects.FOLDER):
            why = "a compile needs this name for itself"
            raise FarmError(Code.EXTERNAL_OUTSIDE, f"external data is named {external.name!r}", why, "Rename it.")
        place = folder / external.name
        place.parent.mkdir(parents=True, exist_ok=True)
        store.export(external.digest, place)


def take_in(job: Job, accepted: Accepted, store: ContentStore) -> Payload:
    """Put a checked result's files into the store; the payload that they are. Raises RESULT_REFUSED or as the store."""
    payload = Payload(payload_digest(accepted.folder), job.model.name, job.action.target_name, files=accepted.files)
    for entry in payload.files:
        if store.put_file(accepted.folder / entry.name) != entry.digest:
            raise FarmError(Code.RESULT_REFUSED, f"{entry.name} changed while it was taken in")
    return payload


def run_process(arguments: Sequence[str] | None = None, *, runner: Runner | None = None) -> int:
    """A worker process: `--name NAME --cores N --parent PID [RUN...]`. Returns its exit status.

    Without a RUN it waits for a line of them on standard input.
    Ends when the process `--parent` dies, on SIGTERM (130, the run given back), or when there is nothing to take.
    """
    options = _parse(arguments)
    die_with(options.parent)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGUSR1, drop)
    os.umask(0o022)
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    try:
        settings = config.load()
        runners.sweep(settings.home)
        files.sweep(settings.home.cache)
        runs = options.runs or [int(word) for word in sys.stdin.readline().split()]  # a spare has done all above by now
        if not runs:  # the station ends
            return int(Status.DONE)
        with opened(settings.ledger) as ledger:
            store = ContentStore(settings.home.store)
            interrupt = partial(signal.pthread_kill, main_thread, signal.SIGUSR1)
            work: RunnerOf = partial(runners.of, settings.home) if runner is None else lambda _: runner
            recheck = require_current if runner is None else trust
            keep = keeping(ledger.runs, store, settings.home.logs)
            Worker(options.name, settings, ledger.runs, store, work, keep, options.cores, interrupt, recheck).work(runs)
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
    parser.add_argument("runs", type=int, nargs="*")
    return parser.parse_args(arguments)


def die_with(parent: int) -> None:
    """Ask the kernel for SIGTERM when the parent's thread that started this process ends; stop if it has already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(int(Status.INTERRUPTED))


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):  # one is enough; the clean-up is not to be broken off
        signal.signal(name, signal.SIG_IGN)
    raise KeyboardInterrupt


def drop(number: int, frame: FrameType | None) -> NoReturn:
    """The handler of the signal by which a heart ends a compile."""
    del number, frame
    raise LeaseGone


if __name__ == "__main__":
    raise SystemExit(run_process())
