"""What the kernels of a graph read and write, and how the other operands of element-wise nodes become steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from kernelc.graph import Graph, Node, Weight, channel_axis, spread
from kernelc.layout.assign import Layout
from kernelc.layout.buffer import Buffer
from kernelc.layout.geometry import image
from kernelc.layout.packing import Packing
from kernelc.layout.refuse import refused
from kernelc.layout.segments import Use
from kernelc.lowering.steps import BINARY, UNARY, Step


@dataclass(frozen=True, slots=True)
class ValueOperand:
    """A value in the arena, by the name of the value whose memory it is."""

    name: str


@dataclass(frozen=True, slots=True)
class PortOperand:
    """The caller's memory of the `number`-th graph input or output, plain NCHW."""

    direction: Literal["input", "output"]
    number: int


Operand = ValueOperand | Use | PortOperand


@dataclass(frozen=True, slots=True)
class Context:
    """A graph with its layout."""

    graph: Graph
    layout: Layout

    def buffer(self, name: str) -> Buffer:
        """Buffer of a value."""
        return self.layout.buffers[name]

    def value(self, name: str) -> ValueOperand:
        """Operand of a value."""
        return ValueOperand(self.layout.roots[name])


def epilogue_steps(
    context: Context, nodes: Sequence[Node], value: str, lanes: int
) -> tuple[tuple[Step, ...], list[Operand]]:
    """The steps of element-wise `nodes`, the first of which reads `value`, and the operands of those that have one.

    `lanes` are those of the group's result, and so of all that the steps read.
    """
    steps: list[Step] = []
    operands: list[Operand] = []
    made = {value: 0}
    for node in nodes:
        step, operand = step_of(context, node, value, lanes, made)
        steps.append(step)
        operands += [operand] if operand is not None else []
        value = node.outputs[0]
        made[value] = len(steps)
    return tuple(steps), operands


def step_of(
    context: Context, node: Node, value: str, lanes: int, made: Mapping[str, int] = MappingProxyType({})
) -> tuple[Step, Operand | None]:
    """One element-wise node on the running value `value`; `made` has the numbers of the values that are kept."""
    if node.op in UNARY:
        return Step(node.op, _numbers(node)), None
    if node.op not in BINARY or len(node.inputs) != 2 or value not in node.inputs:
        raise refused(node, "it is not an element-wise operation of the backend")
    swapped = node.inputs[0] != value
    other = node.inputs[0] if swapped else node.inputs[1]
    if other in made:
        return Step(node.op, swapped=swapped, kept=made[other]), None
    weight = context.graph.weights.get(other)
    if weight is None:
        return Step(node.op, (), _tensor_operand(context, node, other), swapped), context.value(other)
    if len(weight.data) == 4:
        return Step(node.op, (float(weight.array.reshape(-1)[0]),), None, swapped), None
    packing = _weight_packing(context, node, weight, lanes)
    buffer = Buffer(packing.channels, packing.height, packing.width, packing.lanes)
    return Step(node.op, (), buffer, swapped), Use(weight, packing)


def _numbers(node: Node) -> tuple[float, ...]:
    names = {"clip": ("min", "max"), "hard_sigmoid": ("alpha", "beta"), "leaky_relu": ("alpha",)}.get(node.op, ())
    return tuple(node.real(name) for name in names)


def _tensor_operand(context: Context, node: Node, name: str) -> Buffer:
    result, shape = context.graph.result(node).static_shape, context.graph.tensors[name].static_shape
    if spread(shape, result) not in ("whole", "channel"):
        raise refused(node, f"an operand of shape {list(shape)} does not spread over {list(result)} by channels")
    return context.buffer(name)


def _weight_packing(context: Context, node: Node, weight: Weight, lanes: int) -> Packing:
    """A constant of the result's size, or one number per channel."""
    channels, height, width = image(context.graph.result(node))
    result = context.graph.result(node).static_shape
    shape = (1,) * (len(result) - len(weight.shape)) + weight.shape
    if spread(shape, result) == "channel":
        return Packing("blocked", lanes, channels)
    if shape == result:
        kind = "blocked" if channel_axis(len(result)) == 1 else "sequence"
        return Packing(kind, lanes, channels, height, width)
    raise refused(node, f"a constant of shape {list(weight.shape)} does not spread by channels")
