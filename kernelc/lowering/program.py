"""All kernels of a grouped graph in execution order, with their memory: what the entry table is written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelc.graph import Graph, Group
from kernelc.layout.arena import Arena, Lifetime, plan
from kernelc.layout.assign import Layout
from kernelc.layout.optimise import lay_out
from kernelc.layout.segments import Use, WeightsFile, weights_file
from kernelc.lowering.groups import Lowered, boundary_input, boundary_output, check_anchor, lower_group
from kernelc.lowering.kernel import Kernel
from kernelc.lowering.operands import Context, ValueOperand
from kernelc.schedule.cost import LEAST_LANES, Machine
from kernelfarm.errors import Code, FarmError
from toolchains.target import Target


@dataclass(frozen=True, slots=True)
class Program:
    """`ops` run in order; equal kernels share a function; `arena` and `weights` say where their operands lie.

    `graph` and `groups` have the casts that the layouts take.
    """

    graph: Graph
    groups: tuple[Group, ...]
    layout: Layout
    ops: tuple[Lowered, ...]
    arena: Arena
    weights: WeightsFile

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The distinct kernels by symbol, sorted."""
        found = {op.kernel.symbol: op.kernel for op in self.ops}
        return dict(sorted(found.items()))

    @property
    def flop(self) -> int:
        """Floating-point operations of one inference."""
        return sum(op.kernel.flop for op in self.ops)


def machine_of(target: Target) -> Machine:
    """What schedules need to know of a target."""
    vector = target.vector
    lanes = max(vector.f32_lanes, LEAST_LANES)
    split = lanes // vector.f32_lanes
    memory, registers = target.memory, vector.registers // split
    return Machine(
        lanes, registers, memory.l2_bytes, split, vector.fma_ports, vector.broadcast, memory.l1d_bytes
    )  # fmt: skip


def build_program(
    graph: Graph,
    groups: Sequence[Group],
    target: Target,
    machine: Machine | None = None,
    demands: Mapping[str, Sequence[int]] | None = None,
) -> Program:
    """Choose layouts, lower every group and plan the memory.

    `machine` stands for `machine_of(target)` where schedules are tried out; `demands` (as for `lay_out`) are for
    layouts that are tried out.

    Raises `FarmError` OPERATOR_NOT_LOWERED or LAYOUT_INFEASIBLE with the node or value.
    """
    for group in groups:
        check_anchor(graph, group)
    machine = machine or machine_of(target)
    _check_outputs(graph, groups)
    placed, layout, _ = lay_out(graph, groups, machine, demands)
    graph, groups = placed.graph, placed.groups
    context = Context(graph, layout)
    ops = [boundary_input(context, machine, number) for number in range(len(graph.inputs))]
    ops += [op for group in groups if (op := lower_group(context, machine, group)) is not None]
    ops += [boundary_output(context, machine, number) for number in range(len(graph.outputs))]
    uses = [operand for op in ops for operand in op.operands if isinstance(operand, Use)]
    arena, weights = plan(lifetimes(ops, layout)), weights_file(uses)
    _check_reach(target, max(arena.bytes, len(weights.data)))
    return Program(graph, groups, layout, tuple(ops), arena, weights)


def lifetimes(ops: Sequence[Lowered], layout: Layout) -> list[Lifetime]:
    """From the op that writes a value to the last one that reads it. Inclusive, so no op writes what it reads."""
    steps: dict[str, list[int]] = {}
    for step, op in enumerate(ops):
        for operand in op.operands:
            if isinstance(operand, ValueOperand):
                steps.setdefault(operand.name, []).append(step)
    return [Lifetime(name, layout.buffers[name].bytes, found[0], found[-1]) for name, found in steps.items()]


def _check_reach(target: Target, size: int) -> None:
    """Raise `FarmError` LAYOUT_INFEASIBLE for memory of `size` bytes that indices of the target do not reach."""
    if size >= 1 << (target.index_bits - 1):
        raise FarmError(
            Code.LAYOUT_INFEASIBLE,
            f"the model needs {size} bytes in one piece",
            f"{target.name} has indices of {target.index_bits} bits",
            "Build with a smaller --shape.",
            {"bytes": size, "target": target.name},
        )


def _check_outputs(graph: Graph, groups: Sequence[Group]) -> None:
    computed = {group.output for group in groups}
    for port in graph.outputs:
        if port.tensor not in computed | graph.input_tensors:
            raise FarmError(
                Code.LAYOUT_INFEASIBLE,
                f"the graph output {port.name!r} is a constant",
                "no operation computes it",
                "Remove the output from the model.",
                {"output": port.name},
            )
