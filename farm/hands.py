"""The worker processes of a station: a fresh one for each run, and one more that has started before it is needed.

Starting Python with all that a worker imports takes half a second on an idle machine; the one that waits has done it.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelfarm import files


@dataclass(frozen=True, slots=True)
class Hand:
    """A worker process and the name under which it takes leases."""

    name: str
    process: subprocess.Popen[bytes]

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
        self._spare: Hand | None = None

    def __enter__(self) -> Hands:
        self._spare = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._spare is not None:
            self._spare.give([])
            self._spare.process.wait()

    def take(self, runs: Sequence[int]) -> Hand:
        """A worker process that works on these runs. Raises an ENVIRONMENT error when none can be started."""
        with self._lock:
            found, self._spare = self._spare, None
        if found is None or not found.give(runs):
            if found is not None:
                found.process.wait()
            found = self._start()
            found.give(runs)
        with self._lock:
            if self._spare is None:
                self._spare = self._start()
        return found

    def _start(self) -> Hand:
        name = f"{self._prefix}-{secrets.token_hex(3)}"
        argv = [*self._argv, "--name", name, "--cores", str(self._cores), "--parent", str(os.getpid())]
        with files.coded("a worker could not be started", self._log), self._log.open("ab") as stream:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                start_new_session=True,  # a signal to the station's group lets a run come to its end
            )
        return Hand(name, process)
