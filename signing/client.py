"""How the farm gets signatures: find or start a signer process, and ask it. This side never opens a private key."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kernelfarm import canonical, files, paths
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from signing import dsse, keys, protocol
from signing.keys import PublicKey
from signing.statement import Statement

START_SECONDS = 20.0
REPLY_SECONDS = 600.0
"""A bundle of many gigabytes is hashed before the reply."""

IDLE_SECONDS = 300.0


class Signer(Protocol):
    """Something that signs statements about a bundle in a folder."""

    @property
    def public(self) -> PublicKey:
        """The key that its signatures verify under."""
        ...

    def sign(self, layout: Path, statements: Sequence[Statement]) -> list[bytes]:
        """One sigstore bundle per statement; raises `FarmError` (SIGNER_*, or why the signer refused)."""
        ...


@dataclass(frozen=True, slots=True)
class SocketSigner:
    """A signer process behind a Unix socket. Every signature is checked under `public` before it is handed on."""

    socket: Path
    public: PublicKey

    def sign(self, layout: Path, statements: Sequence[Statement]) -> list[bytes]:
        """See `Signer.sign`."""
        request = {
            "schema": "sign-request/1",
            "do": "sign",
            "layout": str(layout.absolute()),
            "statements": [statement.to_json() for statement in statements],
        }
        return self._sealed(request, statements)

    def waive(self, statement: Statement) -> bytes:
        """A signed licence waiver, as `signing.waiver` makes its statement; raises as `Signer.sign`."""
        request = {"schema": "sign-request/1", "do": "waive", "statement": statement.to_json()}
        (data,) = self._sealed(request, [statement])
        return data

    def withdraw(self, statement: Statement) -> bytes:
        """A signed withdrawal for a registry's log, of a bundle that need not be here; raises as `Signer.sign`."""
        request = {"schema": "sign-request/1", "do": "withdraw", "statement": statement.to_json()}
        (data,) = self._sealed(request, [statement])
        return data

    def _sealed(self, request: dict[str, Any], statements: Sequence[Statement]) -> list[bytes]:
        sealed = _ask(self.socket, request).get("sealed")
        if not isinstance(sealed, list) or len(sealed) != len(statements):
            raise protocol.malformed("the signer's reply does not fit the request")
        made = [str(text).encode() for text in sealed]
        for data, statement in zip(made, statements, strict=True):
            if dsse.open_sealed(data, self.public, "the signer's reply") != statement:
                raise protocol.malformed("the signer signed another statement than it was asked to")
        return made


def socket_of(home: Home, name: str = keys.DEFAULT) -> Path:
    """Where `farm signer` listens for the key `name`."""
    return home.run / f"signer-{name}.sock"


@contextlib.contextmanager
def open_signer(home: Home, name: str = keys.DEFAULT) -> Iterator[SocketSigner]:
    """A signer for the key `name`: a running `farm signer`, else a process of its own that ends with the block.

    Raises `FarmError` KEY_MISSING with the command that makes a key; KEY_EXPOSED and others of `keys.load_private`;
    SIGNER_UNREACHABLE when the process does not start.
    """
    found = keys.find(home, name)
    public = keys.load_public(found.public)
    shared = socket_of(home, name)
    if _is_served(shared):
        yield _checked(SocketSigner(shared, public))
        return
    home.create()
    files.sweep(home.run)
    with contextlib.ExitStack() as stack:
        with files.coded("the signer's folder could not be made", home.run):
            own = stack.enter_context(files.temp_folder(home.run)) / "signer.sock"
        stack.enter_context(_process(found.private, own, home.logs / "signer.log"))
        yield _checked(SocketSigner(own, public))


def _checked(signer: SocketSigner) -> SocketSigner:
    """The signer, when the key that it holds is the one expected."""
    said = _ask(signer.socket, {"schema": "sign-request/1", "do": "identify"}).get("public")
    if said != signer.public.pem:
        raise FarmError(
            Code.WRONG_KEY,
            "the signer holds another key",
            "the private key does not belong to the public key beside it, or the signer runs since before a change",
            "End the signer, or make the pair anew with `farm keys new --force`.",
        )
    return signer


def _is_served(path: Path) -> bool:
    if not path.is_socket():
        return False
    with paths.socket_address(path) as address, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(address) == 0


def _ask(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """One request, one reply; an error in the reply is raised."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            with paths.socket_address(path) as address:
                connection.connect(address)
        except OSError as reason:
            raise _unreachable(f"{path}: {reason.strerror or reason}") from reason
        protocol.send(connection, request, seconds=REPLY_SECONDS)
        reply = protocol.receive(connection, seconds=REPLY_SECONDS)
    if reply is None or reply.get("schema") != "sign-reply/1":
        raise _unreachable("it closed the connection without a reply")
    if "error" in reply:
        raise FarmError.from_json(reply["error"])
    return reply


@contextlib.contextmanager
def _process(key: Path, path: Path, log: Path) -> Iterator[None]:
    """A signer process for the time of the block. When this process dies it ends too: its standard input closes."""
    argv = [sys.executable, "-I", "-m", "signing"]
    argv += ["--key", str(key), "--socket", str(path), "--idle", str(IDLE_SECONDS)]
    with files.coded("the signer's log could not be opened", log):
        stream = os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")
    with stream:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env={"PATH": "", "LC_ALL": "C.UTF-8"},
                start_new_session=True,  # ctrl-C ends the build, and the build ends its signer
            )
        except OSError as reason:
            raise _unreachable(f"it could not be started: {reason.strerror or reason}") from reason
    with process:
        try:
            _await_ready(process, log)
            yield
        finally:
            _end(process)


def _await_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline() if ready else b""
    said = canonical.loads(line, name="the signer's first line") if line else {}
    if "error" in said:
        raise FarmError.from_json(said["error"])
    if said != {"ready": True}:
        raise _unreachable(f"it did not start; its log is {log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _unreachable(why: str) -> FarmError:
    return FarmError(
        Code.SIGNER_UNREACHABLE,
        "the signer cannot be reached",
        why,
        "Run the command again; `farm doctor` checks the keys and the signer.",
    )
