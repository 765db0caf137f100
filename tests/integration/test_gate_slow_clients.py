"""Clients that only connect, or send what never ends: the gate serves the others, and lets go of these."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from farm.gate import authority, server
from farm.gate.desk import Desk
from kernelfarm.paths import Home
from tests.support.gate_server import GateServer
from tests.support.services import HANG_S

pytestmark = pytest.mark.services

SILENT = 1500
"""More connections than a process may usually have open."""


def connected(made: GateServer, identity: Path) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(made.registry.keys.ca.certificate)
    context.load_cert_chain(identity)
    host, port = made.url.removeprefix("https://").rsplit(":", 1)
    return context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=authority.GATE)


def test_who_only_connects_keeps_nobody_out(gate_server: GateServer) -> None:
    alice = gate_server.as_worker("alice")
    host, port = gate_server.url.removeprefix("https://").rsplit(":", 1)
    with contextlib.ExitStack() as held:
        for _ in range(SILENT):  # without a word
            held.enter_context(socket.create_connection((host, int(port))))
        began = time.monotonic()
        assert alice.hello().worker == "alice"
        assert gate_server.as_worker("bob").hello().worker == "bob"
        assert time.monotonic() - began < 60.0
    assert "Traceback" not in gate_server.log


def test_heads_that_are_huge_or_never_end_harm_nobody(gate_server: GateServer) -> None:
    mallory = gate_server.enrol("mallory")
    alice = gate_server.as_worker("alice")
    with contextlib.ExitStack() as held:
        for _ in range(200):
            held.enter_context(connected(gate_server, mallory)).sendall(b"POST /v1/hello HTTP/1.1\r\nX: ")
        huge = held.enter_context(connected(gate_server, mallory))
        with contextlib.suppress(OSError):
            huge.sendall(b"POST /v1/hello HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (4 << 20) + b"\r\n\r\n")
        huge.settimeout(HANG_S)
        with contextlib.suppress(ConnectionError, ssl.SSLError):  # or cut off
            assert b" 400 " in huge.recv(64)
        chunked = held.enter_context(connected(gate_server, mallory))
        chunked.sendall(b"POST /v1/hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n")
        assert alice.hello().worker == "alice"
    assert "Traceback" not in gate_server.log


def test_a_connection_on_which_nothing_is_asked_is_closed(tmp_path: Path) -> None:
    """Without TLS and in this process: the gate of above waits 75 seconds."""

    async def scene() -> bytes:
        gate = server._Gate(Desk(*[cast(Any, None)] * 3, authority.ensure(Home(tmp_path)), cast(Any, None)), "")
        gate._who = lambda _request: time.sleep(2.0) or "alice"  # type: ignore[method-assign,func-returns-value]
        runner = web.AppRunner(gate.application())
        await runner.setup()
        assert runner.server is not None
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(runner.server, "127.0.0.1", 0)
        sweep = loop.create_task(gate.close_idle(runner.server, 0.5))
        port = listener.sockets[0].getsockname()[1]
        slow, slow_writer = await asyncio.open_connection("127.0.0.1", port)
        slow_writer.write(b"POST /v1/hello HTTP/1.1\r\nX: ")
        asks, asks_writer = await asyncio.open_connection("127.0.0.1", port)
        asks_writer.write(b"POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                assert await slow.read() == b""
            answered = await asks.read(12)
            with contextlib.suppress(ConnectionError):
                await asks.read()  # the rest, and then it is idle too
        for writer in (slow_writer, asks_writer):
            writer.close()
        sweep.cancel()
        listener.close()
        await runner.cleanup()
        gate.close()
        return answered

    assert asyncio.run(scene()) == b"HTTP/1.1 404"
