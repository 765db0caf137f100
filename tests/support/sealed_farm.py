"""A farm as it is run in earnest: Redis, PostgreSQL, Docker Engine, the pinned image and `farm worker` processes.

What a build left in the ledger and what the engine said of its containers are the witnesses of the tests.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from docker.errors import DockerException

from containers import docker
from farm.ledger.ledger import Ledger, opened
from farm.ledger.nouns import AttemptRow
from kernelfarm import canonical
from kernelfarm.nouns import Payload
from kernelfarm.paths import Home
from tests.support import farms, pinned_image, redis_server
from tests.support.docker_engine import DockerEngine
from tests.support.postgres_server import PostgresServer
from tests.support.product import Product
from tests.support.redis_server import RedisServer

GONE_S = 30.0
"""Seconds after which nothing of a build may be left."""
_LOST = (DockerException, requests.exceptions.RequestException, OSError)
_STOP_S = 60.0

Cell = tuple[str, str]
"""A model's name and a target's."""
Files = dict[str, str]
"""Digests of a payload's files by name."""


@dataclass(frozen=True, slots=True)
class Made:
    """What builds made of cells: a payload's digest and files, or why there is none."""

    payloads: dict[Cell, str]
    files: dict[Cell, Files]
    errors: dict[Cell, str]
    runs: dict[Cell, int]
    keys: dict[Cell, str]


def differences(found: Made, expected: Made) -> list[str]:
    """A line for each cell that is not the expected one: it names the cell, and the file or the error."""
    lines = []
    for cell in sorted({*found.payloads, *found.errors, *expected.payloads, *expected.errors}):
        what = f"{cell[0]} for {cell[1]}"
        failed = sorted({made.errors[cell] for made in (found, expected) if cell in made.errors})
        if failed or cell not in found.payloads or cell not in expected.payloads:
            lines.append(f"{what}: {'; '.join(failed) or 'not built'}")
        elif found.payloads[cell] != expected.payloads[cell]:
            ours, theirs = found.files[cell], expected.files[cell]
            names = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
            lines.append(f"{what}: {', '.join(names) or 'no file, the manifest'} differs")
    return lines


def made_of(documents: list[Any], ledger: Ledger) -> Made:
    """The cells in the documents of `farm build`, with their files as the ledger of that farm holds them."""
    made = Made({}, {}, {}, {}, {})
    for cell in (cell for document in documents for cell in document.get("cells", [])):
        key = (cell["model"], cell["target"])
        if cell["error"]:
            made.errors[key] = f"{cell['error']['code']} {cell['error']['what']} ({cell['error']['why']})"
            continue
        row = ledger.runs.get(int(cell["run"].removeprefix("r")))
        payload = canonical.decode(Payload, str(row.payload).encode(), name=f"the payload of {cell['run']}")
        made.payloads[key] = cell["payload"]
        made.files[key] = {entry.name: entry.digest for entry in payload.files}
        made.runs[key] = row.id
        made.keys[key] = row.execution_key
    return made


class Starts:
    """The containers of a farm that an engine started, by run; heard as they start, also when the engine restarts."""

    def __init__(self, engine: DockerEngine, home: Path) -> None:
        self._engine = engine
        self._wanted = {"event": "start", "label": f"{docker.LABEL}.home={docker.home_label(home)}"}
        self._heard: dict[tuple[str, int], int] = {}
        self._listening = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="starts", daemon=True)

    def __enter__(self) -> Starts:
        self._thread.start()
        assert self._listening.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def by_run(self) -> dict[int, int]:
        """How many containers were started for each run."""
        return dict(Counter(self._heard.copy().values()))

    def _listen(self) -> None:
        since = int(time.time())
        while not self._stop.is_set():
            until = int(time.time()) + 2
            try:
                with contextlib.closing(self._engine.client()) as client:
                    self._listening.set()
                    for event in client.events(since=since, until=until, filters=self._wanted, decode=True):
                        run = int(event["Actor"]["Attributes"][f"{docker.LABEL}.run"])
                        self._heard[event["id"], event["timeNano"]] = run
            except _LOST:  # it is away: once it is back it tells what it knows
                self._stop.wait(0.05)
            else:
                since = until - 1  # told twice rather than not at all


