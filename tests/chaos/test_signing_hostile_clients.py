"""Clients that mean harm get a coded refusal; the signer signs nothing false, stays up, and serves the next one."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelfarm import digest, oci, oci_bundle, paths
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from signing import client, dsse, facts, keys, protocol, server
from signing.client import SocketSigner
from signing.statement import Statement, Subject
from tests.support import bundles
from tests.support.services import HANG_S

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SocketSigner]:
    home = Home(tmp_path_factory.mktemp("signer") / "home").create()
    keys.new(home)
    with client.open_signer(home) as found:
        assert isinstance(found, SocketSigner)
        yield found


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """A bundle's folder."""
    return bundles.write(tmp_path / "cls", tmp_path / "work").path


def statements(layout: Path) -> list[Statement]:
    """What may be said of it."""
    found = facts.facts_of(oci_bundle.read(layout))
    provenances = [bundles.provenance(item.target).statement(item.digest) for item in found.payloads]
    return [*provenances, found.signature()]


def connected(signer: SocketSigner) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with paths.socket_address(signer.socket) as address:
        connection.connect(address)
    return connection


def answer_to(signer: SocketSigner, data: bytes) -> dict[str, Any]:
    """The reply to raw bytes; the error in it, if there is one."""
    with connected(signer) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        reply = protocol.receive(connection, seconds=10)
    assert reply is not None
    return reply


def framed(value: Any) -> bytes:
    data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return len(data).to_bytes(4, "big") + data


def refusal_of(signer: SocketSigner, data: bytes) -> FarmError:
    return FarmError.from_json(answer_to(signer, data)["error"])


def request(layout: Path, listed: list[Statement], **more: Any) -> dict[str, Any]:
    said = [statement.to_json() for statement in listed]
    return {"schema": "sign-request/1", "do": "sign", "layout": str(layout), "statements": said, **more}


def refused(signer: SocketSigner, layout: Path, listed: list[Statement]) -> FarmError:
    with pytest.raises(FarmError) as caught:
        signer.sign(layout, listed)
    return caught.value


def still_serves(signer: SocketSigner, layout: Path) -> bool:
    return len(signer.sign(layout, statements(layout))) == 3


def test_an_honest_client_is_served(signer: SocketSigner, layout: Path) -> None:
    assert still_serves(signer, layout)


def test_garbage_of_any_kind_is_answered_with_a_code(signer: SocketSigner, layout: Path) -> None:
    draw = random.Random(20261129)
    noise = [draw.randbytes(draw.randrange(1, 400)) for _ in range(60)]
    for data in [*noise, b"\xff" * 8, b"\0\0\0\0", b"\0\1\0\0" + b"[" * 65536, b"\0\0\0\2{}", b"\0\0\0\4null"]:
        assert refusal_of(signer, data).code is Code.SIGNER_PROTOCOL, data[:20]

    assert still_serves(signer, layout)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "sign-request/2"},
        {"do": "export-key"},
        {"extra": 1},
        {"layout": "relative"},
        {"layout": "/with\0null"},
        {"layout": 7},
        {"statements": []},
        {"statements": {}},
        {"statements": [{}] * 1025},
    ],
    ids=str,
)
def test_a_request_of_another_form_is_refused(signer: SocketSigner, layout: Path, change: dict[str, Any]) -> None:
    error = refusal_of(signer, framed(request(layout, statements(layout)) | change))

    assert error.code is Code.SIGNER_PROTOCOL


@pytest.mark.parametrize("statement", [{}, [], "x", {"_type": "https://in-toto.io/Statement/v1"}])
def test_what_is_no_statement_is_not_signed(signer: SocketSigner, layout: Path, statement: Any) -> None:
    error = refusal_of(signer, framed(request(layout, []) | {"statements": [statement]}))

    assert error.code is Code.ATTESTATION_INVALID


def test_a_statement_about_another_digest_is_not_signed(signer: SocketSigner, layout: Path) -> None:
    wrong = digest.of_bytes(b"another")
    good = statements(layout)
    for bad in (
        bundles.provenance("x86-64-v4").statement(wrong),
        Statement((Subject("cls", wrong),), good[-1].predicate_type, good[-1].predicate),
        Statement(good[-1].subjects, good[-1].predicate_type, {**good[-1].predicate, "version": "9.9.9"}),
        Statement((Subject("cls", good[-1].subjects[0].digest),), "urn:anything", {}),
    ):
        error = refused(signer, layout, [*good, bad])
        assert error.code is Code.SIGNER_REFUSED
        assert error.detail["cause"] in {Code.SIGNATURE_FOREIGN.number, Code.ATTESTATION_INVALID.number}

    assert still_serves(signer, layout)


def test_statements_about_one_bundle_are_not_signed_for_another(
    signer: SocketSigner, layout: Path, tmp_path: Path
) -> None:
    other = bundles.write(tmp_path / "other", tmp_path / "work", salt="other").path

    assert refused(signer, other, statements(layout)).detail["cause"] == Code.SIGNATURE_FOREIGN.number


