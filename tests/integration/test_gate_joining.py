"""What travels to a new worker's host is worth nothing once that has joined, and nothing to who comes second."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from farm.gate import joining, messages
from farm.gate.client import Gate
from farm.gate.messages import Empty, Take, Taken, Welcome
from kernelfarm import files
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import RunState
from tests.support import farms
from tests.support.gate_server import FARM, ROOT, GateServer
from tests.support.services import HANG_S

pytestmark = pytest.mark.services


def refusal(url: str, identity: Path) -> Code:
    with pytest.raises(FarmError) as caught:
        joining.ensure_joined(url, identity)
    return caught.value.code


def copied(ticket: Path, name: str) -> Path:
    """The ticket as somebody else has it who read it on its way."""
    place = ticket.with_name(name)
    files.atomic_write(place, ticket.read_bytes(), mode=0o600)
    return place


def test_a_host_joins_once_with_a_key_of_its_own(gate_server: GateServer) -> None:
    ticket = gate_server.invite("alice")
    stolen = copied(ticket, "stolen.pem")
    # The ticket alone opens nothing
    run = farms.submit(gate_server.farm.ledger, farms.job(gate_server.farm.store))
    for path, kind in ((messages.HELLO, Welcome), (messages.TAKE, Taken)):
        with pytest.raises(FarmError) as caught:
            Gate(gate_server.url, stolen).ask(path, Empty() if path == messages.HELLO else _take(), kind)
        assert caught.value.code is Code.GATE_REFUSED
    assert gate_server.farm.ledger.runs.get(run).status.state is RunState.QUEUED
    # Its host trades it
    assert joining.ensure_joined(gate_server.url, ticket)
    assert Gate(gate_server.url, ticket).hello().worker == "alice"
    assert ticket.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in ticket.parent.glob("alice.pem*")] == ["alice.pem"]
    secret = stolen.read_bytes().split(b"-----END PRIVATE KEY")[0]
    assert not ticket.read_bytes().startswith(secret)
    assert not joining.ensure_joined(gate_server.url, ticket)  # it is none any more
    # Who comes second gets nothing, and the gate says so
    assert refusal(gate_server.url, stolen) is Code.GATE_REFUSED
    assert "the ticket of alice was used before" in gate_server.log
    assert "alice has joined" in gate_server.log
    assert b"PRIVATE" not in gate_server.log.encode()


def _take() -> Take:
    from farm.gate.messages import Offer

    return Take(Offer.of(farms.BOX), 0.0, "host")


def test_two_processes_of_a_host_join_as_one(gate_server: GateServer) -> None:
    ticket = gate_server.invite("alice")
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(joining.ensure_joined(gate_server.url, ticket))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [False, False, False, True]
    assert Gate(gate_server.url, ticket).hello().worker == "alice"


def test_a_host_that_lost_the_answer_asks_again(gate_server: GateServer, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = gate_server.invite("alice")

    def full(path: Path, data: bytes, *, mode: int) -> None:
        if path == ticket:
            raise FarmError(Code.DISK_FULL, "no space")
        whole(path, data, mode=mode)

    whole = files.atomic_write
    with monkeypatch.context() as patch:
        patch.setattr(files, "atomic_write", full)
        assert refusal(gate_server.url, ticket) is Code.DISK_FULL
    assert joining.ensure_joined(gate_server.url, ticket)
    assert Gate(gate_server.url, ticket).hello().worker == "alice"


def test_a_ticket_is_not_spent_where_the_gate_is_away_or_the_folder_is_closed(
    gate_server: GateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket = gate_server.invite("alice")
    assert refusal("https://127.0.0.1:1", ticket) is Code.GATE_UNREACHABLE
    waiting = ticket.with_name("alice.pem.new")
    assert waiting.stat().st_mode & 0o777 == 0o600
    waiting.chmod(0o640)
    assert refusal(gate_server.url, ticket) is Code.KEY_EXPOSED
    waiting.unlink()

    def closed(_path: Path, _data: bytes, *, mode: int) -> None:
        raise FarmError(Code.READ_ONLY, f"not with mode {mode:o}")

    with monkeypatch.context() as patch:
        patch.setattr(files, "atomic_write", closed)
        assert refusal(gate_server.url, ticket) is Code.READ_ONLY
    assert joining.ensure_joined(gate_server.url, ticket)


def test_farm_worker_joins_by_itself_and_a_revoked_ticket_ends_it(gate_server: GateServer) -> None:
    ticket = gate_server.invite("alice")
    gate_server.identities.revoke("alice")
    argv = [*FARM, "worker", "--gate", gate_server.url, "--identity", str(ticket)]
    environment = {"FARM_HOME": str(gate_server.folder / "host"), "FARM_RUNNER": "process", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "FARM-E0641" in done.stderr) == (Status.REFUSED, True)
    ticket = gate_server.invite("alice")
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as host:
        assert host.stderr is not None
        said = host.stderr.readline()
        host.terminate()
        host.communicate(timeout=HANG_S)
    assert said == f"worker: joined; {ticket} holds this host's own key now, which is to stay here\n"
