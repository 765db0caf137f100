"""Workers, Redis and hints that are lost in the middle of a build: it ends, one start for each cell unless a worker
was lost, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from farm.ledger.rules import Reason
from tests.support import farms, queues
from tests.support.farms import eventually
from tests.support.queues import Queue, cells, parent, worker_of
from tests.support.redis_server import RedisServer
from tests.support.services import HANG_S

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

TARGETS = ("x86-64-v3", "x86-64-v4", "aarch64")
GONE_S = 30.0
"""Seconds after which nothing may be left."""


@pytest.fixture(params=["sqlite", "postgresql"])
def queue(request: pytest.FixtureRequest, tmp_path: Path, redis_server: RedisServer) -> Iterator[Queue]:
    address = "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_server").database())
    with queues.running(tmp_path / "home", redis_server, address) as made:
        yield made


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def pause(pid: int, home: Path) -> None:
    """SIGSTOP, though not in the middle of a transaction of SQLite: that would stop everyone."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        with closing(sqlite3.connect(home / "ledger.sqlite3", timeout=0.3, isolation_level=None)) as probe:
            try:
                probe.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
            else:
                return


def test_two_workers_complete_a_matrix(queue: Queue) -> None:
    queue.marks.go()
    queue.station()
    queue.station(slots=2)
    found = cells(queue.build(TARGETS, models=2))
    assert [cell["state"] for cell in found] == ["done"] * 6
    assert sorted(queue.marks.starts().values()) == [1] * 6
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_kill_9_of_a_worker_in_mid_build(queue: Queue) -> None:
    doomed = queue.station()
    build = queue.build(TARGETS)
    eventually(lambda: len(queue.marks.started()) == 1)
    # When the station dies, its worker process is told, ends the compile and gives the run back
    kill(doomed.pid)
    queue.station()
    queue.marks.go()
    assert [cell["state"] for cell in cells(build)] == ["done"] * 3
    assert sorted(queue.marks.starts().values()) == [1, 1, 2]
    eventually(lambda: queue.left() == [], within_s=GONE_S)
    assert queue.outcomes(1) in (["interrupted", "done"], ["lease-expired", "done"])


def test_kill_9_of_a_worker_with_all_its_processes(queue: Queue) -> None:
    doomed = queue.station()
    queue.station()
    build = queue.build(TARGETS)
    eventually(lambda: len(queue.marks.started()) == 2)
    first = next(pid for pid in queue.marks.started() if parent(worker_of(pid)) == doomed.pid)
    os.kill(doomed.pid, signal.SIGSTOP)  # so that it does nothing between the two
    kill(worker_of(first))
    kill(doomed.pid)
    queue.marks.go()
    assert [cell["state"] for cell in cells(build)] == ["done"] * 3
    assert sorted(queue.marks.starts().values()) == [1, 1, 2]
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_a_worker_process_that_hangs_is_killed_and_its_run_taken_over(queue: Queue) -> None:
    queue.station()
    build = queue.build()
    eventually(lambda: len(queue.marks.started()) == 1)
    hung = worker_of(queue.marks.started()[0])
    if queue.address:
        os.kill(hung, signal.SIGSTOP)
    else:
        pause(hung, queue.home)
    eventually(lambda: len(queue.marks.started()) == 2, within_s=GONE_S)
    eventually(lambda: not farms.alive(hung))
    queue.marks.go()
    assert [cell["state"] for cell in cells(build)] == ["done"]
    assert queue.outcomes() == ["lease-expired", "done"]
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_a_run_that_kills_its_workers_is_given_up_after_three(queue: Queue) -> None:
    queue.station()
    build = queue.build()
    for count in (1, 2, 3):
        eventually(lambda count=count: len(queue.marks.started()) == count)  # type: ignore[misc]
        kill(worker_of(queue.marks.started()[-1]))
    assert [cell["error"] for cell in cells(build)] == ["ATTEMPTS_EXHAUSTED"]
    assert queue.outcomes() == ["lease-expired"] * 3
    assert len(queue.marks.started()) == 3


