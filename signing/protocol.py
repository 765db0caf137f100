"""Messages between the farm and its signer: a length, then canonical JSON, both limited.

A frame is 4 bytes of length, big-endian, and that many bytes of canonical JSON. A whole frame must arrive within its
time, so that a peer that drips bytes holds a connection for that long and no longer.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from kernelfarm import canonical
from kernelfarm.errors import Code, FarmError

LARGEST = 4 << 20
"""Bytes of JSON in one frame."""

STATEMENTS = 1_024
"""Statements in one request."""

_LENGTH = struct.Struct(">I")


def send(connection: socket.socket, value: dict[str, Any], *, seconds: float) -> None:
    """Send one message; raises `FarmError` SIGNER_PROTOCOL when it is too large, SIGNER_UNREACHABLE without a peer."""
    data = canonical.dumps(value)
    if len(data) > LARGEST:
        raise malformed("a message is too large", f"{len(data)} bytes of at most {LARGEST}")
    connection.settimeout(seconds)
    try:
        connection.sendall(_LENGTH.pack(len(data)) + data)
    except OSError as reason:
        raise _gone(reason) from reason


def receive(connection: socket.socket, *, seconds: float) -> dict[str, Any] | None:
    """The next message, a JSON object; None when the peer closed between two messages.

    Raises `FarmError` SIGNER_PROTOCOL for a frame that is too large, cut short, not canonical JSON or not complete
    within `seconds`; SIGNER_UNREACHABLE when the connection breaks.
    """
    deadline = time.monotonic() + seconds
    head = _exactly(connection, _LENGTH.size, deadline, may_end=True)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > LARGEST:
        raise malformed("a message is too large", f"{length} bytes of at most {LARGEST}")
    data = _exactly(connection, length, deadline)
    try:
        message = canonical.loads(data, strict=True, name="a message")
    except FarmError as reason:
        raise malformed("a message is not canonical JSON", reason.why) from reason
    if not isinstance(message, dict):
        raise malformed("a message is no JSON object")
    return message


def _exactly(connection: socket.socket, count: int, deadline: float, *, may_end: bool = False) -> bytes:
    """`count` bytes; none at all when the peer closed before the first one and `may_end`."""
    pieces: list[bytes] = []
    missing = count
    while missing:
        left = deadline - time.monotonic()
        if left <= 0:
            raise malformed("a message did not arrive in time")
        connection.settimeout(left)
        try:
            piece = connection.recv(min(missing, 1 << 16))
        except TimeoutError as reason:
            raise malformed("a message did not arrive in time") from reason
        except OSError as reason:
            raise _gone(reason) from reason
        if not piece:
            if may_end and not pieces:
                return b""
            raise malformed("a message is cut short", f"{missing} of {count} bytes are missing")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _gone(reason: OSError) -> FarmError:
    return FarmError(
        Code.SIGNER_UNREACHABLE, "the connection broke", reason.strerror or str(reason), "Run the command again."
    )


def malformed(what: str, why: str = "") -> FarmError:
    """The error SIGNER_PROTOCOL about a message that is none of ours."""
    advice = "Use a signer and a farm of one version: end the signer, then run the command again."
    return FarmError(Code.SIGNER_PROTOCOL, what, why, advice)
