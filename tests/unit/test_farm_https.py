"""What a caller is told of a service that cannot be believed."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest

from farm.gate import authority, registry
from farm.gate.authority import Authority
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home


@pytest.fixture
def keys(tmp_path: Path) -> Authority:
    return authority.ensure(Home(tmp_path))


def test_a_registry_with_an_ended_certificate_is_to_be_started_again(
    keys: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a registry that goes on with a certificate which has ended, though its file was renewed
    keys.registry.certificate.unlink()
    with monkeypatch.context() as past:
        past.setattr(authority, "SERVER_DAYS", -1 / 24 / 60)
        authority.ensure(Home(tmp_path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.registry.certificate, keys.registry.key)
    ended = keys.registry.certificate.read_bytes()
    authority.ensure(Home(tmp_path))
    assert keys.registry.certificate.read_bytes() != ended
    # When the gate asks it for something
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve_once, args=(server, context))
        thread.start()
        peer = registry.peer(keys, f"https://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(FarmError) as caught, peer.ask("GET", "v2/"):
            pass
        thread.join()
    # Then the error says what it is, and how to come by the new one
    assert caught.value.code is Code.REGISTRY_UNREACHABLE
    assert "certificate has expired" in caught.value.why
    assert "started again" in caught.value.next_step


def _serve_once(server: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
        pass
