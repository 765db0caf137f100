"""The linked code of other machines: hot loops use whole vectors, hold no single numbers, and spill nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.test_kernelc_lowering_registers import convolutions
from tests.support import emulated, emulated_kernels


@dataclass(frozen=True, slots=True)
class Code:
    """Patterns of llvm-objdump's text.

    `multiply` is a multiply-add of whole vectors, `single` arithmetic on one number, `spill` a vector that goes to the
    stack or comes from it; `width` must stand before the loops where the width is a state of the processor.
    """

    multiply: str
    single: str
    spill: str
    width: str = ""


MACHINES = {
    "aarch64": Code(
        multiply=r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.(4s|s\[\d\])",
        single=r"f(madd|mul|add|sub)\s+s\d+|fmla\s+v\d+\.2s",
        spill=r"(ld|st)[rp]\s+[qs]\d+.*\[sp",
    ),
    "armv7": Code(
        multiply=r"vmla\.f32\s+q\d+, q\d+, (q\d+|d\d+\[\d\])",
        single=r"v(mla|mul|add|sub)\.f32\s+s\d+|vmla\.f32\s+d\d+",
        spill=r"v(ld|st)mia\s+\S+, \{d|v(ld|st)1\.\d+\s.*\[sp",
    ),
    "riscv64": Code(
        multiply=r"vfmacc\.v[fv]\s+v\d+, f?[a-z]+\d+, v\d+",
        single=r"f(madd|mul|add|sub)\.s\s",
        spill=r"vs\d+r\.v|vl\d+re\d+\.v|csrr\s+\w+, vlenb",
        width=r"vsetivli\s+zero, 0x4, e32, m1",
    ),
}


def loops(text: str) -> Iterator[list[str]]:
    """Innermost loops: from the target of a backward jump to the jump, without another jump back inside."""
    lines = [match.groups() for match in re.finditer(r"^\s*([0-9a-f]+):\s+(.*)$", text, re.MULTILINE)]
    places = {int(address, 16): index for index, (address, _) in enumerate(lines)}
    found = []
    for index, (address, instruction) in enumerate(lines):
        jump = re.match(r"(?:b|j|cb|tb)[a-z.]*\s+(?:.*?, )?0x([0-9a-f]+) <", instruction)
        if jump and int(jump[1], 16) <= int(address, 16) and int(jump[1], 16) in places:
            found.append((places[int(jump[1], 16)], index))
    for start, end in found:
        if not any(start <= other and last < end for other, last in found if (other, last) != (start, end)):
            yield [instruction for _, instruction in lines[start : end + 1]]


@pytest.fixture(scope="module", params=sorted(MACHINES))
def text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Code, str]:
    """What the code must look like, and its text."""
    goal = emulated.load(request.param)
    built = emulated_kernels.build(convolutions(), goal, tmp_path_factory.mktemp(goal.name))
    return MACHINES[goal.name], built.disassembly()


def hot(code: Code, listing: str) -> list[list[str]]:
    """The loops of dense and depthwise convolutions: at least one for each kind of channel block and operator."""
    found = [loop for loop in loops(listing) if sum(bool(re.match(code.multiply, line)) for line in loop) >= 8]
    assert len(found) >= 4
    return found


def test_hot_loops_multiply_and_add_whole_vectors_and_nothing_else(text: tuple[Code, str]) -> None:
    code, listing = text

    for loop in hot(code, listing):
        assert [line for line in loop if re.match(code.single, line)] == []
        assert [line for line in loop if "vset" in line] == []
    assert re.search(code.width, listing)


def test_accumulators_never_leave_the_registers_in_hot_loops(text: tuple[Code, str]) -> None:
    code, listing = text

    for loop in hot(code, listing):
        assert [line for line in loop if re.match(code.spill, line)] == []
