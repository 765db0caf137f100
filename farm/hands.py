"""Worker processes: how one is started and judged, and those of a station.

A station has a fresh one for each run, and one more that has started before it is needed: starting Python with all that
a worker imports takes half a second on an idle machine; the one that waits has done it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from kernelfarm import files
from kernelfarm.errors import Code, FarmError

FUTILE_LIMIT = 3
"""Worker processes that may end in a row without having done anything, before nobody starts another."""
PATIENCE_S = 10.0
"""What a worker process gets to give its run back."""


def start(argv: Sequence[str], name: str, cores: int, log: Path, runs: Sequence[int] | None = None) -> Popen[bytes]:
    """A worker process of the program `argv` that takes leases as `name`; its output goes to `log`.

    Without `runs` it waits to be told them on its standard input. Raises an ENVIRONMENT error when it cannot start.
    """
    words = [*argv, "--name", name, "--cores", str(cores), "--parent", str(os.getpid()), *map(str, runs or ())]
    with files.coded("a worker could not be started", log), log.open("ab") as stream:
        return Popen(
            words,
            stdin=subprocess.PIPE if runs is None else subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,  # a signal to our group does not reach it: we stop it in order, or let it end
        )


def belongs(process: str, station: str) -> bool:
    """Whether a lease's name is that of a station's process, or of a worker elsewhere, which has but one name."""
    return re.fullmatch(re.escape(station) + r"(-[0-9a-f]{6})?", process) is not None


def futile(log: Path, name: str, status: int) -> FarmError:
    """The error when `FUTILE_LIMIT` worker processes in a row could not work; `name` is the last one."""
    return FarmError(
        Code.WORKER_FAILED,
        f"{FUTILE_LIMIT} workers in a row could not work",
        f"the last one, {name}, ended with status {status}: {files.last_line(log) or 'it said nothing'}",
        f"See {log}, or run `farm doctor`.",
        detail={"file": str(log)},
    )


@dataclass(frozen=True, slots=True)
class Hand:
    """A worker process and the name under which it takes leases."""

    name: str
    process: Popen[bytes]

    def give(self, runs: Sequence[int]) -> bool:
        """Tell it its runs; whether it was still there to hear it."""
        assert self.process.stdin is not None
        try:
            with self.process.stdin as stream:
                stream.write(" ".join(map(str, runs)).encode() + b"\n")
        except BrokenPipeError:
            return False
        return True


class Hands:
    """Starts worker processes with the program `argv`; their output goes to `log`. The spare ends with the block."""

    def __init__(self, argv: Sequence[str], prefix: str, cores: int, log: Path) -> None:
        self._argv = argv
        self._prefix = prefix
        self._cores = cores
        self._log = log
        self._lock = threading.Lock()
        # One thread starts them all: the kernel ends a worker process with the thread that started it
        # (`farm.worker.die_with`), and the threads that take them may end before their runs do.
        self._starter = ThreadPoolExecutor(1, "hands")
        self._spare: Future[Hand] | None = None

    def __enter__(self) -> Hands:
        self._spare = self._starter.submit(self._start)
        self._spare.result()  # what keeps all of them from starting is said at once
        return self

    def __exit__(self, *_: object) -> None:
        assert self._spare is not None
        with contextlib.suppress(FarmError):  # it could not be started
            spare = self._spare.result()
            spare.give([])
            spare.process.wait()
        self._starter.shutdown()

    def take(self, runs: Sequence[int]) -> Hand:
        """A worker process that works on these runs. Raises an ENVIRONMENT error when none can be started."""
        with self._lock:
            assert self._spare is not None
            found, self._spare = self._spare, self._starter.submit(self._start)
        hand = found.result()
        if not hand.give(runs):
            hand.process.wait()
            hand = self._starter.submit(self._start).result()
            hand.give(runs)
        return hand

    def _start(self) -> Hand:
        name = f"{self._prefix}-{secrets.token_hex(3)}"
        return Hand(name, start(self._argv, name, self._cores, self._log))
