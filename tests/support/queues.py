"""Real workers and builds at a real Redis, with slow compiles; what they leave behind is asserted at the end.

Settings are such that the sweeps act within the test: kombu looks for messages to deliver again a few times within the
(short) visibility time, leases last 2.5 s, lost hints are looked for every half second.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farm.ledger.ledger import Ledger, opened
from tests.support import farms
from tests.support.farms import Marks, alive
from tests.support.redis_server import RedisServer
from tests.support.services import HANG_S

SUPPORT = Path(__file__).parent
LEASE_S = 2.5


@dataclass
class Queue:
    """One farm: its home, Redis, ledger, and every process that a test started."""

    home: Path
    redis: RedisServer
    ledger: Ledger
    marks: Marks
    address: str = ""
    stations: list[subprocess.Popen[str]] = field(default_factory=list)
    builds: list[subprocess.Popen[str]] = field(default_factory=list)

    def station(self, *, slots: int = 1, **extra: str) -> subprocess.Popen[str]:
        """Start a `farm worker` in a session of its own and wait until it serves."""
        argv = [sys.executable, str(SUPPORT / "slow_station.py"), str(self.home), self.redis.url, str(slots)]
        log = self.home / f"station-{len(self.stations)}.log"
        with log.open("w") as stream:
            made = subprocess.Popen(
                argv, stderr=stream, text=True, env=self._environment(extra), start_new_session=True
            )
        self.stations.append(made)
        farms.eventually(lambda: "takes up to" in log.read_text() or made.poll() is not None)
        return made

    def build(self, targets: Sequence[str] = ("x86-64-v3",), *, models: int = 1, **extra: str) -> subprocess.Popen[str]:
        """Start a build of `models` models for these targets, which hands its runs to the stations."""
        broker = {"FARM_BROKER_URL": self.redis.url, "KF_MODELS": str(models)}
        argv = [sys.executable, str(SUPPORT / "slow_build.py"), str(self.home), *targets]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        made = subprocess.Popen(argv, env=self._environment({**broker, **extra}), start_new_session=True, **pipes)
        self.builds.append(made)
        return made

    def said(self, number: int = 0) -> str:
        """What a station said so far."""
        return (self.home / f"station-{number}.log").read_text()

    def states(self) -> list[str]:
        """The states of all runs, oldest first."""
        return [row.status.state.value for row in reversed(self.ledger.runs.recent(1000))]

    def outcomes(self, run: int = 1) -> list[str | None]:
        """How the attempts of a run ended."""
        return [None if item.outcome is None else item.outcome.value for item in self.ledger.runs.attempts(run)]

    def stop(self) -> None:
        """Kill whatever is left of the test."""
        for process in [*self.builds, *self.stations]:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def left(self) -> list[str]:
        """Processes, leases and files that should not be there any more; the stations themselves may."""
        processes = [f"compile {pid}" for pid in self.marks.started() if alive(pid)]
        workers = [f"worker {pid}" for pid in self._stray()]
        leases = [f"lease r{row.id}" for row in self.ledger.runs.recent(1000) if row.status.lease_until is not None]
        scratch = [str(path) for path in [*(self.home / "cache").iterdir(), *(self.home / "store" / "tmp").glob("*")]]
        return [*processes, *workers, *leases, *scratch]

    def _stray(self) -> list[int]:
        """Worker processes beside the one that each station keeps ready."""
        allowed = {station.pid for station in self.stations if station.poll() is None}
        found = []
        for pid in worker_processes(self.home):
            above = parent(pid)
            if above in allowed:
                allowed.remove(above)
            else:
                found.append(pid)
        return found

    def _environment(self, extra: dict[str, str]) -> dict[str, str]:
        quick = {"FARM_LEASE_S": str(LEASE_S), "FARM_RECONCILE_S": "0.5", "FARM_VISIBILITY_S": "5"}
        ledger = {"FARM_LEDGER_URL": self.address} if self.address else {}
        return {**os.environ, **quick, **ledger, **extra}


@contextlib.contextmanager
def running(home: Path, redis: RedisServer, address: str = "") -> Iterator[Queue]:
    """A queue with its state in `home` and its ledger there, or at `address`; it is stopped behind the block."""
    farms.settings(home)
    with opened(address or home / "ledger.sqlite3") as ledger:
        made = Queue(home, redis, ledger, farms.marks(home), address)
        try:
            yield made
        finally:
            made.stop()


def cells(build: subprocess.Popen[str], *, within_s: float = HANG_S) -> list[dict[str, Any]]:
    """The cells of a build that has ended well."""
    out, err = build.communicate(timeout=within_s)
    assert build.returncode == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


def parent(pid: int) -> int:
    """The parent of a process; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def worker_of(pid: int) -> int:
    """The worker process above a compile: the parent of its launcher."""
    return parent(parent(pid))


def worker_processes(home: Path) -> list[int]:
    """Process ids of the slow worker processes of a farm."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                environment = (folder / "environ").read_bytes().split(b"\0")
                ours = f"FARM_HOME={home}".encode() in environment and alive(int(folder.name))
                if ours and any(word.endswith(b"slow_worker.py") for word in words):
                    found.append(int(folder.name))
    return found
