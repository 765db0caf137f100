"""The signer: the one process that reads a private key, and hashes the bytes itself before it signs a statement.

A client hands over a bundle's folder and the statements to sign. The signer reads the folder as a verifier would,
computes every digest from the bytes, and signs a statement only if it says of them what they are. A file that is
exchanged meanwhile is refused, or the signature is over the old digest and then fits no file.

What the boundary is: workers, compile children and the build command never hold the key, so a fault in them cannot
leak it; the key serves statements about bytes that exist, licence waivers and withdrawals, and nothing else. What it is
not: an HSM. A hostile process of the same user can read the key file, or ask for a signature over a bundle of its own
making. The socket (mode 0600, peer's user checked) keeps other users out; this process allows no core dump, and no
tracing by its peers. Where a same-user attacker counts, the key belongs to another user or into hardware.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from kernelfarm import files, oci_bundle, paths
from kernelfarm.errors import Code, FarmError
from signing import dsse, facts, keys, protocol, release, verify, waiver
from signing.statement import Statement

CONNECTIONS = 16
FRAME_SECONDS = 30.0
"""A client has this long for one message, and the next."""

ByForm = Callable[[Statement], str]
"""Says what a statement of one kind is, for the log; raises `FarmError` ATTESTATION_INVALID for any other."""

_TURN_SECONDS = 10.0
_PEER = struct.Struct("3i")
_PR_SET_DUMPABLE = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the signer listens and when it ends.

    `idle_seconds`: without a connection for this long it ends, 0 = never. `lifeline`: a descriptor whose end of file
    ends it, -1 = none.
    """

    socket: Path
    key: Path
    idle_seconds: float = 0.0
    lifeline: int = -1


def serve(settings: Settings, on_ready: Callable[[], None] = lambda: None) -> None:
    """Load the key, listen, answer until idle, the lifeline ends, or SIGTERM or SIGINT arrives; then remove the socket.

    `on_ready` is called once the socket takes connections. Raises `FarmError` as `keys.load_private`, and
    SIGNER_UNREACHABLE when another signer listens there already.
    """
    private = keys.load_private(settings.key)
    with _listening(settings.socket) as listener:
        _harden()
        _log(f"listening at {settings.socket}")
        on_ready()
        with _stop_signals() as stop:
            _accept_all(listener, private, settings, stop)
    _log("ended")


