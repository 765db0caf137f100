"""The machines that this one is not, in qemu's user mode."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from farm import config
from tests.support import device
from toolchains import emulator, target
from toolchains.emulator import Kind
from toolchains.target import Target

NAMES = ("aarch64", "armv7", "hexagon-v67", "riscv64")
"""Targets of machines other than x86-64, one per machine."""


def prefix(goal: Target) -> tuple[str, ...]:
    """The emulator's command line. Without one the test is not run; under CI that is a failure."""
    found = emulator.emulated(goal)
    if found.kind is Kind.UNAVAILABLE:
        if config.under_ci(os.environ):
            pytest.fail(found.reason)
        pytest.skip(found.reason)
    return found.argv_prefix


def run(goal: Target, program: Path, *arguments: str | Path, cpu: str = "") -> subprocess.CompletedProcess[str]:
    """A program's answer on the target's machine, on another `cpu` of it if one is named."""
    argv = [cpu if word == goal.run.cpu and cpu else word for word in prefix(goal)]
    return device.run(program, *arguments, prefix=argv, timeout_s=120)


def status(answer: subprocess.CompletedProcess[str]) -> int:
    """The exit status as a shell shows it: 128 and the signal for a program that a signal ended."""
    return 128 - answer.returncode if answer.returncode < 0 else answer.returncode


def load(name: str) -> Target:
    """The target, by its name."""
    return target.load(name)
