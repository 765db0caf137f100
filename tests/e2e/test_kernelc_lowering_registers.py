"""The linked code: hot loops use the target's widest registers, hold no scalar arithmetic, and spill nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kernelc.graph import Graph
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import compile_graph, disassembly

REGISTERS = {"x86-64-v3": "ymm", "x86-64-v4": "zmm"}
"""Built for both, run for none: this needs no processor of that kind."""


def convolutions() -> Graph:
    """Dense 3x3 with full and partial channel blocks, long pointwise reduction, depthwise 5x5, transposed 2x2."""
    make = Maker()
    x = make.node("relu", make.conv(make.input(1, 20, 12, 48), 64, 3, pads=(1, 1, 1, 1)))
    x = make.node("hard_swish", make.conv(x, 96, 1))
    x = make.conv(x, 96, 5, pads=(2, 2, 2, 2), group=96)
    return make.finish(make.conv_transpose(x, 32, 2))


def loops(text: str) -> Iterator[list[str]]:
    """Innermost loops: from the target of a backward jump to the jump, without another jump back inside."""
    lines = [match.groups() for match in re.finditer(r"^\s*([0-9a-f]+):\s+(.*)$", text, re.MULTILINE)]
    places = {int(address, 16): index for index, (address, _) in enumerate(lines)}
    found = []
    for index, (address, instruction) in enumerate(lines):
        jump = re.match(r"j[a-z]+\s+0x([0-9a-f]+)", instruction)
        if jump and int(jump.group(1), 16) <= int(address, 16) and int(jump.group(1), 16) in places:
            found.append((places[int(jump.group(1), 16)], index))
    for start, end in found:
        if not any(start <= other and last < end for other, last in found if (other, last) != (start, end)):
            yield [instruction for _, instruction in lines[start : end + 1]]


@pytest.fixture(scope="module", params=sorted(REGISTERS))
def code(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Name of the target, text of its code."""
    compiled = compile_graph(convolutions(), request.param, tmp_path_factory.mktemp(request.param))
    return request.param, disassembly(compiled.library)


def test_hot_loops_multiply_and_add_in_full_width_registers(code: tuple[str, str]) -> None:
    name, text = code
    hot = [loop for loop in loops(text) if any("vfmadd" in line for line in loop)]

    assert len(hot) >= 4
    for loop in hot:
        for line in loop:
            if "vfmadd" in line:
                assert f"%{REGISTERS[name]}" in line, line


def test_accumulators_never_leave_the_registers_in_hot_loops(code: tuple[str, str]) -> None:
    _, text = code
    for loop in loops(text):
        if any("vfmadd" in line for line in loop):
            stores = [line for line in loop if re.match(r"vmov\w+\s+%[xyz]mm\d+, .*\(", line)]
            reloads = [line for line in loop if "(%rsp" in line and re.search(r"%[xyz]mm", line)]
            assert stores == []
            assert reloads == []


def test_nothing_is_multiplied_and_added_one_number_at_a_time(code: tuple[str, str]) -> None:
    _, text = code

    assert not re.search(r"vfmadd\w+ss", text)
    assert not re.search(r"v(mul|add|sub|div)ss", text)
