"""Everything at once, at moments that chance picks: two workers on one home, a Redis that loses all, a collector that
runs all the time. Every cell is compiled once for each loss of its own, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from farm import gc
from farm.gc import Rules
from farm.ledger.nouns import AttemptRow
from farm.scheduler import Session
from kernelfarm.store import ContentStore
from tests.support import farms, queues
from tests.support.farms import eventually
from tests.support.queues import LEASE_S, Queue, cells
from tests.support.redis_server import RedisServer
from tests.support.services import HANG_S

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

TARGETS = ("x86-64-v3", "x86-64-v4", "aarch64")
MODELS = 8
STORM_S = 12.0
GONE_S = 30.0
ENDED_BADLY = {"lease-expired", "interrupted", "lost"}
"""Outcomes of an attempt after which its run begins once more."""


@pytest.fixture
def queue(tmp_path: Path, redis_server: RedisServer) -> Iterator[Queue]:
    with queues.running(tmp_path / "home", redis_server) as made:
        yield made


def flush(queue: Queue, _chance: random.Random) -> None:
    with contextlib.suppress(RedisError):
        queue.redis.client().flushall()


def restart_empty(queue: Queue, chance: random.Random) -> None:
    queue.redis.kill()
    for path in queue.redis.folder.rglob("*.aof"):
        path.unlink()
    for path in queue.redis.folder.rglob("*.manifest"):
        path.unlink()
    time.sleep(chance.random())
    queue.redis.start()


def replace_station(queue: Queue, chance: random.Random) -> None:
    """SIGTERM to the group, once or twice, or kill -9, and another one in its place."""
    living = [station for station in queue.stations if station.poll() is None]
    station = chance.choice(living)
    how = chance.choice([[signal.SIGTERM], [signal.SIGTERM, signal.SIGTERM], [signal.SIGKILL]])
    for number in how:
        os.killpg(station.pid, number)
        time.sleep(0.05)
    queue.station(slots=2)


def collect(queue: Queue, _chance: random.Random) -> None:
    """With a grace: without one it may take what a run is just about to name."""
    settings = farms.settings(queue.home)
    gc.collect(Session(settings, queue.ledger, ContentStore(settings.home.store)), Rules(grace_s=60.0, logs_s=0.0))


@pytest.mark.parametrize("seed", [1])
def test_a_matrix_outlives_a_storm(queue: Queue, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2):
        queue.station(slots=2)
    queue.marks.go()
    build = queue.build(TARGETS, models=MODELS)
    end = time.monotonic() + STORM_S
    while time.monotonic() < end:
        chance.choice([flush, restart_empty, replace_station, collect, collect])(queue, chance)
        time.sleep(chance.random() * 0.5)
    found = cells(build, within_s=HANG_S)
    assert [cell["state"] for cell in found] == ["done"] * (MODELS * len(TARGETS))
    attempts = [queue.ledger.runs.attempts(run) for run in range(1, len(found) + 1)]
    assert all(well(of_run) for of_run in attempts), attempts
    assert sum(queue.marks.starts().values()) <= sum(map(len, attempts))
    for station in queue.stations:
        if station.poll() is None:
            os.killpg(station.pid, signal.SIGTERM)
    eventually(lambda: queue.left() == [], within_s=GONE_S + LEASE_S)


def well(attempts: list[AttemptRow]) -> bool:
    """One that ended well, after none that did not have to be repeated."""
    *before, last = [item.outcome.value if item.outcome else "open" for item in attempts]
    return last == "done" and set(before) <= ENDED_BADLY
