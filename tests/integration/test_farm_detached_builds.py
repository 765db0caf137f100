"""Builds that workers of a queue compile while nobody waits: a real Redis, a real `farm worker`, slow compiles."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.ledger.ledger import Ledger, opened
from farm.ledger.rules import BuildState, Reason
from kernelfarm.errors import Code
from kernelfarm.nouns import RunState
from signing import keys
from tests.support import farms, graphs
from tests.support.farms import Marks, alive, eventually
from tests.support.redis_server import RedisServer
from tests.support.services import HANG_S
from tests.support.shells import Shell

pytestmark = pytest.mark.services
V3, V4 = "x86-64-v3", "x86-64-v4"


@pytest.fixture
def farm(tmp_path: Path, redis_server: RedisServer) -> Iterator[Shell]:
    home = farms.settings(tmp_path / "home").home
    keys.new(home)
    graphs.relu(tmp_path / "cls.onnx")
    environment = {"FARM_BROKER_URL": redis_server.url, "FARM_RECONCILE_S": "0.5"}
    with Shell(tmp_path, home.root, environment).closing() as shell:
        yield shell


@pytest.fixture
def marks(farm: Shell) -> Marks:
    return farms.marks(farm.home)


@pytest.fixture
def ledger(farm: Shell) -> Iterator[Ledger]:
    with opened(farm.home / "ledger.sqlite3") as made:
        yield made


def test_a_build_that_nobody_waits_for_is_compiled_and_bundled_later(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    # Given a build that was left to the workers while none was up
    begun = farm.json("build", "cls.onnx", "-t", V3, "-t", V4, "--no-wait")
    assert (begun["id"], begun["bundles"]) == ("b1", [])
    assert [cell["state"] for cell in begun["cells"]] == ["queued", "queued"]
    status = farm.json("status", "b1")
    assert status["state"] == "detached"
    assert {cell["waits"] for cell in status["cells"]} == {"no worker is up"}
    # When a worker comes up
    marks.go()
    farm.begin("worker", "--slots", "2")
    # Then it compiles both, the build is closed, and resuming it writes the bundle from the cache
    eventually(lambda: farm.json("status", "b1")["state"] == "done")
    assert len(marks.started()) == 2
    built = farm.json("build", "--resume", "b1")
    assert [cell["cached"] for cell in built["cells"]] == [True, True]
    assert Path(built["bundles"][0]["path"]).is_dir()
    assert ledger.builds.get(1).state is BuildState.DONE


def test_ctrl_c_leaves_the_workers_at_it(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    # Given a build whose cell a worker compiles
    farm.begin("worker")
    process = farm.begin("build", "cls.onnx", "-t", V3, "--json")
    eventually(lambda: len(marks.started()) == 1)
    # When somebody presses ctrl-C in the build's terminal
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=HANG_S)
    # Then the worker goes on, and the build says how to wait again and how to end it
    error = json.loads(out)["error"]
    assert (process.returncode, error["code"]) == (130, Code.INTERRUPTED.number)
    assert "farm build --resume b1" in error["next"]
    assert "farm cancel b1" in error["next"]
    assert ledger.runs.get(1).status.state is RunState.RUNNING
    assert alive(marks.started()[0])
    # And the resumed build gets that very compile
    marks.go()
    assert farm.json("build", "--resume", "b1")["status"] == 0
    assert len(marks.started()) == 1


def test_a_cancel_reaches_the_worker(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    marks.misbehave("forever")
    farm.begin("worker")
    farm.json("build", "cls.onnx", "-t", V3, "--no-wait")
    eventually(lambda: len(marks.started()) == 1)
    farm.json("cancel", "b1")
    eventually(lambda: ledger.runs.get(1).status.state is RunState.CANCELLED)
    eventually(lambda: not alive(marks.started()[0]))
    assert ledger.runs.get(1).status.reason is Reason.CANCEL_ASKED
    assert farm.json("status")["workers"][0]["runs"] == []


def test_a_cancel_with_no_worker_up_holds_when_one_comes(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    # Given a cancelled build whose hint still waits in the broker, and another build
    marks.go()
    farm.json("build", "cls.onnx", "-t", V3, "--no-wait")
    farm.json("cancel", "b1")
    farm.json("build", "cls.onnx", "-t", V4, "--no-wait")
    # When a worker comes up
    farm.begin("worker")
    # Then it compiles the second alone
    eventually(lambda: ledger.runs.get(2).status.state is RunState.DONE)
    assert ledger.runs.get(1).status.state is RunState.CANCELLED
    assert len(marks.started()) == 1
    # And nothing is left of the first: it was never begun, and the second has ended
    assert ledger.runs.attempts(1) == []
    assert [row.status.lease_until for row in ledger.runs.recent()] == [None, None]
    places = [farm.home / "cache", farm.home / "store" / "tmp"]
    eventually(lambda: [path for place in places for path in place.glob("*")] == [])
    eventually(lambda: not alive(marks.started()[0]))
