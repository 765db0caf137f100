"""Engines with threads on every other machine: the same bytes, every thread woken, children, many engines at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import device, emulated
from toolchains.target import Target


@pytest.fixture(params=emulated.NAMES)
def goal(request: pytest.FixtureRequest) -> Target:
    return emulated.load(request.param)


def status(goal: Target, program: str, *arguments: str | Path) -> int:
    answer = emulated.run(goal, device.program(program, goal=goal), *arguments)
    return emulated.status(answer)


@pytest.mark.parametrize(
    "arguments", [("steady", "3", "500"), ("sleepy", "5", "100"), ("meet", "3", "200")], ids=lambda words: words[0]
)
def test_tiny_jobs_are_computed_once_and_every_thread_is_woken(goal: Target, arguments: tuple[str, ...]) -> None:
    assert status(goal, "pool", *arguments) == 0


@pytest.mark.parametrize("mode", ["limits", "fork", "hosts"])
def test_engines_with_threads_hold_their_promises(goal: Target, mode: str, tmp_path: Path) -> None:
    assert status(goal, "threads", mode, device.write(tmp_path / "bundle", device.large(goal))) == 0


@pytest.mark.parametrize("words", [("same",), ("churn", "60")], ids=lambda words: words[0])
def test_many_engines_one_after_the_other_answer_alike_and_leave_nothing(
    goal: Target, words: tuple[str, ...], tmp_path: Path
) -> None:
    mode, *engines = words
    assert status(goal, "threads", mode, device.write(tmp_path / "bundle", device.tiny(goal)), *engines) == 0


def test_media_run_gives_the_same_bytes_with_three_threads(goal: Target, tmp_path: Path) -> None:
    bundle = device.write(tmp_path / "bundle", device.large(goal))
    x, y = tmp_path / "x.bin", tmp_path / "y.bin"
    x.write_bytes(device.ramp(64 * device.N, 1.0))
    program = device.runtime(goal) / "media-run"

    for count in ("1", "3"):
        answer = emulated.run(goal, program, bundle, "--input", f"x={x}", "--output", f"y={y}", "--threads", count)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert y.read_bytes() == device.ramp(64 * device.N, 2.5)
