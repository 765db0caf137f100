"""Redis goes away under a build that waits: it says so, and goes on by itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.ledger.ledger import opened
from farm.queue import QUEUE
from kernelfarm.nouns import RunState
from signing import keys
from tests.support import farms, graphs
from tests.support.farms import eventually
from tests.support.redis_server import RedisServer
from tests.support.shells import Shell

pytestmark = pytest.mark.services


@pytest.fixture
def farm(tmp_path: Path, redis_server: RedisServer) -> Iterator[Shell]:
    keys.new(farms.settings(tmp_path / "home").home)
    graphs.relu(tmp_path / "cls.onnx")
    own = {"FARM_BROKER_URL": redis_server.url, "FARM_RECONCILE_S": "0.3"}
    with Shell(tmp_path, tmp_path / "home", own).closing() as shell:
        yield shell


def test_a_build_says_that_redis_is_away_and_goes_on_when_it_is_back(farm: Shell, redis_server: RedisServer) -> None:
    farms.marks(farm.home).go()
    build = farm.begin("build", "cls.onnx", "-t", "x86-64-v3")
    said: list[str] = []

    def listen() -> None:
        assert build.stderr is not None
        fd = build.stderr.fileno()
        while data := os.read(fd, 1 << 16):
            said.append(data.decode())

    listener = threading.Thread(target=listen)
    listener.start()
    with opened(farm.home / "ledger.sqlite3") as ledger:
        eventually(lambda: [run.status.state for run in ledger.runs.live()] == [RunState.QUEUED])
        eventually(lambda: redis_server.client().llen(QUEUE) == 1)
        redis_server.kill()
        eventually(lambda: "waiting: Redis at " in "".join(said))
        assert "does not answer" in "".join(said)
        redis_server.start()
        eventually(lambda: "going on" in "".join(said))
        farm.begin("worker", "--slots", "1")
        eventually(lambda: build.poll() is not None)
        listener.join()
        assert build.returncode == 0, "".join(said)
        assert ledger.runs.get(1).status.state is RunState.DONE
    assert "".join(said).count("waiting: Redis at ") == 1
