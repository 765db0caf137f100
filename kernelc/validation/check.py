"""Every operation of a program whose kernel was just compiled: run on seeded operands, compared with its meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelc.graph import Graph, Group
from kernelc.layout.buffer import Buffer
from kernelc.layout.packing import packed
from kernelc.layout.segments import Use
from kernelc.lowering.groups import Lowered, port_buffer
from kernelc.lowering.operands import Operand, PortOperand, ValueOperand
from kernelc.lowering.program import Program
from kernelc.numerics import seeded
from kernelc.validation.images import from_image, pack, to_image, unpack
from kernelc.validation.machine import Argument, CrashedError, Machine, OutsideError
from kernelc.validation.meaning import Meaning, meaning
from kernelfarm.errors import Code, FarmError
from toolchains.target import Target

Array = NDArray[Any]

_RANGE = np.float32(4)
"""Operands are uniform in [-4, 4): beyond the bounds of every activation that has some."""


def validate(
    program: Program,
    objects: Mapping[str, Path],
    host: Target,
    folder: Path,
    done: Callable[[int, int, str], None],
) -> None:
    """Run every operation of `program` whose kernel is in `objects` (compiled for `host`, by symbol) and compare.

    `folder` is made for it; done(n, of, name) hears of each operation. Raises `FarmError` KERNEL_WRONG.
    """
    waiting = [(number, op) for number, op in enumerate(program.ops) if op.kernel.symbol in objects]
    if not waiting:
        return
    named = {group.name: group for group in program.groups}
    with Machine(dict(objects), host, folder) as machine:
        for count, (number, op) in enumerate(waiting, 1):
            _Trial(program, named.get(op.name), op, number).run(machine)
            done(count, len(waiting), op.name)


@dataclass(frozen=True)
class _Trial:
    """One operation, the `number`-th of its program; `group` is None for a copy of a graph's input or output."""

    program: Program
    group: Group | None
    op: Lowered
    number: int

    @property
    def _graph(self) -> Graph:
        return self.program.graph

    def run(self, machine: Machine) -> None:
        """Raise `FarmError` KERNEL_WRONG unless the kernel answers what it should, everywhere and nothing else."""
        *reads, result = self.op.operands
        size = self._buffer(result).bytes
        arguments = [Argument(len(data), data, _is_port(operand)) for operand, data in self._given(reads)]
        arguments.append(Argument(size, None, _is_port(result)))
        try:
            found = machine.call(self.op.kernel.symbol, arguments, _thirds(self.op.kernel.parts))
        except (CrashedError, OutsideError) as reason:
            raise self._wrong(str(reason)) from reason
        self._compare(found, result)

    def _given(self, reads: Iterable[Operand]) -> Iterable[tuple[Operand, bytes]]:
        for operand in reads:
            if isinstance(operand, Use):
                yield operand, packed(operand.weight, operand.packing)
            else:
                yield operand, pack(self._drawn[self._memory(operand)], self._buffer(operand))

    @cached_property
    def _drawn(self) -> dict[str, Array]:
        """[C, H, W] of each value in memory that the operation reads, by the name of the value whose memory it is."""
        reads = [self._memory(operand) for operand in self.op.operands[:-1] if not isinstance(operand, Use)]
        drawn = {}
        for index, name in enumerate(dict.fromkeys(reads)):
            buffer = self.program.layout.buffers[name]
            shape = (buffer.channels, buffer.height, buffer.width)
            numbers = seeded.uniform(self.number << 32 | index, int(np.prod(shape)))
            drawn[name] = (numbers * _RANGE).reshape(shape)
        return drawn

    def _memory(self, operand: ValueOperand | PortOperand) -> str:
        """The value in an operand's memory."""
        if isinstance(operand, ValueOperand):
            return operand.name
        ports = self._graph.inputs if operand.direction == "input" else self._graph.outputs
        return self.program.layout.roots[ports[operand.number].tensor]

    def _buffer(self, operand: Operand) -> Buffer:
        """The memory of a value or of a graph's input or output."""
        assert not isinstance(operand, Use)
        if isinstance(operand, ValueOperand):
            return self.program.layout.buffers[operand.name]
        return port_buffer(self._graph, operand)

    def _compare(self, data: bytes, result: Operand) -> None:
        image, halo = unpack(data, self._buffer(result))
        if halo.any():
            raise self._wrong("a column of padding is not zero")
        wanted = self._expected()
        value = wanted.value.astype(np.float32)  # beyond its range it is infinite, as the kernel's answer is
        same = (image == value) | (np.isnan(image) & np.isnan(value))
        with np.errstate(invalid="ignore"):
            near = np.abs(image - wanted.value) <= wanted.slack
        bad = ~(same | near | (wanted.slack == inf))
        if bad.any():
            raise self._differs(image, wanted, bad)

    def _expected(self) -> Meaning:
        """What must be in the result's memory, as [C, H, W]."""
        if self.group is None or self.op.kind == "layout_cast":
            (image,) = self._drawn.values()
            return Meaning(image.astype(np.float64), np.zeros(image.shape))
        roots, tensors, weights = self.program.layout.roots, self._graph.tensors, self._graph.weights
        operands = {
            name: weights[name].array if name in weights else from_image(self._drawn[roots[name]], tensors[name])
            for name in self.group.inputs
        }
        found, tensor = meaning(self.group.nodes, operands), tensors[self.group.output]
        return Meaning(to_image(found.value, tensor), to_image(found.slack, tensor))

    def _differs(self, image: Array, wanted: Meaning, bad: Array) -> FarmError:
        excess = np.where(bad, np.nan_to_num(np.abs(image - wanted.value) - wanted.slack, nan=inf), -inf)
        place = np.unravel_index(int(np.argmax(excess)), bad.shape)
        channel, row, column = (int(index) for index in place)
        why = (
            f"{int(bad.sum())} of {bad.size} elements, as channel {channel}, row {row}, column {column}: it answers "
            f"{image[place]:g} for {wanted.value[place]:g}, and may be off by {wanted.slack[place]:.2g}"
        )
        return self._wrong(why)

    def _wrong(self, why: str) -> FarmError:
        ops = [self.op.kind] if self.group is None else [node.op for node in self.group.nodes]
        return FarmError(
            Code.KERNEL_WRONG,
            f"the kernel of {self.op.name} ({' + '.join(ops)}) does not compute what it should",
            why,
            "This is a defect of the compiler: report it with the replay command.",
            {"group": self.op.name, "kernel": self.op.kernel.symbol, "tile": self.op.kernel.tile},
        )


def _is_port(operand: Operand) -> bool:
    return isinstance(operand, PortOperand)


def _thirds(parts: int) -> list[tuple[int, int]]:
    """Ranges that cover [0, parts), the middle first: no kernel may depend on how the runtime cuts them."""
    first, last = parts // 3, parts - parts // 4
    return [(first, last), (0, first), (last, parts)]
