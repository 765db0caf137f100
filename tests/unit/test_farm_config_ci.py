"""What CI means: the same for the farm, the tests that need an emulator, and the Makefile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from farm import config
from tests.support import emulated
from toolchains import emulator
from toolchains.emulator import Kind, Runner

ROOT = Path(__file__).resolve().parents[2]
VALUES = [("1", True), ("true", True), ("True", True), ("yes", True), ("", False), ("0", False), ("false", False)]


@pytest.mark.parametrize(("value", "ci"), VALUES)
def test_the_farm_reads_ci(value: str, ci: bool, tmp_path: Path) -> None:
    assert config.load({"CI": value, "FARM_HOME": str(tmp_path)}).ci is ci


@pytest.mark.parametrize(("value", "ci"), VALUES)
def test_a_test_without_its_emulator_fails_under_ci_alone(
    value: str, ci: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator, "emulated", lambda _: Runner((), Kind.UNAVAILABLE, "qemu is missing"))
    monkeypatch.setenv("CI", value)

    with pytest.raises(pytest.fail.Exception if ci else pytest.skip.Exception):
        emulated.prefix(emulated.load("aarch64"))


@pytest.mark.parametrize(("value", "ci"), VALUES)
def test_make_goes_on_without_tools_but_under_ci(value: str, ci: bool) -> None:
    command = ["make", "--no-print-directory", "PYTHON=/bin/false", "tools-if-possible"]

    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "CI": value}, capture_output=True, check=False)

    assert (done.returncode != 0) is ci
