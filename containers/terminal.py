"""A person's terminal joined to a program behind a socket, byte by byte, until the program ends."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import termios
import tty
from collections.abc import Callable, Iterable, Iterator

_CHUNK = 1 << 16


@contextlib.contextmanager
def raw() -> Iterator[None]:
    """Every key goes to the program, also ctrl-C; the terminal is as before afterwards. Nothing without a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def resizing(tell: Callable[[int, int], None]) -> Iterator[None]:
    """`tell` gets (rows, columns) now and whenever the terminal's size changes."""

    def changed(*_: object) -> None:
        size = shutil.get_terminal_size()
        tell(size.lines, size.columns)

    before = signal.signal(signal.SIGWINCH, changed)
    try:
        changed()
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def join(line: socket.socket, parts: Callable[[bytes], Iterable[tuple[int, bytes]]]) -> None:
    """Bring standard input to the socket and what it says to the standard streams, until it ends.

    `parts` tells which bytes are for which descriptor.
    """
    watched: list[socket.socket | int] = [line, 0]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if 0 in ready:
            data = os.read(0, _CHUNK)
            if data:
                line.sendall(data)
            else:
                watched.remove(0)
                line.shutdown(socket.SHUT_WR)
        if line in ready:
            data = line.recv(_CHUNK)
            if not data:
                return
            for handle, part in parts(data):
                os.write(handle, part)