def answer(request: dict[str, Any], private: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    """The reply to one request. A refusal is a reply too: {"schema", "error"}."""
    try:
        if request.get("schema") != "sign-request/1":
            raise protocol.malformed("it is not a request to the signer")
        if request == {"schema": "sign-request/1", "do": "identify"}:
            return {"schema": "sign-reply/1", "public": keys.public_of(private).pem}
        by_form = _BY_FORM.get(str(request.get("do")))
        sealed = _sign(request, private) if by_form is None else [_sign_by_form(request, private, by_form)]
        return {"schema": "sign-reply/1", "sealed": [data.decode() for data in sealed]}
    except FarmError as reason:
        error = reason
    except OSError as reason:
        error = files.error_of(reason, "the signer could not read the bundle", Path(str(request.get("layout"))))
    _log(f"refused: {error}")
    return {"schema": "sign-reply/1", "error": error.to_json()}


def _sign(request: dict[str, Any], private: ec.EllipticCurvePrivateKey) -> list[bytes]:
    folder, wanted = request.get("layout"), request.get("statements")
    if set(request) != {"schema", "do", "layout", "statements"} or request["do"] != "sign":
        raise protocol.malformed("it is not a request to sign")
    if not isinstance(folder, str) or not folder.startswith("/") or "\0" in folder:
        raise protocol.malformed("the layout is not an absolute path")
    if not isinstance(wanted, list) or not 0 < len(wanted) <= protocol.STATEMENTS:
        raise protocol.malformed(f"it holds no list of 1 to {protocol.STATEMENTS} statements")
    statements = [Statement.from_json(value, f"statement {number}") for number, value in enumerate(wanted)]
    try:
        found = facts.facts_of(oci_bundle.read(Path(folder)))
        for number, statement in enumerate(statements):
            verify.require_about(statement, found, f"statement {number}")
    except FarmError as error:
        raise FarmError(
            Code.SIGNER_REFUSED,
            "the signer refused to sign",
            f"{error.what}: {error.why}" if error.why else error.what,
            "Build again; if it stays, the bundle or the build is not what it says.",
            {**error.detail, "cause": error.code.number},
        ) from error
    _log(f"signing {len(statements)} statements about {found.digest}")
    return [dsse.seal(statement, private) for statement in statements]


def _sign_by_form(request: dict[str, Any], private: ec.EllipticCurvePrivateKey, form: ByForm) -> bytes:
    """Sign what speaks about no bytes that are here: the signer sees to its form, who asks answers for its content."""
    if set(request) != {"schema", "do", "statement"}:
        raise protocol.malformed("it is not a request to sign by form")
    statement = Statement.from_json(request["statement"], "the statement")
    _log(f"signing {form(statement)}")
    return dsse.seal(statement, private)


def _waiver(statement: Statement) -> str:
    found = waiver.from_statement(statement, "the waiver")
    return f"a waiver of {found.finding} until {found.expires}"


def _withdrawal(statement: Statement) -> str:
    """A withdrawal must not need the bytes, which may be what was lost."""
    found = release.require_withdrawal(statement, "the withdrawal")
    return f"the withdrawal of {found.name} {found.version}, {found.digest}"


_BY_FORM: dict[str, ByForm] = {"waive": _waiver, "withdraw": _withdrawal}


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """A listening socket at `path`, mode 0600 from the first moment; a dead one that lies there is replaced."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with files.coded("the signer's socket could not be made", path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _bind(listener, path)
            own = path.stat()
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError, FarmError):  # the folder may be gone
                _leave(path, own)


def _bind(listener: socket.socket, path: Path) -> None:
    """Bind and listen, or find that another signer does.

    Under a lock: a socket that is bound and does not listen yet looks like a dead one, which another would replace.
    """
    before = os.umask(0o177)  # the process has one thread yet
    try:
        with files.locked(path, timeout_s=_TURN_SECONDS), paths.socket_address(path) as address:
            if path.is_socket() and not _alive(address):
                path.unlink()
            listener.bind(address)
            listener.listen(CONNECTIONS)
    except OSError as reason:
        if not path.is_socket():
            raise
        why = "a key is held by one process, and builds look for it at one place"
        raise FarmError(
            Code.SIGNER_UNREACHABLE, f"another signer listens at {path}", why, "End it first, or use that one."
        ) from reason
    finally:
        os.umask(before)


def _leave(path: Path, own: os.stat_result) -> None:
    """Remove the socket, unless another one took its place."""
    with files.locked(path, timeout_s=_TURN_SECONDS):
        found = path.lstat()
        if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino):
            path.unlink()


def _alive(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(address) == 0


def _harden() -> None:
    """No core dump, no tracing and no /proc/PID/mem for processes of the same user (Linux: prctl PR_SET_DUMPABLE 0)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


@contextlib.contextmanager
def _stop_signals() -> Iterator[int]:
    """A descriptor that becomes readable when SIGTERM or SIGINT arrives."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    wakeup = signal.set_wakeup_fd(write_end)
    try:
        yield read_end
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_end)
        os.close(write_end)


def _accept_all(listener: socket.socket, private: ec.EllipticCurvePrivateKey, settings: Settings, stop: int) -> None:
    slots = threading.Semaphore(CONNECTIONS)
    active: list[threading.Thread] = []
    last = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        for descriptor in {stop, settings.lifeline} - {-1}:
            selector.register(descriptor, selectors.EVENT_READ)
        while True:
            active = [thread for thread in active if thread.is_alive()]
            last = time.monotonic() if active else last
            left = max(0.0, last + settings.idle_seconds - time.monotonic())
            ready = {key.fd for key, _ in selector.select(left if settings.idle_seconds else None)}
            if ready - {listener.fileno()}:
                return
            if listener.fileno() in ready:
                last = time.monotonic()
                connection, _ = listener.accept()
                active += _start(connection, private, slots)
            elif not active and settings.idle_seconds and time.monotonic() - last >= settings.idle_seconds:
                return


def _start(
    connection: socket.socket, private: ec.EllipticCurvePrivateKey, slots: threading.Semaphore
) -> list[threading.Thread]:
    if not slots.acquire(blocking=False):
        _log(f"refused: more than {CONNECTIONS} connections")
        connection.close()
        return []

    def converse() -> None:
        try:
            with connection:
                _converse(connection, private)
        finally:
            slots.release()

    thread = threading.Thread(target=converse, daemon=True)
    thread.start()
    return [thread]


def _converse(connection: socket.socket, private: ec.EllipticCurvePrivateKey) -> None:
    """Answer one peer until it leaves, breaks the protocol, or belongs to another user."""
    try:
        require_peer(peer_user(connection), os.geteuid())
        while (request := protocol.receive(connection, seconds=FRAME_SECONDS)) is not None:
            protocol.send(connection, answer(request, private), seconds=FRAME_SECONDS)
    except FarmError as error:
        _log(f"refused: {error}")
        with contextlib.suppress(FarmError):
            protocol.send(connection, {"schema": "sign-reply/1", "error": error.to_json()}, seconds=1.0)


def peer_user(connection: socket.socket) -> int:
    """User id of the process at the other end, as the kernel knows it (SO_PEERCRED)."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    user: int = _PEER.unpack(raw)[1]
    return user


def require_peer(user: int, owner: int) -> None:
    """Raises `FarmError` SIGNER_PEER unless the peer is the signer's own user."""
    if user != owner:
        advice = "Run the command as the user of the signer, or with a signer of your own."
        raise FarmError(Code.SIGNER_PEER, "the signer serves its own user only", f"the peer is user {user}", advice)


def _log(text: str) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with contextlib.suppress(OSError):  # a full disk under the log must not stop the signer
        print(f"{stamp} signer {os.getpid()}: {text}", file=sys.stderr, flush=True)
