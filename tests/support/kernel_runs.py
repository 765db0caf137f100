"""Compiled kernels run in this process through their entry table, with memory that shows mistakes.

The arena starts as NaN bytes, operands of the caller are aligned to four bytes only, and guard bytes lie around
everything that a kernel may write.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kernelc import fusion
from kernelc.graph import Graph
from kernelc.lowering.objects import build_objects
from kernelc.lowering.program import Program, build_program
from kernelc.lowering.table import table_source
from tests.support import plain_numpy
from tests.support.kernel_table import KernelTable, call
from toolchains import disasm, runtime_build, target, zig
from toolchains.target import Target

Array = npt.NDArray[np.float32]
Cut = Callable[[int], Iterable[tuple[int, int]]]
"""Ranges that cover [0, parts) of an operation, in the order in which they run."""

GUARD = 192
GUARD_BYTE = 0xA5
POISON_BYTE = 0xFF


def whole(parts: int) -> list[tuple[int, int]]:
    """One range."""
    return [(0, parts)]


def backwards(parts: int) -> list[tuple[int, int]]:
    """Single parts, last one first."""
    return [(part, part + 1) for part in reversed(range(parts))]


def thirds(parts: int) -> list[tuple[int, int]]:
    """Three uneven ranges, middle one first, with empty ones between."""
    a, b = parts // 3, parts - parts // 4
    return [(a, b), (a, a), (0, a), (parts, parts), (b, parts)]


def targets() -> list[Any]:
    """Both targets as parameters; x86-64-v4 is skipped where this processor cannot run it."""
    lacks = "" if "avx512vl" in _cpu_flags() else "this processor has no AVX-512: kernels for x86-64-v4 cannot run here"
    skip = pytest.mark.skipif(bool(lacks), reason=lacks or "never")
    return [pytest.param("x86-64-v3", id="v3"), pytest.param("x86-64-v4", id="v4", marks=skip)]


@cache
def _cpu_flags() -> frozenset[str]:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return frozenset(next(line for line in text.splitlines() if line.startswith("flags")).split())


class Memory:
    """Bytes for one operand or space, filled with a byte, with guards on both sides."""

    def __init__(self, size: int, fill: int, *, misaligned: int = 0) -> None:
        self._raw = np.full(size + 2 * GUARD + 128, GUARD_BYTE, np.uint8)
        start = GUARD + (-(self._raw.ctypes.data + GUARD)) % 64 + misaligned
        self.bytes = self._raw[start : start + size]
        self.bytes[:] = fill
        self._start, self._size = start, size

    @property
    def address(self) -> int:
        """Where the bytes start."""
        return int(self.bytes.ctypes.data)

    def check(self) -> None:
        """The guards are as they were."""
        before, after = self._raw[: self._start], self._raw[self._start + self._size :]
        assert (before == GUARD_BYTE).all() and (after == GUARD_BYTE).all(), "a kernel wrote outside its operand"


def compile_graph(graph: Graph, name: str, folder: Path) -> Compiled:
    """The graph compiled for the target `name`."""
    chosen = target.load(name)
    return Compiled(build_program(graph, fusion.group(graph).groups, chosen), chosen, folder)


class Compiled:
    """A linked program; `library` is the kernel object."""

    def __init__(self, program: Program, chosen: Target, folder: Path) -> None:
        self.program = program
        self.library = link(program, chosen, folder)
        self._table = KernelTable(self.library)

    def run(self, inputs: Sequence[npt.ArrayLike], cut: Cut = whole) -> list[Array]:
        """Outputs of one inference."""
        ports = self.program.graph
        given = [np.ascontiguousarray(value, np.float32) for value in inputs]
        ins = [Memory(value.nbytes, 0, misaligned=4) for value in given]
        for memory, value in zip(ins, given, strict=True):
            memory.bytes[:] = np.frombuffer(value.tobytes(), np.uint8)
        shapes = [ports.tensors[port.tensor].static_shape for port in ports.outputs]
        outs = [Memory(4 * int(np.prod(shape)), POISON_BYTE, misaligned=4) for shape in shapes]
        arena = Memory(self.program.arena.bytes, POISON_BYTE)
        weights = Memory(len(self.program.weights.data), 0)
        weights.bytes[:] = np.frombuffer(self.program.weights.data, np.uint8)
        places: dict[int, Sequence[Memory]] = {0: [arena], 1: [weights], 2: ins, 3: outs}
        for function, first, count, parts in self._table.ops:
            operands = self._table.operands[first : first + count]
            addresses = [places[space][index].address + offset for space, index, offset in operands]
            call(function, addresses, cut(parts))
        assert weights.bytes.tobytes() == self.program.weights.data, "a kernel wrote its weights"
        for memory in (arena, weights, *ins, *outs):
            memory.check()
        return [memory.bytes.copy().view(np.float32).reshape(shape) for memory, shape in zip(outs, shapes, strict=True)]


def link(program: Program, chosen: Target, folder: Path) -> Path:
    """kernels.so of a program, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    objects = build_objects(program.kernels, chosen, folder, jobs=2)
    table = folder / "table.c"
    table.write_text(table_source(program), encoding="utf-8")
    header = runtime_build.source_root() / "include" / "kf_abi.h"
    (folder / "kf_abi.h").write_bytes(header.read_bytes())
    zig.compile_c(table, table.with_suffix(".o"), chosen)
    output = folder / "kernels.so"
    zig.link_kernels([*(made.path for made in objects.values()), table.with_suffix(".o")], output, chosen)
    return output


def disassembly(path: Path) -> str:
    """Text of llvm-objdump."""
    command = [str(disasm.objdump_path()), "-d", "--no-show-raw-insn", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def drawn_inputs(graph: Graph) -> list[Array]:
    """Normal numbers for all inputs of a graph, the same each time."""
    draw = np.random.Generator(np.random.PCG64(7))
    inputs = [draw.standard_normal(graph.tensors[port.tensor].static_shape) for port in graph.inputs]
    return [value.astype(np.float32) for value in inputs]


def agree_however_cut(graph: Graph, name: str, folder: Path) -> None:
    """Compile and run a graph: the results are those of plain NumPy, and every cut gives equal bits."""
    inputs, compiled = drawn_inputs(graph), compile_graph(graph, name, folder)

    found = compiled.run(inputs)

    for got, wanted in zip(found, plain_numpy.evaluate(graph, list(inputs)), strict=True):
        agree(got, wanted)
    for cut in (backwards, thirds):
        assert [value.tobytes() for value in compiled.run(inputs, cut)] == [value.tobytes() for value in found]


def agree(found: Mapping[str, npt.ArrayLike] | npt.ArrayLike, expected: npt.ArrayLike) -> None:
    """|a - b| <= 1e-4 + 1e-3 |b| everywhere, no NaN."""
    got, wanted = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert got.shape == wanted.shape
    worst = np.abs(got - wanted) - (1e-4 + 1e-3 * np.abs(wanted))
    assert not np.isnan(got).any(), "NaN in the result"
    assert (worst <= 0).all(), f"off by {np.abs(got - wanted).max()}"
