"""Compiled graphs on other machines: runtime, loader and kernels in qemu, through memory that shows mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernelc import fusion
from kernelc.graph import Graph
from kernelc.lowering.program import Program, build_program
from tests.support import device, emulated, kernel_runs
from tests.support.device import Tiny
from toolchains import disasm, emulator
from toolchains.machines import MACHINES
from toolchains.process import run_tool
from toolchains.target import Target

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Built:
    """A program for a machine: its kernel object, and the bundle that the runtime loads."""

    program: Program
    goal: Target
    library: Path
    bundle: Path

    def run(self, inputs: Sequence[npt.ArrayLike], partitions: int = 1, threads: int = 1) -> list[Array]:
        """Outputs of an inference by runtime/tests/shifted.c, every operation cut into `partitions` ranges at least."""
        given, made = self.bundle / "in.bin", self.bundle / "out.bin"
        given.write_bytes(b"".join(np.ascontiguousarray(value, "<f4").tobytes() for value in inputs))
        program, numbers = device.program("shifted", goal=self.goal), (str(partitions), str(threads))
        answer = emulated.run(self.goal, program, self.bundle, given, made, *numbers)
        assert answer.returncode == 0, f"status {emulated.status(answer)}: {answer.stderr}"
        graph = self.program.graph
        shapes = [graph.tensors[port.tensor].static_shape for port in graph.outputs]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        flat = np.fromfile(made, "<f4")
        assert flat.size == ends[-1]
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]

    def disassembly(self) -> str:
        """Text of llvm-objdump, without what the target's processor lacks."""
        machine = MACHINES[self.goal.machine]
        argv = [str(disasm.objdump_path(self.goal.machine)), "-d", "--no-show-raw-insn", *machine.objdump]
        return run_tool(
            [*argv, self.library.name],
            cwd=self.library.parent,
            extra_env=emulator.libraries(),
            what="disassembling",
        )


def build(graph: Graph, goal: Target, folder: Path) -> Built:
    """The graph compiled for a target."""
    return of_program(build_program(graph, fusion.group(graph).groups, goal), goal, folder)


def of_program(program: Program, goal: Target, folder: Path) -> Built:
    """A program linked and bundled."""
    library = kernel_runs.link(program, goal, folder / "objects")
    payload = Tiny(library.read_bytes(), program.weights.data, machine=MACHINES[goal.machine].elf_machine)
    return Built(program, goal, library, device.write(folder / "bundle", payload))
