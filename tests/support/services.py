"""What the fixtures of real services share: programs that may be missing, private ports, waiting for an answer."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

HANG_S = 150.0
"""Seconds after which a test holds what it waits for to be hung, on the busiest machine; nothing has to be so slow."""


def program(name: str, package: str, *places: str) -> str:
    """The path of a program on PATH or in `places`; without it the test is skipped with a reason, under CI it fails."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *places]))
    if found is None:
        missing(f"{name} is not installed (Debian package {package})")
    return found


def missing(reason: str) -> NoReturn:
    """Skip a test for want of a service; under CI that is a failure."""
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(ready: Callable[[], bool], what: str, log: Path, *, within_s: float = HANG_S) -> None:
    """Wait for a service, on a busy machine too; fails with the end of its log when it does not answer in time."""
    end = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > end:
            tail = log.read_text(errors="replace")[-2000:] if log.exists() else "no log"
            raise AssertionError(f"{what} did not answer within {within_s} s: {tail}")
        time.sleep(0.05)
