"""A sandbox of each kind around a small image, for tests that run hostile programs in it in place of the compiler."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from containers import bubblewrap
from containers.bubblewrap import BubblewrapRunner
from containers.runner import Limits
from kernelfarm import canonical, files
from kernelfarm.errors import FarmError
from tests.support import payloads, services
from tests.support.small_image import SmallImage, small_image

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
SMALL = Limits(
    cpu_s=20,
    wall_s=30.0,
    address_space=512 << 20,
    file_size=64 << 20,
    processes=64,
    output=96 << 20,
    temporary=32 << 20,
)
PREPARE = """
import errno, json, os, pathlib, shutil, sys
def attempt(act):
    'The name of the error that an attack met, "" when it went through.'
    try:
        act()
    except OSError as reason:
        return errno.errorcode.get(reason.errno, str(reason))
    return ""
"""
GOOD = 'shutil.copytree("in/good", "out", dirs_exist_ok=True)\n'
"""What a compile that means well leaves."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A runner that takes any Python program in place of the compiler. `home` is where scratch folders lie."""

    name: str
    runner: Any
    home: Path

    def run(self, script: str, *, limits: Limits = SMALL, look: Callable[[Path], None] | None = None) -> str:
        """Run a program that is to succeed as a compile; its log."""
        log, error = self.attack(script, limits=limits, look=look)
        if error is not None:
            raise AssertionError(f"{error}\n{log}") from error
        return log

    def refused(self, script: str, *, limits: Limits = SMALL) -> FarmError:
        """The error of a program that is to fail as a compile."""
        log, error = self.attack(script, limits=limits)
        assert error is not None, log
        return error

    def answers(self, script: str) -> Any:
        """What a program prints as JSON in its last line but that of the sandbox; it need not be a compile."""
        log, _error = self.attack(script)
        lines = [line for line in log.splitlines() if line.strip() and not line.startswith('{"max_rss_bytes"')]
        assert lines, "it printed nothing"
        try:
            return json.loads(lines[-1])
        except ValueError:
            raise AssertionError(log) from None

    def attack(
        self, script: str, *, limits: Limits = SMALL, look: Callable[[Path], None] | None = None
    ) -> tuple[str, FarmError | None]:
        """The log of a program, and the error of its compile."""
        program = (self.runner.image.python, "-s", "-P", "-c", PREPARE + textwrap.dedent(script))
        with files.temp_folder(self.home) as scratch:
            fill(scratch / "in")
            error: FarmError | None = None
            try:
                replace(self.runner, program=program).compile_in(scratch, log_path=scratch / "log", limits=limits)
            except FarmError as caught:
                error = caught
            if look is not None:
                look(scratch)
            return (scratch / "log").read_text(errors="replace"), error


def fill(folder: Path) -> None:
    """The input of a compile."""
    folder.mkdir()
    request = {"model": "model.onnx", "model_name": "cls", "target": {"name": "x86-64-v3"}}
    (folder / "request.json").write_bytes(canonical.dumps(request))
    (folder / "model.onnx").write_bytes(b"a model")
    (folder / "good").mkdir()
    payloads.write_result(folder, folder / "good")


def image() -> SmallImage:
    """The small image, made once."""
    BUILD.mkdir(exist_ok=True)
    return small_image(BUILD)


@contextmanager
def bubblewrap_sandbox(home: Path) -> Iterator[Sandbox]:
    """One of bubblewrap; the test is skipped with a reason where that does not work, under CI it fails."""
    services.program(bubblewrap.PROGRAM, "bubblewrap")
    runner = BubblewrapRunner(image(), ROOT / "kernelfarm")
    with files.temp_folder(home) as scratch:
        try:
            bubblewrap.require_ready(runner, scratch)
        except FarmError as reason:
            services.missing(str(reason))
    yield Sandbox(bubblewrap.NAME, runner, home)


@pytest.fixture(params=["docker", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    """Each kind in turn."""
    home = tmp_path / "home"
    home.mkdir()
    if request.param == "bubblewrap":
        with bubblewrap_sandbox(home) as made:
            yield made
        return
    from containers.docker import DockerRunner

    engine = request.getfixturevalue("docker_engine")
    yield Sandbox("docker", DockerRunner(image(), ROOT / "kernelfarm", home, engine.address), home)
    assert engine.containers() == []
