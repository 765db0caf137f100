"""Hosts that work through a gate: nothing is lost when one of them, the gate or the registry goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from farm.ledger.rules import Outcome, Reason
from farm.logs import log_path
from kernelfarm import digest
from kernelfarm.errors import Code, Status
from kernelfarm.nouns import RunState
from tests.support import farms, gate_server
from tests.support.farms import Marks, eventually
from tests.support.gate_server import GateServer
from tests.support.services import HANG_S

pytestmark = pytest.mark.services

SLOW_HOST = str(Path(__file__).parents[1] / "support/slow_host.py")
LEASE_S = 3.0


@dataclass(frozen=True, slots=True)
class Host:
    """A worker process with a state folder of its own."""

    process: subprocess.Popen[bytes]
    marks: Marks
    home: Path
    log: Path

    def said(self) -> str:
        return self.log.read_text()


@contextmanager
def host(server: GateServer, name: str) -> Iterator[Host]:
    """A host that has enrolled and takes runs."""
    identity = server.enrol(name)
    home = server.folder / f"host-{name}"
    marks = farms.marks(home)
    log = server.folder / f"{name}.log"
    environment = {**os.environ, "FARM_HOME": str(home), "KF_MARKS": str(marks.folder)}
    argv = [sys.executable, SLOW_HOST, "--gate", server.url, "--identity", str(identity), "--parent", str(os.getpid())]
    with log.open("wb") as stream:
        process = subprocess.Popen(argv, stdout=stream, stderr=stream, env=environment)
    try:
        yield Host(process, marks, home, log)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GateServer]:
    with gate_server.running(tmp_path, lease_s=LEASE_S) as made:
        yield made


def state_of(server: GateServer, run: int) -> RunState:
    return server.farm.ledger.runs.get(run).status.state


def outcomes(server: GateServer, run: int) -> list[tuple[str, Outcome | None]]:
    return [(each.worker, each.outcome) for each in server.farm.ledger.runs.attempts(run)]


def test_a_host_without_the_farms_disk_compiles_and_its_log_is_here(server: GateServer) -> None:
    farm = server.farm
    wanted = farms.job(farm.store)
    run = farms.submit(farm.ledger, wanted)
    with host(server, "alice") as alice:
        eventually(lambda: len(alice.marks.started()) == 1)
        log = log_path(farm.settings.home.logs, run, 1)
        eventually(lambda: log.is_file() and b"group" in log.read_bytes())  # while it compiles
        eventually(lambda: farm.ledger.runs.get(run).stage == "group")
        alice.marks.go()
        eventually(lambda: state_of(server, run) is RunState.DONE)
        assert farm.store.has(digest.of_bytes(b"kernels for x86-64-v3 "))
        assert not (alice.home / "ledger.sqlite3").exists()
        # and it ends at once when it has nothing to do
        alice.process.terminate()
        assert alice.process.wait(timeout=HANG_S) == Status.DONE
    assert outcomes(server, run) == [("gate:alice", Outcome.DONE)]


def test_two_hosts_share_a_matrix_and_nothing_is_compiled_twice(server: GateServer) -> None:
    farm = server.farm
    jobs = [farms.job(farm.store, data=f"model {number}".encode()) for number in range(6)]
    runs = [farms.submit(farm.ledger, job) for job in jobs]
    with host(server, "alice") as alice, host(server, "bob") as bob:
        alice.marks.go()
        bob.marks.go()
        eventually(lambda: all(state_of(server, run) is RunState.DONE for run in runs))
        assert len(alice.marks.started()) + len(bob.marks.started()) == 6
        assert alice.marks.started()
        assert bob.marks.started()


def test_when_a_host_dies_another_takes_its_run_over(server: GateServer) -> None:
    run = farms.submit(server.farm.ledger, farms.job(server.farm.store))
    with host(server, "alice") as alice:
        eventually(lambda: len(alice.marks.started()) == 1)
        alice.process.kill()
        with host(server, "bob") as bob:
            bob.marks.go()
            eventually(lambda: state_of(server, run) is RunState.DONE)
    assert outcomes(server, run) == [("gate:alice", Outcome.LEASE_EXPIRED), ("gate:bob", Outcome.DONE)]


def test_the_gate_may_die_and_come_back_during_a_compile(server: GateServer) -> None:
    run = farms.submit(server.farm.ledger, farms.job(server.farm.store))
    with host(server, "alice") as alice:
        eventually(lambda: len(alice.marks.started()) == 1)
        server.kill()
        alice.marks.go()
        server.start()
        eventually(lambda: state_of(server, run) is RunState.DONE)
        assert len(alice.marks.started()) == 1
    assert outcomes(server, run) == [("gate:alice", Outcome.DONE)]


def test_the_registry_may_die_and_come_back_before_the_upload(server: GateServer) -> None:
    run = farms.submit(server.farm.ledger, farms.job(server.farm.store))
    with host(server, "alice") as alice:
        eventually(lambda: len(alice.marks.started()) == 1)
        server.registry.kill()
        alice.marks.go()
        with pytest.raises(AssertionError):
            eventually(lambda: state_of(server, run) is not RunState.RUNNING, within_s=2 * LEASE_S)
        server.registry.start()
        eventually(lambda: state_of(server, run) is RunState.DONE)
        assert len(alice.marks.started()) == 1


def test_a_host_that_is_told_to_end_finishes_its_run_first(server: GateServer) -> None:
    farm = server.farm
    run, later = (farms.submit(farm.ledger, farms.job(farm.store, data=data)) for data in (b"one", b"two"))
    with host(server, "alice") as alice:
        eventually(lambda: len(alice.marks.started()) == 1)
        alice.process.terminate()
        alice.marks.go()
        assert alice.process.wait(timeout=HANG_S) == Status.DONE
    assert (state_of(server, run), state_of(server, later)) == (RunState.DONE, RunState.QUEUED)


def test_a_host_that_is_told_twice_gives_its_run_back(server: GateServer) -> None:
    run = farms.submit(server.farm.ledger, farms.job(server.farm.store))
    with host(server, "alice") as alice:
        eventually(lambda: len(alice.marks.started()) == 1)
        [compiler] = alice.marks.started()
        alice.process.terminate()
        eventually(lambda: pending(alice.process.pid, signal.SIGTERM) is False)
        alice.process.terminate()
        assert alice.process.wait(timeout=HANG_S) == Status.INTERRUPTED
        assert not farms.alive(compiler)
    row = server.farm.ledger.runs.get(run)
    assert (row.status.state, row.status.reason) == (RunState.QUEUED, Reason.INTERRUPTED)


def pending(pid: int, number: int) -> bool:
    """Whether a signal waits to be handled."""
    text = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return any(int(fields[name], 16) >> (number - 1) & 1 for name in ("SigPnd", "ShdPnd"))


def test_a_worker_process_that_dies_is_started_again(server: GateServer, tmp_path: Path) -> None:
    """`farm worker --gate` over its process; what that had in hand is done by the next one."""
    run = farms.submit(server.farm.ledger, farms.job(server.farm.store))
    marks = farms.marks(tmp_path / "host-alice")
    environment = {**os.environ, "FARM_HOME": str(tmp_path / "host-alice"), "KF_MARKS": str(marks.folder)}
    start = (
        "import pathlib, sys; from farm.gate import host;"
        "sys.exit(host.run(gate=sys.argv[1], identity=pathlib.Path(sys.argv[2]), tasks=1, program=sys.argv[3:]))"
    )
    argv = [sys.executable, "-c", start, server.url, str(server.enrol("alice")), sys.executable, SLOW_HOST]
    with subprocess.Popen(argv, env=environment, cwd=gate_server.ROOT) as crew:
        try:
            eventually(lambda: len(marks.started()) == 1)
            [worker] = farms.children(crew.pid)
            os.kill(worker, signal.SIGKILL)
            marks.go()
            eventually(lambda: state_of(server, run) is RunState.DONE)
            assert farms.children(crew.pid) != [worker]
        finally:
            crew.terminate()
        assert crew.wait(timeout=HANG_S) == Status.DONE
    assert [outcome for _, outcome in outcomes(server, run)] == [Outcome.LEASE_EXPIRED, Outcome.DONE]


def test_a_run_that_is_cancelled_ends_on_its_host(server: GateServer) -> None:
    run, later = (farms.submit(server.farm.ledger, farms.job(server.farm.store, data=each)) for each in (b"1", b"2"))
    with host(server, "alice") as alice:
        eventually(lambda: len(alice.marks.started()) == 1)
        [compiler] = alice.marks.started()
        server.farm.ledger.runs.cancel([run])
        eventually(lambda: state_of(server, run) is RunState.CANCELLED)
        assert not farms.alive(compiler)
        alice.marks.go()
        eventually(lambda: state_of(server, later) is RunState.DONE)


def test_a_run_whose_model_is_lost_fails_and_blocks_no_other(server: GateServer) -> None:
    farm = server.farm
    lost = farms.job(farm.store, data=b"lost")
    run = farms.submit(farm.ledger, lost)
    later = farms.submit(farm.ledger, farms.job(farm.store))
    farm.store.open_path(lost.model.digest).unlink()
    with host(server, "alice") as alice:
        alice.marks.go()
        eventually(lambda: state_of(server, later) is RunState.DONE)
    row = farm.ledger.runs.get(run)
    failure = row.failure()
    assert failure is not None
    assert (row.status.state, row.status.reason) == (RunState.FAILED, Reason.ENVIRONMENT)
    assert failure.code is Code.STORE_MISSING


def test_a_host_that_is_revoked_ends_with_the_status_of_a_refusal(server: GateServer) -> None:
    with host(server, "alice") as alice:
        server.identities.revoke("alice")
        assert alice.process.wait(timeout=HANG_S) == Status.REFUSED
        assert "FARM-E0641" in alice.said()


def test_a_failed_compile_is_reported_with_its_reason(server: GateServer) -> None:
    run = farms.submit(server.farm.ledger, farms.job(server.farm.store))
    with host(server, "alice") as alice:
        alice.marks.misbehave("refuse x86-64-v3")
        eventually(lambda: state_of(server, run) is RunState.FAILED)
    row = server.farm.ledger.runs.get(run)
    failure = row.failure()
    assert failure is not None
    assert (row.status.reason, failure.what) == (Reason.COMPILE_ERROR, "the model is not one")
