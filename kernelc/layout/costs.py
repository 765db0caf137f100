"""Predicted half cycles of kernels and casts by the layouts of what they read and write.

A model to compare layouts with, not a promise of times: loops as in `kernelc.schedule.cost`, and bytes over the
bandwidth of a second-level cache (118 GB/s measured on the reference core, 16 bytes in half a cycle). What the model
cannot tell apart costs the same: blocks wider than a vector are never taken to be faster than blocks of one.
"""

from __future__ import annotations

from functools import cache
from math import prod

from kernelc.graph import Graph, Group, Node
from kernelc.layout.forms import Form
from kernelc.layout.geometry import conv_taps, image, moved, pool_taps, transposed_phases
from kernelc.schedule.cost import (
    TILE_OVERHEAD,
    Machine,
    contraction_cut,
    cut_cost,
    plain_cost,
    plain_cut,
    stream_columns,
    vectors_of,
)
from kernelc.schedule.split import balanced, powers

BYTES = 16
"""Bytes moved in half a cycle."""
CALL = 1000
"""One kernel more: its call, and the threads that wait for each other."""
ONE_BY_ONE = 3
"""A number that is loaded and stored alone."""
TRANSPOSED = 2
"""A number of a cast between blocks and channels apart: part of a transposed square, or alone where rows are short."""
STEPS = {
    "sigmoid": 22, "silu": 24, "tanh": 30, "sqrt": 8, "div": 8, "hard_swish": 4, "hard_sigmoid": 4, "leaky_relu": 3,
    "prelu": 3, "clip": 2,
}  # fmt: skip
"""Operations of an element-wise step for each vector; 1 for the others."""

Image = tuple[int, int, int]
"""Channels, height, width."""