def test_kill_9_of_redis_three_times_during_a_build(queue: Queue) -> None:
    queue.station()
    queue.station()
    build = queue.build(TARGETS, models=4)
    eventually(lambda: len(queue.marks.started()) == 2)
    for turn in range(3):
        queue.redis.kill()
        if turn == 1:  # runs end while Redis is away: their acknowledgements fail
            queue.marks.go()
        eventually(lambda: "does not answer" in queue.said(0))
        queue.redis.start()
    assert [cell["state"] for cell in cells(build)] == ["done"] * 12
    assert sorted(queue.marks.starts().values()) == [1] * 12
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_redis_loses_everything_with_20_queued(queue: Queue) -> None:
    queue.station()
    build = queue.build(TARGETS, models=7)
    eventually(lambda: len(queue.marks.started()) == 1 and queue.redis.client().llen("farm") >= 20)
    queue.redis.client().flushall()
    queue.station()
    queue.marks.go()
    assert [cell["state"] for cell in cells(build)] == ["done"] * 21
    assert sorted(queue.marks.starts().values()) == [1] * 21
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_a_build_waits_for_a_worker(queue: Queue) -> None:
    queue.marks.go()
    build = queue.build()
    eventually(lambda: queue.states() == ["queued"])
    queue.station()
    assert [cell["state"] for cell in cells(build)] == ["done"]


def test_a_message_that_redis_delivers_again_starts_nothing(queue: Queue) -> None:
    # Given a single message, which Redis delivers again after a second, and a compile that takes longer
    patient = {"FARM_LEASE_S": "20", "FARM_RECONCILE_S": "100"}
    for _ in range(2):
        queue.station(slots=2, FARM_VISIBILITY_S="1", **patient)
    build = queue.build(**patient)
    eventually(lambda: len(queue.marks.started()) == 1)
    # When that has happened, and the second delivery was looked at and acknowledged
    with queue.redis.client() as client:
        eventually(lambda: pushes(client) == 2)
        eventually(lambda: client.llen("farm") == 0 and client.hlen("unacked") == 0)
    queue.marks.go()
    # Then one compile began
    assert [cell["state"] for cell in cells(build)] == ["done"]
    assert len(queue.marks.started()) == 1
    assert queue.outcomes() == ["done"]


def pushes(client: redis.Redis) -> int:
    """How often Redis was given a message: once by the build, the others are deliveries that it took back."""
    found: Any = client.info("commandstats")
    return sum(int(found.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in ("lpush", "rpush"))


def test_a_compile_without_progress_is_stopped(queue: Queue) -> None:
    queue.station(FARM_SILENCE_S="1")
    assert [cell["error"] for cell in cells(queue.build())] == ["CHILD_SILENT"]
    assert queue.ledger.runs.get(1).status.reason is Reason.SILENCE_TIMEOUT
    assert len(queue.marks.started()) == 1
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_a_compile_past_its_total_time_is_stopped_and_not_tried_again(queue: Queue) -> None:
    queue.station(FARM_WALL_S="1")
    assert [cell["error"] for cell in cells(queue.build())] == ["CHILD_TIMEOUT"]
    assert queue.ledger.runs.get(1).status.reason is Reason.TOTAL_TIMEOUT
    assert len(queue.marks.started()) == 1
    eventually(lambda: queue.left() == [], within_s=GONE_S)


def test_a_compile_error_is_not_tried_again(queue: Queue) -> None:
    queue.marks.misbehave("refuse x86-64-v3")
    queue.marks.go()
    queue.station()
    found = cells(queue.build(TARGETS))
    assert [cell["error"] for cell in found] == ["MODEL_INVALID", None, None]
    assert sorted(queue.marks.starts().values()) == [1, 1, 1]


def test_workers_that_cannot_work_end_the_station_and_leave_the_run_queued(queue: Queue) -> None:
    station = queue.station(KF_BROKEN="1")
    queue.build()
    assert station.wait(timeout=HANG_S) == 3
    assert "this worker is broken" in queue.said()
    assert queue.states() == ["queued"]
