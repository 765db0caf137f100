"""The worker processes of a host behind a gate: what its signals do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.gate import host
from kernelfarm.errors import Status

PROCESS = """
import pathlib, signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
pathlib.Path(sys.argv[1], "up").touch()
while len(told) < int(sys.argv[2]):
    time.sleep(0.01)
"""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """A crew takes the signals of its process; they are given back."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def crew(folder: Path, *, ends_after: int) -> host._Crew:
    """A crew of one process that ends with its signal number `ends_after`."""
    return host._Crew([sys.executable, "-c", PROCESS, str(folder), str(ends_after)], 1)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("signals", [1, 2])
def test_signals_while_a_process_is_started_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: int
) -> None:
    real = subprocess.Popen

    def interrupted(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        made = real(*arguments, **named)
        while not (tmp_path / "up").exists():  # it can hear signals
            assert made.poll() is None
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGTERM)
        return made

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    assert crew(tmp_path, ends_after=signals).run() == Status.DONE


def test_a_process_that_is_refused_ends_the_others_and_gives_its_status(tmp_path: Path) -> None:
    # One of two works until it is told to end, the other is refused
    begin = """
import pathlib, sys
try:
    pathlib.Path(sys.argv[1], "first").touch(exist_ok=False)
except FileExistsError:
    sys.exit(4)
"""
    assert host._Crew([sys.executable, "-c", begin + PROCESS, str(tmp_path), "1"], 2).run() == Status.REFUSED