def test_a_folder_that_is_no_whole_bundle_gets_no_signature(signer: SocketSigner, layout: Path, tmp_path: Path) -> None:
    listed = statements(layout)
    victim = next(path for path in bundles.plain_files(layout) if path.read_bytes().startswith(b"kernels for"))

    def damaged(name: str) -> Path:
        copy = tmp_path / name
        shutil.copytree(layout, copy)
        return copy / victim.relative_to(layout)

    damaged("flipped").write_bytes(b"x")
    damaged("removed").unlink()
    linked = damaged("linked")
    linked.unlink()
    linked.symlink_to(victim)
    pipe = damaged("pipe")
    pipe.unlink()
    os.mkfifo(pipe)
    (damaged("stowaway").parents[2] / "extra").write_bytes(b"")

    causes = {
        name: refused(signer, tmp_path / name, listed).detail["cause"]
        for name in sorted(["flipped", "removed", "linked", "pipe", "stowaway", "absent"])
    }

    assert causes == {
        "absent": Code.BUNDLE_INVALID.number,
        "flipped": Code.BUNDLE_CORRUPT.number,
        "linked": Code.BUNDLE_UNSAFE.number,
        "pipe": Code.BUNDLE_UNSAFE.number,
        "removed": Code.BUNDLE_MISSING.number,
        "stowaway": Code.BUNDLE_EXTRA.number,
    }
    assert still_serves(signer, layout)


def test_files_exchanged_while_they_are_signed_give_a_refusal_or_a_true_signature(
    signer: SocketSigner, layout: Path
) -> None:
    listed = statements(layout)
    expected = {subject.digest for statement in listed for subject in statement.subjects}
    victim = next(path for path in bundles.plain_files(layout) if path.read_bytes().startswith(b"kernels for"))
    good, evil = victim.read_bytes(), b"evil" * 8
    stop = threading.Event()

    def exchange() -> None:
        aside = layout.parent / "aside"
        while not stop.is_set():
            for data in (evil, good):
                aside.write_bytes(data)
                aside.replace(victim)

    thread = threading.Thread(target=exchange)
    thread.start()
    outcomes = {"signed": 0, "refused": 0}
    try:
        for _ in range(60):
            try:
                sealed = signer.sign(layout, listed)
            except FarmError as error:
                assert error.code is Code.SIGNER_REFUSED
                outcomes["refused"] += 1
            else:
                said = [dsse.open_sealed(data, signer.public) for data in sealed]
                assert {item.digest for statement in said for item in statement.subjects} == expected
                outcomes["signed"] += 1
    finally:
        stop.set()
        thread.join()

    assert outcomes["refused"] > 0
    victim.write_bytes(evil)
    assert not bundles.verified(layout).ok  # whatever was signed, it does not fit the exchanged file
    victim.write_bytes(good)
    assert still_serves(signer, layout)


def test_many_silent_connections_do_not_keep_the_signer_from_its_work(signer: SocketSigner, layout: Path) -> None:
    silent = [connected(signer) for _ in range(server.CONNECTIONS + 8)]
    try:
        assert any(protocol.receive(connection, seconds=5) is None for connection in silent[server.CONNECTIONS :])
    finally:
        for connection in silent:
            connection.close()

    for _ in range(200):  # the signer notices the closed ones in its own time
        try:
            assert still_serves(signer, layout)
            return
        except FarmError as error:
            assert error.code is Code.SIGNER_UNREACHABLE
    pytest.fail("the signer did not come back")


def test_a_client_that_leaves_in_the_middle_harms_nobody(signer: SocketSigner, layout: Path) -> None:
    for cut in (1, 4, 20):
        with connected(signer) as connection:
            connection.sendall(framed(request(layout, statements(layout)))[:cut])
    with connected(signer) as connection:
        connection.sendall(framed(request(layout, statements(layout))))

    assert still_serves(signer, layout)


def test_a_peer_of_another_user_is_refused() -> None:
    with pytest.raises(FarmError) as caught:
        server.require_peer(1001, owner=1000)

    assert caught.value.code is Code.SIGNER_PEER
    server.require_peer(1000, owner=1000)


def test_the_kernel_says_who_the_peer_is() -> None:
    near, far = socket.socketpair(socket.AF_UNIX)
    with near, far:
        assert server.peer_user(near) == os.geteuid()


STRANGER = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as connection:
    try:
        connection.connect(sys.argv[1])
    except PermissionError:
        print("no entry")
    else:
        connection.settimeout(100)
        print(connection.recv(65536)[4:].decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_gets_no_further_than_the_door_even_when_the_door_is_open() -> None:
    with tempfile.TemporaryDirectory(prefix="kf") as folder:
        home = Home(Path(folder) / "h").create()
        keys.new(home)
        with client.open_signer(home) as found:
            assert isinstance(found, SocketSigner)
            place = found.socket

            def stranger() -> str:
                argv = [sys.executable, "-I", "-c", STRANGER, str(place)]
                return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=HANG_S).stdout.strip()

            for path in (place.parent, *place.parent.parents[:3]):
                path.chmod(0o755)
            assert stranger() == "no entry"
            place.chmod(0o666)
            reply = json.loads(stranger())

    assert reply["error"]["code"] == Code.SIGNER_PEER.number


def test_a_bundle_is_named_by_the_index_that_was_signed(signer: SocketSigner, layout: Path) -> None:
    sealed = signer.sign(layout, statements(layout))

    signed = dsse.open_sealed(sealed[-1], signer.public)

    assert (layout / oci.blob_name(signed.subjects[0].digest)).is_file()