def memory(size: Image, lanes: int) -> int:
    """Bytes of an image without halo."""
    channels, height, width = size
    return 4 * -(-channels // lanes) * lanes * height * width


def group_cost(graph: Graph, group: Group, machine: Machine, form: Form) -> int:
    """Half cycles of the kernel of a group."""
    node = group.anchor
    sources = [image(graph.tensors[name]) for name in node.operands if name not in graph.weights]
    result = image(graph.tensors[group.output])
    others = [
        image(graph.tensors[name])
        for step in group.epilogue
        for name in step.operands
        if name in group.inputs and name not in graph.weights
    ]
    touched = sum(memory(size, form.read) for size in sources)
    touched += sum(memory(size, form.written) for size in (*others, result))
    steps = sum(STEPS.get(step.op, 1) for step in group.epilogue)
    work = _work(graph, group, machine, form, sources, result)
    return CALL + touched // BYTES + work + (stream(machine, form.written, result, steps) if steps else 0)


def _work(
    graph: Graph, group: Group, machine: Machine, form: Form, sources: list[Image], result: Image
) -> int:  # fmt: skip
    node, source = group.anchor, sources[0]
    lanes = form.written
    match node.op:
        case "conv":
            taps = conv_taps(node, graph)
            count = taps.height * taps.width
            if node.integer("group") > 1:
                return stream(machine, lanes, result, count + 2)
            return dense(machine, lanes, count, source[0], result)
        case "conv_transpose":
            down, across = transposed_phases(node, graph)
            count = max(1, max(phase.taps for phase in down) * max(phase.taps for phase in across))
            if node.integer("group") > 1:
                return stream(machine, lanes, result, count + 2)
            return dense(machine, lanes, count, source[0], result)
        case "matmul" if node.inputs[1] in graph.weights:
            return dense(machine, lanes, 1, source[0], result)
        case "matmul":
            return stream(machine, lanes, result, source[2])
        case "max_pool" | "average_pool":
            taps = pool_taps(node, graph)
            return stream(machine, lanes, result, taps.height * taps.width)
        case "global_average_pool":
            return stream(machine, lanes, source, 1)
        case "softmax":
            return stream(machine, lanes, result, 30)
        case "layer_norm":
            return stream(machine, lanes, result, 12)
        case "resize":
            return stream(machine, lanes, result, _resize_taps(node))
        case "rearrange" | "reshape":
            movement = moved(graph, node)
            if form.read == lanes == 1 and movement.interleaved:
                return stream(machine, lanes, result, 1 + movement.interleaved)
            alone = min(form.read, lanes) == 1 or movement.mixes_channels
            return prod(result) * ONE_BY_ONE if alone else prod(result) // 2
        case "concat":
            return stream(machine, lanes, result, 1)
    return stream(machine, lanes, result, STEPS.get(node.op, 1))


def _resize_taps(node: Node) -> int:
    return {"nearest": 2, "linear": 8, "cubic": 32}[str(node.attr("mode"))]


@cache
def dense(machine: Machine, lanes: int, taps: int, depth: int, result: Image) -> int:
    """Half cycles of a convolution or matrix product of `taps` x `depth` multiply-adds for each number.

    What it reads is the same in any layout: one number of each channel is spread over a vector.
    """
    channels, height, width = result
    images = ((height, width), *(((1, height * width),) if taps == 1 and height > 1 else ()))
    steps = taps * depth
    if lanes == 1:
        tile = plain_cut(machine, steps=steps, exits=taps, channels=channels, images=images)
        cost = plain_cost(machine, steps, taps, channels, tile)
        return cost if machine.broadcast == "memory" else 2 * cost
    blocked = machine.blocked(lanes)
    least = dense(machine, machine.lanes, taps, depth, result) if lanes > machine.lanes else 0
    tile = contraction_cut(blocked, steps=steps, exits=taps, channels=channels, images=images)
    cost = cut_cost(blocked, steps, taps, channels, tile) * _vector(machine, lanes, channels) // blocked.multiply
    return max(least, cost)


def _vector(machine: Machine, lanes: int, channels: int) -> int:
    """Half cycles of an operation on one block.

    Several blocks narrower than a vector are taken to cost a vector each: on cores with units of full width they do.
    """
    own = machine.blocked(lanes).multiply
    return max(own, machine.multiply) if channels > lanes else own


@cache
def stream(machine: Machine, lanes: int, size: Image, operations: int) -> int:
    """Half cycles of so many operations on each vector of an image."""
    channels, height, width = size
    columns, overhead = stream_columns(machine, lanes), TILE_OVERHEAD // 2
    if lanes == 1:
        rows = powers(width, columns)
        row = sum(
            run.count * (vectors_of(machine, run.size) * operations * machine.multiply + overhead) for run in rows
        )
        return channels * height * row
    vector = _vector(machine, lanes, channels)
    row = sum(run.count * (run.size * operations * vector + overhead) for run in balanced(width, columns))
    least = stream(machine, machine.lanes, size, operations) if lanes > machine.lanes else 0
    return max(least, -(-channels // lanes) * height * row)


@cache
def cast_cost(machine: Machine, size: Image, before: int, after: int) -> int:
    """Half cycles of a copy in other lanes; nothing where they are the same."""
    if before == after:
        return 0
    return CALL + (memory(size, before) + memory(size, after)) // BYTES + copied(machine, size, before, after)


def copied(machine: Machine, size: Image, before: int, after: int) -> int:
    """Half cycles of the loads and stores of a copy."""
    channels, height, width = size
    if before == after:
        return stream(machine, before, size, 2)
    if min(before, after) == 1:
        return TRANSPOSED * channels * height * width if width > 1 or height > 1 else channels
    pieces = -(-channels // min(before, after))
    return 4 * pieces * height * width


def port_cost(machine: Machine, size: Image, port: int, lanes: int) -> int:
    """Half cycles of the copy between the caller's memory and a value; `port` are the lanes of the caller's side."""
    return CALL + (4 * prod(size) + memory(size, lanes)) // BYTES + copied(machine, size, port, lanes)
