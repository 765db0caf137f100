"""The gate's HTTP: mutual TLS, one POST path per message of `farm.gate.messages`, errors as "error/1" documents."""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from farm.gate import authority, messages, tokens
from farm.gate.desk import Desk, malformed
from farm.gate.identities import Identities, refused
from farm.gate.messages import Beat, Empty, Fail, Finish, Held, Join, Joined, Lose, Take, Taken, Welcome
from kernelfarm import canonical
from kernelfarm.errors import Code, FarmError, Status

Noun = TypeVar("Noun")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LOOK_S = 0.5
"""Between two looks at the ledger for a worker that waits for a run."""
_BODY_S = 60.0
"""A message has this long to arrive, once its head has; the head of the first one too."""
IDLE_S = 75.0
"""A connection on which nothing is asked for so long is closed; aiohttp waits for a head without end."""
_HANDSHAKE_S = 15.0
_THREADS = 16
_FETCHES = 2
"""Results that are fetched at once: a hostile worker's large ones must not keep the others' heartbeats out."""

_HTTP_STATUS = {
    Code.GATE_REFUSED: 403,
    Code.GATE_PROTOCOL: 400,
    Code.LEASE_LOST: 409,
    Code.RESULT_REFUSED: 422,
    Code.BLOB_REFUSED: 422,
    Code.BLOB_MISSING: 422,
    Code.PAYLOAD_DIFFERS: 422,
}
_MALFORMED = frozenset(
    {Code.JSON_INVALID, Code.JSON_NOT_CANONICAL, Code.SCHEMA_MISMATCH, Code.DIGEST_INVALID, Code.NAME_INVALID}
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the gate listens."""

    host: str
    port: int


def serve(desk: Desk, registry: str, address: Address, on_ready: Callable[[Address], None]) -> None:
    """Answer until SIGTERM or SIGINT. `on_ready` gets the address once connections are taken (port 0: any free one).

    Raises `FarmError` GATE_UNREACHABLE when it cannot listen there.
    """
    asyncio.run(_serve(desk, registry, address, on_ready))


async def _serve(desk: Desk, registry: str, address: Address, on_ready: Callable[[Address], None]) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # who only connects must not use up what there is
    gate = _Gate(desk, registry)
    runner = web.AppRunner(gate.application(), access_log=None, logger=_logger(), shutdown_timeout=5.0)
    await runner.setup()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, about: _say(_brief(about["message"], about.get("exception"))))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        assert runner.server is not None
        try:
            listener = await loop.create_server(
                runner.server,
                address.host,
                address.port,
                ssl=authority.server_context(desk.authority),
                ssl_handshake_timeout=_HANDSHAKE_S,
                reuse_address=True,
            )
        except OSError as reason:
            advice = "Choose another --listen."
            what = f"the gate cannot listen at {address.host}:{address.port}"
            raise FarmError(Code.GATE_UNREACHABLE, what, str(reason), advice) from reason
        sweep = loop.create_task(gate.close_idle(runner.server, IDLE_S))
        host, port = listener.sockets[0].getsockname()[:2]
        on_ready(Address(str(host), int(port)))
        await stop.wait()
        sweep.cancel()
        listener.close()
    finally:
        gate.stopping.set()
        await runner.cleanup()
        gate.close()


class _Gate:
    def __init__(self, desk: Desk, registry: str) -> None:
        self._desk = desk
        self._registry = registry
        self._identities = Identities(desk.authority)
        self._threads = ThreadPoolExecutor(_THREADS, "gate")
        self._fetchers = ThreadPoolExecutor(_FETCHES, "gate-fetch")
        self._asked_at: dict[object, float] = {}
        """The connections, with when something was last asked or answered on them; infinity while it is answered."""
        self.stopping = asyncio.Event()

    async def close_idle(self, server: web.Server, idle_s: float) -> None:
        """Close the connections on which nothing is asked: somebody who sends a head without end holds one for ever."""
        while True:
            now = time.monotonic()
            there = server.connections
            self._asked_at = {each: self._asked_at.get(each, now) for each in there}
            for each in there:
                if now > self._asked_at[each] + idle_s and each.transport is not None:
                    each.transport.abort()
            await asyncio.sleep(idle_s / 10)

    def application(self) -> web.Application:
        """The routes, behind the check of who asks."""
        found = web.Application(client_max_size=messages.BODY_LIMIT, middlewares=[self._guard])
        desk = self._desk
        found.router.add_post(f"/{messages.JOIN}", self._join)
        found.router.add_post(f"/{messages.HELLO}", self._hello)
        found.router.add_post(f"/{messages.TAKE}", self._take)
        found.router.add_post(f"/{messages.LOG}", self._log)
        routes: tuple[tuple[str, type[Any], Callable[[str, Any], Any]], ...] = (
            (messages.BEAT, Beat, desk.beat),
            (messages.TOKEN, Held, desk.token),
            (messages.FINISH, Finish, desk.finish),
            (messages.FAIL, Fail, desk.fail),
            (messages.RELEASE, Held, desk.release),
            (messages.LOSE, Lose, desk.lose),
        )
        for path, kind, work in routes:
            pool = self._fetchers if path == messages.FINISH else self._threads
            found.router.add_post(f"/{path}", self._plain(kind, work, pool))
        return found

    def close(self) -> None:
        """End the threads; what they do is finished first."""
        self._threads.shutdown()
        self._fetchers.shutdown()

    def _plain(self, kind: type[Noun], work: Callable[[str, Noun], Any], pool: ThreadPoolExecutor) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            asked = await _read(request, kind)
            answer = await asyncio.get_running_loop().run_in_executor(pool, work, request["worker"], asked)
            return _answer(Empty() if answer is None else answer)

        return handle

    async def _join(self, request: web.Request) -> web.StreamResponse:
        """Certify the key of a host that shows its ticket."""
        asked = await _read(request, Join)
        work, shown, wanted = self._identities.join, _shown(request), asked.request.encode()
        name, certificate = await asyncio.get_running_loop().run_in_executor(self._threads, work, shown, wanted)
        _say(f"{name} has joined")
        return _answer(Joined(certificate.decode()))

    async def _hello(self, request: web.Request) -> web.StreamResponse:
        await _read(request, Empty)
        lease_s = self._desk.settings.lease_s
        return _answer(Welcome(request["worker"], lease_s, self._registry, tokens.LIFE_S))

    async def _take(self, request: web.Request) -> web.StreamResponse:
        """Look until there is a run, the time is over, the worker is gone, or the gate ends."""
        asked = await _read(request, Take)
        end = time.monotonic() + min(max(asked.wait_s, 0.0), messages.WAIT_LIMIT_S)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._desk.announce, request["worker"], asked)
        while not self.stopping.is_set() and _is_there(request):
            # Anew each time: a worker that is revoked while it waits gets nothing.
            worker = await loop.run_in_executor(self._threads, self._who, request)
            taken = await loop.run_in_executor(self._threads, self._desk.take, worker, asked)
            if taken.grant is not None and not _is_there(request):
                held = Held(taken.grant.run, taken.grant.fencing)
                await loop.run_in_executor(self._threads, self._desk.release, worker, held)
                break
            if taken.grant is not None:
                _say(f"{worker} took r{taken.grant.run} (lease {taken.grant.fencing})")
                return _answer(taken)
            if time.monotonic() >= end:
                break
            await asyncio.sleep(_LOOK_S)
        return _answer(Taken(None))

    async def _log(self, request: web.Request) -> web.StreamResponse:
        """A piece of a log: the numbers are in the query, the body is the bytes."""
        try:
            run, fencing, offset = (int(request.query[name]) for name in ("run", "fencing", "offset"))
        except (KeyError, ValueError) as reason:
            raise malformed("a piece of a log lacks its numbers") from reason
        data = await _body(request)
        asked = Held(run, fencing)
        work = self._desk.log
        loop = asyncio.get_running_loop()
        size = await loop.run_in_executor(self._threads, work, request["worker"], asked, offset, data)
        return web.json_response({"size": size})

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        who = "nobody"
        self._asked_at[request.protocol] = math.inf
        try:
            loop = asyncio.get_running_loop()
            if request.path != f"/{messages.JOIN}":  # that asks for itself who may
                request["worker"] = who = await loop.run_in_executor(self._threads, self._who, request)
            return await handler(request)
        except FarmError as error:
            if error.code in _MALFORMED:
                error = malformed(f"{error.what}: {error.why}")
            if error.code is not Code.LEASE_LOST:  # that happens to the best
                _say(f"{who}: {request.path}: {error}")
            return _refusal(error)
        except web.HTTPException as reason:
            return _refusal(malformed(f"{request.method} {request.path}: {reason.reason}"), reason.status)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as reason:  # noqa: BLE001 - one request's fault must not show its insides, nor end the gate
            _say(f"{who}: {request.path}: {type(reason).__name__}: {reason}")
            return _refusal(FarmError(Code.INTERNAL, "the gate could not answer", type(reason).__name__))
        finally:
            self._asked_at[request.protocol] = time.monotonic()

    def _who(self, request: web.Request) -> str:
        return self._identities.require(_shown(request)).name


def _shown(request: web.Request) -> bytes | None:
    """The certificate that was shown (DER)."""
    if request.transport is None:
        raise refused("it has left")
    found: bytes | None = request.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return found


def _is_there(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


async def _read(request: web.Request, kind: type[Noun]) -> Noun:
    return canonical.decode(kind, await _body(request), name="the message")


async def _body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(_BODY_S):
            return await request.read()
    except TimeoutError as reason:
        raise malformed(f"it did not come within {_BODY_S:g} s") from reason


def _answer(noun: object) -> web.Response:
    return web.Response(body=canonical.encode(noun), content_type="application/json")


def _refusal(error: FarmError, status: int | None = None) -> web.Response:
    known = status or _HTTP_STATUS.get(error.code)
    if known is None:  # this machine's own troubles, with its paths and addresses, are for its own log
        known = 503 if error.status is Status.ENVIRONMENT else 500
        error = FarmError(error.code, error.code.title, "the gate's own log says why")
    return web.json_response({"error": error.to_json()}, status=known)


class _OneLine(logging.Handler):
    """What aiohttp says of a broken connection: a line, without its stack and what was sent."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(_brief(record.getMessage(), record.exc_info[1] if record.exc_info else None))


def _logger() -> logging.Logger:
    found = logging.getLogger("kernel-farm.gate")
    found.propagate = False
    found.handlers = [_OneLine()]
    return found


def _brief(text: str, reason: BaseException | None) -> str:
    return text if reason is None else f"{text}: {type(reason).__name__}"


def _say(text: str) -> None:
    line = "".join(char if char.isprintable() else "?" for char in text)  # it may hold what a worker wrote
    sys.stderr.write(f"gate: {line}\n")
