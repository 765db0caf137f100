"""A call through a pointer of a wrong type never reaches its callee, on any machine; the good call works on all."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support import device, emulated
from toolchains.machines import CFI_FAIL, MACHINES
from toolchains.target import Target

ALL = (*emulated.NAMES, "x86-64-v3")
TRAPS = {"aarch64": 133, "armv7": 132, "hexagon": 86, "riscv64": 133, "x86-64": 132}
"""Exit statuses as documented: SIGTRAP, SIGILL, and the runtime's own status where a trap would not end a program."""
SEGMENTATION = 139


@pytest.fixture(params=ALL)
def goal(request: pytest.FixtureRequest) -> Target:
    return emulated.load(request.param)


def call(goal: Target, program: Path, *arguments: str | Path) -> tuple[int, str]:
    """Exit status and output; on this machine natively."""
    answer = device.run(program, *arguments) if goal.machine == "x86-64" else emulated.run(goal, program, *arguments)
    return emulated.status(answer), answer.stdout


def test_the_statuses_are_those_of_the_machines() -> None:
    assert {name: machine.trap for name, machine in MACHINES.items()} == TRAPS
    assert CFI_FAIL == 86


def test_a_call_into_the_dispatcher(goal: Target) -> None:
    program = device.program("bad_call", goal=goal)

    assert call(goal, program, "good") == (0, "ran\n")
    for mode in ("other-type", "returns", "small-integers", "middle", "data"):
        assert call(goal, program, mode) == (TRAPS[goal.machine], ""), mode
    for mode in ("forged", "null"):
        assert call(goal, program, mode) == (SEGMENTATION, ""), mode


@cache
def kernel_object(goal: Target) -> Path:
    folder = device.program("bad_object", goal=goal).parent
    device.kernels(folder, goal=goal, source="tests/bad_kernel.c")
    return folder / "kernels.so"


def test_a_call_across_the_shared_object(goal: Target) -> None:
    program, linked = device.program("bad_object", goal=goal), kernel_object(goal)

    assert call(goal, program, linked, "good") == (0, "ran\n")
    for mode in ("other-type", "returns", "middle", "table"):
        assert call(goal, program, linked, mode) == (TRAPS[goal.machine], ""), mode


def test_the_processor_stops_an_unchecked_call_beside_a_landing_pad_where_it_can() -> None:
    goal = emulated.load("aarch64")
    program, linked = device.program("bad_object", goal=goal), kernel_object(goal)
    with_bti, without = "max", goal.run.cpu

    def unchecked(cpu: str, mode: str) -> tuple[int, str]:
        answer = emulated.run(goal, program, linked, mode, cpu=cpu)
        return emulated.status(answer), answer.stdout

    assert unchecked(with_bti, "unchecked") == (0, "ran\n")
    assert unchecked(with_bti, "unchecked-middle") == (132, "")
    assert unchecked(without, "unchecked-middle") == (0, "ran\n")


def test_a_call_in_a_thread_of_an_engine(goal: Target) -> None:
    program = device.program("pool", goal=goal)

    assert call(goal, program, "good") == (0, "ran\n")
    assert call(goal, program, "other-type") == (TRAPS[goal.machine], "")
