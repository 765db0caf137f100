"""Frames between farm and signer: limited in size and time, and canonical."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from kernelfarm.errors import Code, FarmError
from signing import protocol

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def received(pair: Pair, data: bytes, *, seconds: float = 5.0) -> FarmError:
    near, far = pair
    near.sendall(data)
    near.shutdown(socket.SHUT_WR)
    with pytest.raises(FarmError) as caught:
        protocol.receive(far, seconds=seconds)
    return caught.value


def test_a_message_arrives_as_it_was_sent(pair: Pair) -> None:
    protocol.send(pair[0], {"b": [1, None], "a": "ü"}, seconds=5)

    assert protocol.receive(pair[1], seconds=5) == {"a": "ü", "b": [1, None]}


def test_a_frame_is_a_length_and_canonical_json(pair: Pair) -> None:
    protocol.send(pair[0], {"a": 1}, seconds=5)

    assert pair[1].recv(100) == b'\x00\x00\x00\x07{"a":1}'


def test_a_peer_that_leaves_between_messages_is_no_error(pair: Pair) -> None:
    pair[0].close()

    assert protocol.receive(pair[1], seconds=5) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\x00\x00\x00\x07{}",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        (protocol.LARGEST + 1).to_bytes(4, "big"),
        b"GET / HTTP/1.1\r\n\r\n",
        b'\x00\x00\x00\x08{"a": 1}',
        b'\x00\x00\x00\x0d{"a":1,"a":2}',
        b"\x00\x00\x00\x03NaN",
        b"\x00\x00\x00\x04null",
        b"\x00\x00\x00\x02[]",
        b"\x00\x00\x00\x03\xff\xff\xff",
        b"\x00\x01\x00\x00" + b"[" * 65536,
    ],
)
def test_what_is_no_frame_is_a_coded_error(pair: Pair, data: bytes) -> None:
    assert received(pair, data).code is Code.SIGNER_PROTOCOL


def test_what_follows_a_good_message_is_read_as_strictly(pair: Pair) -> None:
    pair[0].sendall(b"\x00\x00\x00\x02{}")

    assert protocol.receive(pair[1], seconds=5) == {}
    assert received(pair, b"\x00").code is Code.SIGNER_PROTOCOL


def test_a_message_that_is_too_large_is_not_sent(pair: Pair) -> None:
    with pytest.raises(FarmError) as caught:
        protocol.send(pair[0], {"a": "x" * protocol.LARGEST}, seconds=5)

    assert caught.value.code is Code.SIGNER_PROTOCOL


def test_a_peer_that_drips_bytes_is_cut_off_in_time(pair: Pair) -> None:
    near, far = pair
    stop = threading.Event()

    def drip() -> None:
        near.sendall(b"\x00\x00\x01\x00")
        while not stop.wait(0.05):
            near.sendall(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    with pytest.raises(FarmError) as caught:
        protocol.receive(far, seconds=0.4)
    stop.set()
    thread.join()

    assert caught.value.code is Code.SIGNER_PROTOCOL


def test_a_peer_that_left_cannot_be_answered(pair: Pair) -> None:
    pair[1].close()

    with pytest.raises(FarmError) as caught:
        protocol.send(pair[0], {}, seconds=5)

    assert caught.value.code is Code.SIGNER_UNREACHABLE
