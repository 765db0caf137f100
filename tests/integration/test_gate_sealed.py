"""A host behind a gate whose compiles run sealed: the execution names the image, the result says where it was made."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from farm import doctor, worker
from farm.actions import job_of
from farm.doctor import Level
from farm.ledger.rules import Outcome
from farm.logs import log_path
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Model, Options, RunState
from tests.support import farms, payloads, sandboxes, sealed_host
from tests.support.gate_server import GateServer
from tests.support.services import HANG_S
from toolchains import target

pytestmark = pytest.mark.services

SEALED_HOST = str(Path(sealed_host.__file__))
UNPACK = """
import base64, json, os, pathlib
assert os.getuid() == 65534 and not pathlib.Path({home!r}).exists()
for name, text in json.loads({files!r}).items():
    place = pathlib.Path("out") / name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(base64.b64decode(text))
print("compiled in the sandbox")
"""


@pytest.fixture
def sandboxed(tmp_path: Path) -> None:
    """Skip, or fail under CI, where bubblewrap does not work."""
    (tmp_path / "probe").mkdir()
    with sandboxes.bubblewrap_sandbox(tmp_path / "probe"):
        pass


@pytest.mark.usefixtures("sandboxed")
def test_a_host_compiles_in_the_sandbox_that_the_execution_names(gate_server: GateServer, tmp_path: Path) -> None:
    farm = gate_server.farm
    # Given a cell for bubblewrap over an image, another for the same image elsewhere, and one for a bare process
    execution = sealed_host.runner("").execution()
    assert (execution.runner, execution.image) == ("bubblewrap", sandboxes.image().digest)
    model = Model("cls", farm.store.put_bytes(b"a model"), 7)
    found = target.load("x86-64-v3")
    box = replace(farms.BOX, execution=execution)
    other = replace(execution, image=digest.of_bytes(b"another image"))
    sealed = job_of(model, found, Options(), box)
    run = farms.submit(farm.ledger, sealed)
    elsewhere = farms.submit(farm.ledger, job_of(model, found, Options(), replace(box, execution=other)))
    bare = farms.submit(farm.ledger, farms.job(farm.store))
    assert len({run, elsewhere, bare}) == 3
    # When a host works that has this sandbox and nothing else
    worker.prepare(tmp_path / "in", sealed, farm.store, 1)
    payloads.write_result(tmp_path / "in", tmp_path / "out")
    files = {
        str(path.relative_to(tmp_path / "out")): base64.b64encode(path.read_bytes()).decode()
        for path in sorted((tmp_path / "out").rglob("*"))
        if path.is_file()
    }
    program = tmp_path / "program.py"
    program.write_text(UNPACK.format(home=str(farm.settings.home.root), files=json.dumps(files)))
    identity = gate_server.enrol("alice")
    argv = [sys.executable, SEALED_HOST, "--gate", gate_server.url, "--identity", str(identity)]
    environment = {**os.environ, "FARM_HOME": str(tmp_path / "alice"), "KF_PROGRAM": str(program)}
    with (tmp_path / "alice.log").open("wb") as log:
        host = subprocess.Popen([*argv, "--parent", str(os.getpid())], stdout=log, stderr=log, env=environment)
    try:
        farms.eventually(lambda: farm.ledger.runs.get(run).status.state.final)
    finally:
        host.terminate()
        assert host.wait(timeout=HANG_S) == 0, (tmp_path / "alice.log").read_text()
    # Then that cell alone is done, and the ledger knows where
    row = farm.ledger.runs.get(run)
    assert row.status.state is RunState.DONE, row.failure()
    [attempt] = farm.ledger.runs.attempts(run)
    assert (attempt.worker, attempt.outcome) == ("gate:alice", Outcome.DONE)
    assert (attempt.runner, attempt.image) == ("bubblewrap", execution.image)
    assert [farm.ledger.runs.get(each).status.state for each in (elsewhere, bare)] == [RunState.QUEUED] * 2
    # And its whole log is in the content store
    text = log_path(farm.settings.home.logs, run, 1).read_bytes()
    assert b"compiled in the sandbox" in text
    assert attempt.log == digest.of_bytes(text)
    assert farm.store.get_bytes(digest.of_bytes(text)) == text


def test_the_doctor_asks_the_gate_and_the_registry(gate_server: GateServer) -> None:
    home = gate_server.farm.settings.home
    identity = str(gate_server.enrol("alice"))
    [at_the_gate] = doctor.registry(home, gate_server.registry.url)
    assert (at_the_gate.level, gate_server.registry.url in at_the_gate.said) == (Level.OK, True)
    [at_the_host] = doctor.gate(gate_server.url, identity)
    assert (at_the_host.level, at_the_host.said) == (
        Level.OK,
        f"the gate at {gate_server.url} knows this host as alice",
    )
    # A host that was revoked, and services that are away
    gate_server.identities.revoke("alice")
    with pytest.raises(FarmError) as caught:
        doctor.gate(gate_server.url, identity)
    assert caught.value.code is Code.GATE_REFUSED
    gate_server.registry.kill()
    with pytest.raises(FarmError) as caught:
        doctor.registry(home, gate_server.registry.url)
    assert caught.value.code is Code.REGISTRY_UNREACHABLE