@dataclass
class SealedFarm:
    """One farm: its command line, ledger, engine, Redis, and every process that a test started."""

    product: Product
    engine: DockerEngine
    redis: RedisServer
    ledger: Ledger
    starts: Starts
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    builds: list[subprocess.Popen[str]] = field(default_factory=list)

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a `farm worker`, in a session of its own, and wait until it serves."""
        log = self.product.home / f"worker-{len(self.workers)}.log"
        argv = [sys.executable, "-m", "farm.cli.main", "worker", "--name", f"w{len(self.workers)}"]
        environment = {**os.environ, "FARM_HOME": str(self.product.home), **self.product.environment}
        with log.open("w") as stream:
            made = subprocess.Popen(argv, stderr=stream, env=environment, start_new_session=True)
        self.workers.append(made)
        farms.eventually(lambda: "takes up to" in log.read_text() or made.poll() is not None)
        assert made.poll() is None, log.read_text()
        return made

    def begin(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start `farm build ARGUMENTS` in containers."""
        made = self.product.started("build", *arguments, "--runner", "docker")
        self.builds.append(made)
        return made

    def sealed(self) -> list[Any]:
        """The containers of this farm that run."""
        with contextlib.closing(self.engine.client()) as client:
            label = f"{docker.LABEL}.home={docker.home_label(self.product.home)}"
            found: list[Any] = client.containers.list(
                filters={"label": label, "status": "running"}, ignore_removed=True
            )
            return found

    def attempts(self, run: int) -> list[AttemptRow]:
        """The attempts of a run."""
        return self.ledger.runs.attempts(run)

    def outcomes(self, run: int) -> list[str]:
        """How the attempts of a run ended."""
        return ["open" if item.outcome is None else item.outcome.value for item in self.attempts(run)]

    def hands(self) -> dict[int, int]:
        """The worker processes (process id -> station) that are not the spare one of a station: those at work."""
        busy = {row.status.worker for row in self.ledger.runs.recent(100) if row.status.worker}
        found = {}
        for station in self.workers:
            with contextlib.suppress(OSError):
                for child in farms.children(station.pid):
                    words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
                    if "--name" in words and words[words.index("--name") + 1] in busy:
                        found[child] = station.pid
        return found

    def left(self) -> list[str]:
        """Containers, leases and files that should not be there any more."""
        home = self.product.home
        containers = [f"container of r{run}" for run in self.engine.containers()]
        leases = [f"lease r{row.id}" for row in self.ledger.runs.recent(1000) if row.status.lease_until is not None]
        places = [*(home / "cache").iterdir(), *(home / "store" / "tmp").glob("*")]
        return [*containers, *leases, *map(str, places)]

    def stop(self) -> None:
        """Kill whatever is left of the test."""
        for process in [*self.builds, *self.workers]:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            process.communicate()

    def drain(self) -> list[int]:
        """Tell the workers to stop; their exit statuses."""
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        return [worker.wait(_STOP_S) for worker in self.workers]


@contextmanager
def running(
    folder: Path, image: Home, engine: DockerEngine, postgres: PostgresServer, settings: Mapping[str, str] | None = None
) -> Iterator[SealedFarm]:
    """A farm in `folder` with a Redis and a database of its own, for the time of the block; no worker is up yet."""
    home = folder / "home"
    pinned_image.lend(image, home)
    (folder / "redis").mkdir()
    address = postgres.database()
    with redis_server.running(folder / "redis") as redis, opened(address) as ledger, Starts(engine, home) as starts:
        environment = {"FARM_BROKER_URL": redis.url, "FARM_LEDGER_URL": address, "DOCKER_HOST": engine.address}
        product = Product(home, {**environment, **(settings or {})}).with_key()
        farm = SealedFarm(product, engine, redis, ledger, starts)
        try:
            yield farm
        finally:
            farm.stop()
