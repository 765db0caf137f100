"""What the farm adds to a cell, beside bare Celery on the same Redis, in one run.

`python -m benchmarks.queue_overhead [CELLS]` starts a Redis and a worker of its own and prints milliseconds as JSON:
`celery_round_trip`: a task that does nothing, from sending to its first line; `executed_cell`: from the submission of a
run to its end, less the time inside the runner; `cached_cell`: one cell of a build that finds everything in the cache.
Each figure counts only after its check: every cell done, compiled once, found in the cache the second time.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from farm import config, scheduler, station  # noqa: E402
from farm.actions import Job  # noqa: E402
from farm.queue import Broker, Consumer  # noqa: E402
from farm.scheduler import Cell, Session  # noqa: E402
from kernelfarm import digest  # noqa: E402
from tests.support import farms, redis_server  # noqa: E402

BOUND_CACHED_MS = 50.0
BOUND_EXECUTED_MS = 1000.0
TARGETS = ("x86-64-v3", "x86-64-v4", "aarch64")


def main(count: int) -> int:
    """Measure, print, and return 0 when the bounds hold."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        os.environ["FARM_HOME"] = str(home)
        Path(folder, "redis").mkdir()
        with redis_server.running(Path(folder, "redis")) as server:
            os.environ["FARM_BROKER_URL"] = server.url
            celery = _celery(server.url, count)
            executed, cached = _farm(home, count)
    figures = {
        "schema": "queue-overhead/1",
        "cells": count,
        "load": round(os.getloadavg()[0], 1),
        "celery_round_trip": _figure(celery),
        "executed_cell": {**_figure(executed), "bound": BOUND_EXECUTED_MS},
        "cached_cell": {"mean": round(cached, 2), "bound": BOUND_CACHED_MS},
    }
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return int(statistics.median(executed) >= BOUND_EXECUTED_MS or cached >= BOUND_CACHED_MS)


def _figure(milliseconds: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(milliseconds), 1), "worst": round(max(milliseconds), 1)}


def _celery(url: str, count: int) -> list[float]:
    """Milliseconds from sending a message to the first line of its task, one after another, less none."""
    began: multiprocessing.Queue[float] = multiprocessing.get_context("spawn").Queue()
    worker = multiprocessing.get_context("spawn").Process(target=_consume, args=(url, began))
    worker.start()
    try:
        found = []
        with Broker(url) as broker:
            for number in range(count + 1):
                sent = time.time()
                broker.publish([digest.of_bytes(str(number).encode())])
                found.append((began.get(timeout=60) - sent) * 1e3)
        return found[1:]  # the first one waited for the worker's start
    finally:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGTERM)
        worker.join(30)


def _consume(url: str, began: multiprocessing.Queue[float]) -> None:
    with Broker(url) as broker:
        consumer = Consumer(broker, lambda _key: began.put(time.time()), slots=1, name="bare")
        signal.signal(signal.SIGTERM, lambda _number, _frame: consumer.stop())
        consumer.run()


def _farm(home: Path, count: int) -> tuple[list[float], float]:
    """Milliseconds beyond the compile of each executed cell, and of a cached one."""
    settings = config.load()
    with scheduler.session(settings) as farm, _worker():
        farms.marks(home).go()
        jobs = [
            farms.job(farm.store, data=f"model {number}".encode(), on=TARGETS[number % len(TARGETS)])
            for number in range(count)
        ]
        _compile(farm, [farms.job(farm.store, data=b"the first waits for the worker's start")])
        executed = []
        for job in jobs:
            (cell,) = _compile(farm, [job])
            assert cell.run is not None and cell.run.ended_at is not None and cell.cached is None
            compiled = float((home / "marks" / f"seconds-r{cell.run.id}").read_text())
            executed.append((cell.run.ended_at - cell.run.created_at - compiled) * 1e3)
        assert sorted(farms.marks(home).starts().values()) == [1] * (count + 1)
        began = time.perf_counter()
        again = _compile(farm, jobs)
        cached = (time.perf_counter() - began) * 1e3 / count
        assert all(cell.cached is not None for cell in again)
    return executed, cached


def _compile(farm: Session, jobs: list[Job]) -> list[Cell]:
    cells = scheduler.compile_jobs(farm, jobs, workers=1)
    assert all(cell.payload is not None for cell in cells), [str(cell.error) for cell in cells]
    return cells


@contextmanager
def _worker() -> Iterator[None]:
    argv = [sys.executable, __file__, "--station"]
    with subprocess.Popen(argv) as process:
        try:
            yield
        finally:
            process.terminate()


def _serve() -> int:
    settings = config.load()
    assert settings.broker is not None
    argv = (sys.executable, str(ROOT / "tests/support/timed_worker.py"))
    station.serve(settings, settings.broker, slots=1, argv=argv)
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--station"]:
        raise SystemExit(_serve())
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
