"""A worker in another network namespace, with its own address and without the farm's disk, builds a real cell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from farm import actions, models, scheduler
from farm.actions import Job
from farm.rule_files import UserRules
from farm.scheduler import Session
from kernelfarm import canonical
from kernelfarm.nouns import Options, Payload, RunState
from kernelfarm.paths import Home
from tests.support import farms, gate_server, graphs, network
from tests.support.gate_server import FARM
from tests.support.services import HANG_S
from toolchains import target

pytestmark = [pytest.mark.services, pytest.mark.slow]


def job(farm: Session, model: Path) -> Job:
    """A real job, its bytes in the farm's store."""
    found = models.take_in(model, "tiny", farm.store, scratch=farm.settings.home.cache).model
    rules = model.with_name("rules.yaml")
    rules.write_text("fusion_rule: {name: mine, benefit: 9, pattern: [{op: matmul}, {op: add}]}\n")
    options = Options(rules=UserRules.load([rules]).put(farm.store))
    return actions.job_of(found, target.load("x86-64-v3"), options, actions.toolbox())


def payload_of(farm: Session, run: int) -> Payload:
    row = farm.ledger.runs.get(run)
    assert row.status.state is RunState.DONE, row.failure()
    assert row.payload is not None
    return canonical.decode(Payload, row.payload.encode())


def test_a_worker_elsewhere_gives_the_payload_that_a_worker_here_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = graphs.external(tmp_path / "tiny.onnx", "weights/data.bin")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/data.bin").write_bytes(bytes(16 * 16 * 4))
    with network.other_host() as other, gate_server.running(tmp_path, listen=other.here) as server:
        farm = server.farm
        wanted = job(farm, model)
        assert wanted.model.external, "its weights must travel too"
        run = farms.submit(farm.ledger, wanted)
        identity = server.enrol("elsewhere")
        home = tmp_path / "elsewhere"
        argv = [*FARM, "worker", "--gate", server.url, "--identity", str(identity)]
        log = tmp_path / "elsewhere.log"
        # It does not see the farm's state folder, with its ledger, store and keys
        with log.open("wb") as stream:
            process = subprocess.Popen(
                other.argv(argv, without=farm.settings.home.root),
                stdout=stream,
                stderr=stream,
                env={**os.environ, "FARM_HOME": str(home), "FARM_RUNNER": "process"},
                cwd=gate_server.ROOT,
            )
        try:
            farms.eventually(lambda: farm.ledger.runs.get(run).status.state.final)
        finally:
            process.terminate()
            assert process.wait(timeout=HANG_S) == 0, log.read_text()
        there = payload_of(farm, run)
        for entry in there.files:
            assert farm.store.open_path(entry.digest).stat().st_size == entry.size
        [attempt] = farm.ledger.runs.attempts(run)
        assert attempt.worker == "gate:elsewhere"
    # and a worker of this machine, with a state of its own
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "here"))
    assert compiled_here(tmp_path / "here", model) == there


def compiled_here(root: Path, model: Path) -> Payload:
    """What the embedded worker makes of it."""
    with farms.session(Home(root).root) as plain:
        farm = Session(plain.settings, plain.ledger, plain.store)
        [cell] = scheduler.compile_jobs(farm, [job(farm, model)], workers=1)
        assert cell.payload is not None, cell.error
        return cell.payload
