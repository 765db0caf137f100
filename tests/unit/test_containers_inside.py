"""The first process of a sandbox: what it ends with is its own word, which no compile can say for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from containers import _inside


def run(script: str, *, compiling: bool) -> subprocess.CompletedProcess[str]:
    """A program under `_inside.py`, though outside any sandbox."""
    spec = {
        "argv": [sys.executable, "-I", "-S", "-c", script],
        "limits": {},
        "filter": "",
        "report": compiling,
        "silence_s": 0,
        "wall_s": 600,
    }
    argv = [sys.executable, "-I", "-S", str(Path(_inside.__file__)), json.dumps(spec)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("status", "told"), [(0, 0), (1, 1), (3, 3), (96, 96), (97, 1), (127, 1), (137, 1), (169, 1), (255, 1)]
)
def test_a_compile_cannot_give_itself_a_status_of_the_sandboxs(status: int, told: int) -> None:
    ended = run(f"import os; os._exit({status})", compiling=True)
    assert ended.returncode == told
    assert (f"the program's status {status} counts as 1" in ended.stderr) == (status != told)


@pytest.mark.parametrize(("number", "compile", "person"), [(9, 160 + 9, 128 + 9), (24, 160 + 24, 128 + 24)])
def test_a_signal_is_told_apart_from_one_that_ended_the_sandbox(number: int, compile: int, person: int) -> None:
    script = f"import os; os.kill(os.getpid(), {number})"
    assert run(script, compiling=True).returncode == compile
    assert run(script, compiling=False).returncode == person


@pytest.mark.parametrize("status", [97, 130, 255])
def test_a_persons_program_may_end_with_any_status(status: int) -> None:
    assert run(f"import os; os._exit({status})", compiling=False).returncode == status
