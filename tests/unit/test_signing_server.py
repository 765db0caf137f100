"""What the signer answers, and what its client makes of a signer that lies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kernelfarm import digest, oci_bundle
from kernelfarm.errors import Code, FarmError
from signing import client, dsse, facts, protocol, server
from signing.client import SocketSigner
from signing.statement import Statement, Subject
from tests.support import bundles

SIGNER = bundles.signer()
IDENTIFY = {"schema": "sign-request/1", "do": "identify"}
STATEMENT = Statement((Subject("x", digest.of_bytes(b"x")),), "urn:x", {})


def code_of(reply: dict[str, Any]) -> Code:
    return FarmError.from_json(reply["error"]).code


def test_a_signer_says_which_key_it_holds() -> None:
    assert server.answer(IDENTIFY, SIGNER.private) == {"schema": "sign-reply/1", "public": SIGNER.public.pem}


@pytest.mark.parametrize("change", [{"schema": "sign-request/2"}, {"schema": None}, {"do": "sign"}, {"extra": 1}])
def test_a_request_of_another_form_is_a_coded_reply(change: dict[str, Any]) -> None:
    assert code_of(server.answer(IDENTIFY | change, SIGNER.private)) is Code.SIGNER_PROTOCOL


def test_a_true_statement_about_a_bundle_is_signed(tmp_path: Path) -> None:
    layout = bundles.write(tmp_path / "cls", tmp_path / "work").path
    statement = facts.facts_of(oci_bundle.read(layout)).signature()
    request = {"schema": "sign-request/1", "do": "sign", "layout": str(layout), "statements": [statement.to_json()]}

    (sealed,) = server.answer(request, SIGNER.private)["sealed"]

    assert dsse.open_sealed(sealed.encode(), SIGNER.public) == statement


def test_a_bundle_that_cannot_be_read_is_a_coded_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(oci_bundle, "read", unreadable)
    request = {"schema": "sign-request/1", "do": "sign", "layout": "/x", "statements": [STATEMENT.to_json()]}

    assert code_of(server.answer(request, SIGNER.private)) is Code.FILE_IO


@contextmanager
def lying(place: Path, reply: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Iterator[SocketSigner]:
    """A signer that answers each request with whatever `reply` makes of it; None: it hangs up."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                request = protocol.receive(connection, seconds=5)
                answer = reply(request or {})
                if answer is not None:
                    protocol.send(connection, answer, seconds=5)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield SocketSigner(place, SIGNER.public)
        finally:
            thread.join()


def sealed(statement: Statement, number: int = 1) -> str:
    return dsse.seal(statement, bundles.signer(number).private).decode()


OTHER = Statement((Subject("x", digest.of_bytes(b"other")),), "urn:x", {})


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ({"schema": "sign-reply/1", "sealed": [sealed(OTHER)]}, Code.SIGNER_PROTOCOL),
        ({"schema": "sign-reply/1", "sealed": [sealed(STATEMENT, 2)]}, Code.WRONG_KEY),
        ({"schema": "sign-reply/1", "sealed": ["nonsense"]}, Code.JSON_INVALID),
        ({"schema": "sign-reply/1", "sealed": []}, Code.SIGNER_PROTOCOL),
        ({"schema": "sign-reply/1"}, Code.SIGNER_PROTOCOL),
        ({"schema": "sign-reply/2", "sealed": [sealed(STATEMENT)]}, Code.SIGNER_UNREACHABLE),
        ({"schema": "sign-reply/1", "error": "nonsense"}, Code.INTERNAL),
        (None, Code.SIGNER_UNREACHABLE),
    ],
)
def test_a_signer_that_lies_is_found_out(tmp_path: Path, reply: dict[str, Any] | None, code: Code) -> None:
    with lying(tmp_path / "s", lambda _: reply) as signer, pytest.raises(FarmError) as caught:
        signer.sign(tmp_path, [STATEMENT])

    assert caught.value.code is code


def test_an_honest_reply_is_handed_on(tmp_path: Path) -> None:
    made = sealed(STATEMENT)

    with lying(tmp_path / "s", lambda _: {"schema": "sign-reply/1", "sealed": [made]}) as signer:
        assert signer.sign(tmp_path, [STATEMENT]) == [made.encode()]


def test_a_signer_that_is_not_there_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        client.SocketSigner(tmp_path / "absent", SIGNER.public).sign(tmp_path, [STATEMENT])

    assert caught.value.code is Code.SIGNER_UNREACHABLE


def test_a_second_signer_at_a_socket_is_refused_and_leaves_the_first_one_s(tmp_path: Path) -> None:
    place = tmp_path / "signer.sock"
    with server._listening(place) as listener:
        with pytest.raises(FarmError) as caught, server._listening(place):
            pass
        assert caught.value.code is Code.SIGNER_UNREACHABLE
        with socket.socket(socket.AF_UNIX) as probe:
            assert probe.connect_ex(str(place)) == 0
        listener.accept()[0].close()
    assert not place.exists()


def test_a_signer_that_ends_leaves_the_socket_of_its_successor(tmp_path: Path) -> None:
    place = tmp_path / "signer.sock"
    with socket.socket(socket.AF_UNIX) as successor:
        with server._listening(place):
            place.unlink()
            successor.bind(str(place))
        assert place.is_socket()


def test_a_dead_socket_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "signer.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))

    with server._listening(place), socket.socket(socket.AF_UNIX) as probe:
        assert probe.connect_ex(str(place)) == 0
