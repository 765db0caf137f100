"""Which builds are still there: each holds a lock that the kernel drops when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.ledger.ledger import Ledger
from farm.ledger.rules import BuildState, Reason
from kernelfarm import files


@contextmanager
def holding(folder: Path, number: int) -> Iterator[None]:
    """Be the build `number` for the time of the block; `folder` is the farm's folder for locks."""
    path = _lock(folder, number)
    with files.coded("a build could not be marked as running", path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def is_alive(folder: Path, number: int) -> bool:
    """Whether a process is the build `number` now."""
    try:
        handle = os.open(_lock(folder, number), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def bury(ledger: Ledger, folder: Path) -> list[int]:
    """Close the builds of this folder whose process is gone as interrupted, and let go of their runs; their numbers.

    Builds that were begun elsewhere (another host, another state folder with the same ledger) are left alone.
    """
    own = ("", place(folder))  # the first: a farm that did not record it yet
    dead = [row.id for row in ledger.builds.running() if row.place in own and not is_alive(folder, row.id)]
    for number in dead:
        let_go(ledger, number, BuildState.INTERRUPTED)
        _lock(folder, number).unlink(missing_ok=True)
    return dead


def let_go(ledger: Ledger, number: int, state: BuildState) -> None:
    """Close a build that was broken off, and cancel its runs that no other build wants."""
    ledger.runs.cancel(ledger.builds.close(number, state), Reason.UNWANTED)


def place(folder: Path) -> str:
    """How the ledger names the farm's folder for locks on this host: the same text in every locale."""
    return f"{socket.gethostname()}:{os.fsencode(folder).decode('utf-8', 'backslashreplace')}"


def _lock(folder: Path, number: int) -> Path:
    return folder / f"build-{number}.lock"
