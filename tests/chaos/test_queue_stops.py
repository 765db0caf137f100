"""Workers that are told to stop, runs that are cancelled, brokers that will not do: what was begun is finished or given
back, and nothing starts that nobody wants."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.ledger.ledger import opened
from farm.queue import Broker
from farm.scheduler import session
from kernelfarm import canonical, digest
from tests.support import farms, queues, redis_server
from tests.support.farms import eventually
from tests.support.queues import Queue, cells, worker_of
from tests.support.redis_server import RedisServer
from tests.support.services import HANG_S

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

TARGETS = ("x86-64-v3", "x86-64-v4", "aarch64")
GONE_S = 30.0
"""Seconds after which nothing may be left."""


@pytest.fixture
def queue(tmp_path: Path, redis_server: RedisServer) -> Iterator[Queue]:
    with queues.running(tmp_path / "home", redis_server) as made:
        yield made


def test_sigterm_to_the_group_lets_a_run_end_and_takes_no_other(queue: Queue) -> None:
    stopping = queue.station()
    build = queue.build(TARGETS)
    eventually(lambda: len(queue.marks.started()) == 1)
    os.killpg(stopping.pid, signal.SIGTERM)
    eventually(lambda: "stopping after 1 run" in queue.said())
    time.sleep(1)
    assert stopping.poll() is None
    queue.marks.go()
    assert stopping.wait(timeout=HANG_S) == 0
    assert sorted(queue.states()) == ["done", "queued", "queued"]
    queue.station()
    assert [cell["state"] for cell in cells(build)] == ["done"] * 3
    assert sorted(queue.marks.starts().values()) == [1, 1, 1]
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_sigterm_lets_a_run_end_although_the_one_beside_it_ended_first(queue: Queue) -> None:
    # The kernel ends a worker process with the thread that started it: that must not be one of the first run's
    stopping = queue.station(slots=2)
    queue.build(TARGETS[:1])
    eventually(lambda: len(queue.marks.started()) == 1)
    other = queue.build(TARGETS[1:2])
    eventually(lambda: len(queue.marks.started()) == 2)
    queue.ledger.runs.cancel([1])
    eventually(lambda: queue.states() == ["cancelled", "running"])
    os.killpg(stopping.pid, signal.SIGTERM)
    eventually(lambda: "stopping after" in queue.said())
    time.sleep(1)
    queue.marks.go()
    assert stopping.wait(timeout=HANG_S) == 0
    assert [cell["state"] for cell in cells(other)] == ["done"]
    assert queue.outcomes(2) == ["done"]


def test_a_second_sigterm_gives_the_run_back(queue: Queue) -> None:
    stopping = queue.station()
    build = queue.build()
    eventually(lambda: len(queue.marks.started()) == 1)
    os.killpg(stopping.pid, signal.SIGTERM)
    eventually(lambda: "stopping after 1 run" in queue.said())
    os.killpg(stopping.pid, signal.SIGTERM)
    assert stopping.wait(timeout=HANG_S) == 0
    assert queue.states() == ["queued"]
    assert queue.outcomes() == ["interrupted"]
    eventually(lambda: queue.left() == [], within_s=GONE_S)
    queue.marks.go()
    queue.station()
    assert [cell["state"] for cell in cells(build)] == ["done"]


def test_runs_asked_for_as_the_worker_stops_are_not_lost(queue: Queue) -> None:
    # Given workers that are told to stop at every moment around the arrival of a hint
    queue.marks.go()
    with Broker(queue.redis.url) as broker, session(farms.settings(queue.home)) as farm:
        for turn in range(8):
            stopping = queue.station()
            wanted = farms.job(farm.store, data=f"model {turn}".encode())
            farms.submit(farm.ledger, wanted)
            broker.publish([wanted.action.execution_key])
            time.sleep(0.04 * turn)
            os.killpg(stopping.pid, signal.SIGTERM)
            assert stopping.wait(timeout=HANG_S) == 0
            assert set(queue.states()) <= {"queued", "done"}
    # Then the next one finds what they left
    queue.station()
    eventually(lambda: queue.states() == ["done"] * 8)
    assert sorted(queue.marks.starts().values()) == [1] * 8
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_what_is_cancelled_while_no_worker_is_up_never_starts(queue: Queue) -> None:
    build = queue.build(TARGETS)
    eventually(lambda: queue.redis.client().llen("farm") >= 3)
    queue.ledger.runs.cancel([1, 2])
    assert queue.left() == []  # not a lease: nobody began
    queue.marks.go()
    queue.station()
    assert [cell["error"] for cell in cells(build)] == ["INTERRUPTED", "INTERRUPTED", None]
    assert len(queue.marks.started()) == 1
    assert queue.states() == ["cancelled", "cancelled", "done"]
    assert [queue.outcomes(run) for run in (1, 2, 3)] == [[], [], ["done"]]
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_a_run_that_is_cancelled_under_way_ends_at_once(queue: Queue) -> None:
    queue.station()
    build = queue.build()
    eventually(lambda: len(queue.marks.started()) == 1)
    queue.ledger.runs.cancel([1])
    assert [cell["error"] for cell in cells(build)] == ["INTERRUPTED"]
    eventually(lambda: queue.left() == [])
    assert queue.outcomes() == ["cancelled"]


def test_a_cancelled_run_whose_worker_is_dead_is_closed_by_any_worker(queue: Queue) -> None:
    doomed = queue.station()
    queue.build()
    eventually(lambda: len(queue.marks.started()) == 1)
    os.kill(doomed.pid, signal.SIGSTOP)
    os.kill(worker_of(queue.marks.started()[0]), signal.SIGKILL)
    os.kill(doomed.pid, signal.SIGKILL)
    queue.ledger.runs.cancel([1])
    queue.station()
    eventually(lambda: queue.states() == ["cancelled"])
    eventually(lambda: queue.left() == [], within_s=GONE_S)
    assert len(queue.marks.started()) == 1


def test_a_redis_that_drops_messages_is_refused(tmp_path: Path) -> None:
    farms.settings(tmp_path / "home")
    (tmp_path / "redis").mkdir()
    dropping = ("--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
    with redis_server.running(tmp_path / "redis", *dropping) as server, opened(tmp_path / "l.sqlite3") as ledger:
        queue = Queue(tmp_path / "home", server, ledger, farms.marks(tmp_path / "home"))
        try:
            assert queue.station().wait(timeout=HANG_S) == 3
            assert "FARM-E0621" in queue.said()
            assert "maxmemory-policy is allkeys-lru" in queue.said()
        finally:
            queue.stop()


def test_a_redis_without_a_file_is_warned_about(tmp_path: Path) -> None:
    memory_only = ("--maxmemory-policy", "noeviction", "--appendonly", "no")
    with redis_server.running(tmp_path, *memory_only) as server, Broker(server.url) as broker:
        assert broker.check() == [
            f"Redis at {broker.address} keeps no append-only file: after a crash its hints come from the ledger"
        ]


def test_an_address_where_no_redis_is(tmp_path: Path, redis_server: RedisServer) -> None:
    redis_server.kill()
    farms.settings(tmp_path)
    with opened(tmp_path / "ledger.sqlite3") as ledger:
        queue = Queue(tmp_path, redis_server, ledger, farms.marks(tmp_path))
        try:
            assert queue.station().wait(timeout=HANG_S) == 3
            assert "FARM-E0620" in queue.said()
            _out, err = queue.build().communicate(timeout=HANG_S)
            assert "FARM-E0620" in err
        finally:
            queue.stop()


def test_hints_that_mean_nothing_are_dropped(queue: Queue) -> None:
    queue.marks.go()
    queue.station()
    with Broker(queue.redis.url) as broker, session(farms.settings(queue.home)) as farm:
        broker.publish([digest.of_bytes(b"nothing of ours"), "no digest at all"])
        for nonsense in ("no message at all", "[]", "{}", '{"headers": {"task": "farm.run"}, "properties": {}}'):
            queue.redis.client().lpush("farm", nonsense)
        cached = farms.job(farm.store)
        assert [cell["state"] for cell in cells(queue.build())] == ["done"]
        broker.publish([canonical.decode(type(cached), canonical.encode(cached), name="job").action.execution_key])
        eventually(lambda: broker.waiting() == [])
    assert len(queue.marks.started()) == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_hints_leave_redis_as_it_was(queue: Queue) -> None:
    queue.station(slots=2)
    with Broker(queue.redis.url) as broker, queue.redis.client() as client:

        def send(first: int, count: int) -> tuple[int, list[Any]]:
            broker.publish(digest.of_bytes(str(number).encode()) for number in range(first, first + count))
            eventually(lambda: client.llen("farm") == 0 and client.hlen("unacked") == 0, within_s=800)
            client.memory_purge()
            found: Any = client.info("memory")
            return int(found["used_memory"]), sorted(client.keys("*"))  # type: ignore[type-var]

        before, keys = send(0, 500)
        after, keys_after = send(500, 10_000)
    assert keys_after == keys
    assert after < before * 1.05
