"""One fusion group to one kernel: the form of its anchor, its tile, its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isqrt
from typing import Literal

from kernelc.graph import Graph, Group, Node, channel_axis
from kernelc.layout.buffer import Buffer
from kernelc.layout.choice import port_lanes
from kernelc.layout.geometry import MOVES, conv_taps, image, is_alias, moved, pool_taps, transposed_phases
from kernelc.layout.movement import AXES, CHANNEL, COLUMN, ROW, straight
from kernelc.layout.packing import Packing
from kernelc.layout.refuse import refused
from kernelc.layout.segments import Use
from kernelc.layout.window import Taps
from kernelc.lowering import (
    average,
    cast,
    concat,
    contraction,
    conv_transpose,
    depthwise,
    elementwise,
    layer_norm,
    pool,
    product,
    rearrange,
    resize,
    softmax,
)
from kernelc.lowering.kernel import Kernel
from kernelc.lowering.operands import Context, Operand, PortOperand, epilogue_steps, step_of
from kernelc.lowering.steps import BINARY, UNARY, Step
from kernelc.numerics.resampling import tables
from kernelc.schedule.cost import (
    ContractionTile,
    Machine,
    contraction_cut,
    depthwise_columns,
    plain_cut,
    stream_columns,
)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and what it works on: what it reads in argument order, then what it writes."""

    name: str
    kind: str
    kernel: Kernel
    operands: tuple[Operand, ...]


def lower_group(context: Context, machine: Machine, group: Group) -> Lowered | None:
    """The kernel of a group; None for one that only renames memory.

    Raises `FarmError` OPERATOR_NOT_LOWERED with the node and the reason.
    """
    node = group.anchor
    if is_alias(context.graph, node):
        return None
    steps, others = epilogue_steps(context, group.epilogue, node.outputs[0], context.buffer(group.output).lanes)
    kernel, reads = _FORMS[node.op](context, machine, group, steps)
    return Lowered(group.name, node.op, kernel, (*reads, *others, context.value(group.output)))


def check_anchor(graph: Graph, group: Group) -> None:
    """Raise `FarmError` OPERATOR_NOT_LOWERED for an anchor that no form lowers, before any layout is chosen."""
    node = group.anchor
    if node.op not in _FORMS and node.op != "identity":
        raise refused(node, "the backend has no form for this operator")
    values = [name for name in node.operands if name not in graph.weights]
    if not values or (node.op not in _ELEMENTWISE and node.inputs[0] not in values):
        raise refused(node, "it works on a constant")


Form = Callable[[Context, Machine, Group, tuple[Step, ...]], tuple[Kernel, list[Operand]]]


def _conv(context: Context, machine: Machine, group: Group, steps: tuple[Step, ...]) -> tuple[Kernel, list[Operand]]:
    node = group.anchor
    graph = context.graph
    weight = graph.weights.get(node.inputs[1])
    if weight is None:
        raise refused(node, "its weights are not constant")
    x, y = context.buffer(node.inputs[0]), context.buffer(group.output)
    taps = conv_taps(node, graph)
    reads: list[Operand] = [context.value(node.inputs[0])]
    if node.integer("group") == 1:
        reads += [Use(weight, Packing("dense", y.lanes, y.channels)), *_bias(context, node, y)]
        return _contraction(machine, x, y, taps, len(reads) > 2, steps), reads
    if not node.integer("group") == x.channels == y.channels:
        raise refused(node, "grouped convolution is lowered only where each group is one channel in and one out")
    reads += [Use(weight, Packing("depthwise", y.lanes, y.channels)), *_bias(context, node, y)]
    columns = stream_columns(machine, 1)
    if y.lanes > 1:
        columns = depthwise_columns(
            machine.blocked(y.lanes), taps=taps.height * taps.width, kernel_width=taps.width,
            stride=taps.column_stride, width=y.width,
        )  # fmt: skip
    return depthwise.lower(depthwise.Depthwise(x, y, taps, len(reads) > 2, steps, columns)), reads


def _conv_transpose(
    context: Context, machine: Machine, group: Group, steps: tuple[Step, ...]
) -> tuple[Kernel, list[Operand]]:
    node, graph = group.anchor, context.graph
    weight = graph.weights.get(node.inputs[1])
    if weight is None:
        raise refused(node, "its weights are not constant")
    x, y = context.buffer(node.inputs[0]), context.buffer(group.output)
    depthwise = node.integer("group") == x.channels == y.channels and x.channels > 1
    if node.integer("group") != 1 and not depthwise:
        raise refused(node, "a grouped transposed convolution is lowered only where each group is one channel")
    packing = Packing("depthwise" if depthwise else "transposed", y.lanes, y.channels)
    reads: list[Operand] = [context.value(node.inputs[0]), Use(weight, packing), *_bias(context, node, y)]
    rows, columns = transposed_phases(node, graph)
    taps = max(1, max(phase.taps for phase in rows) * max(phase.taps for phase in columns))
    width = max(phase.count for phase in columns)
    tile = ContractionTile(1, stream_columns(machine, y.lanes), rows[0].count, width)
    if not depthwise:
        tile = contraction_cut(
            machine.blocked(y.lanes),
            steps=taps * x.channels,
            exits=taps,
            channels=y.channels,
            images=[(rows[0].count, width)],
        )
    height, wide = weight.shape[2:]
    strides = node.integers("strides")
    spec = conv_transpose.ConvTranspose(
        x, y, rows, columns, (height, wide), (strides[0], strides[1]), len(reads) > 2, steps, tile.blocks, tile.columns,
        tile.tail, depthwise,
    )  # fmt: skip
    return conv_transpose.lower(spec), reads


def _resize(context: Context, machine: Machine, group: Group, steps: tuple[Step, ...]) -> tuple[Kernel, list[Operand]]:
    node = group.anchor
    x, y = context.buffer(node.inputs[0]), context.buffer(group.output)
    rows, columns = tables(node, (x.height, x.width), (y.height, y.width))
    if (rows.outside.any() or columns.outside.any()) and node.real("extrapolation") != 0:
        raise refused(node, "it crops beyond the image with an extrapolation value other than 0")
    reads: list[Operand] = [context.value(node.inputs[0])]
    down, across = resize.factor(rows, x.height), resize.factor(columns, x.width)
    if down is not None and across is not None and across <= resize.MOST_REPEATS:
        width = max(1, stream_columns(machine, y.lanes) // across)
        return resize.lower_repeat(resize.Repeat(x, y, down, across, steps, width)), reads
    if columns.taps > resize.MOST_TAPS:
        raise refused(node, f"a column reads {columns.taps} others; {resize.MOST_TAPS} at most are lowered")
    reads += [Use(resize.weights_of(table), Packing("plain", 1, len(table.indices))) for table in (rows, columns)]
    return resize.lower_resample(resize.Resample(x, y, rows.taps, columns.taps, steps)), reads


def _concat(context: Context, machine: Machine, group: Group, _steps: tuple[Step, ...]) -> tuple[Kernel, list[Operand]]:
    node = group.anchor
    if any(name in context.graph.weights for name in node.inputs):
        raise refused(node, "one of its operands is a constant")
    if len(node.inputs) > concat.MOST_SOURCES:
        raise refused(node, f"it joins {len(node.inputs)} values; {concat.MOST_SOURCES} at most are lowered")
    axis = node.integer("axis")
    if axis == 0:
        raise refused(node, "it joins batches")
    along = _CONCAT_AXES[AXES[len(context.graph.result(node).shape)][axis - 1]]
    buffers = tuple(context.buffer(name) for name in node.inputs)
    y = context.buffer(group.output)
    spec = concat.Concat(buffers, y, along, stream_columns(machine, y.lanes))
    return concat.lower(spec), [context.value(name) for name in node.inputs]


def _matmul(context: Context, machine: Machine, group: Group, steps: tuple[Step, ...]) -> tuple[Kernel, list[Operand]]:
    """A constant matrix for every pixel of [1, K] or [1, L, K]; or a product of two values for each channel."""
    node, graph = group.anchor, context.graph
    x, y = context.buffer(node.inputs[0]), context.buffer(group.output)
    weight, rank = graph.weights.get(node.inputs[1]), len(graph.result(node).shape)
    if weight is None:
        shapes = [graph.tensors[name].static_shape for name in node.inputs]
        if len(shapes) > 2 or [shape[:2] for shape in shapes] != [graph.result(node).shape[:2]] * 2 or rank != 4:
            raise refused(node, "of two values only [1, C, M, K] times [1, C, K, N] is lowered")
        right = context.buffer(node.inputs[1])
        spec = product.Product(x, right, y, steps, stream_columns(machine, y.lanes))
        return product.lower(spec), [context.value(name) for name in node.inputs]
    if len(weight.shape) != 2 or rank not in (2, 3):
        raise refused(node, "only [1, K] or [1, L, K] times a constant [K, N] is lowered")
    use = Use(weight, Packing("matrix", y.lanes, y.channels))
    reads: list[Operand] = [context.value(node.inputs[0]), use, *_bias(context, node, y)]
    return _contraction(machine, x, y, Taps(1, 1, 1, 1, 1, 1, 0, 0, 1, 1), len(reads) > 2, steps), reads


def _rearrange(
    context: Context, machine: Machine, group: Group, _steps: tuple[Step, ...]
) -> tuple[Kernel, list[Operand]]:
    node = group.anchor
    x, y = context.buffer(node.inputs[0]), context.buffer(group.output)
    spec = rearrange.Rearrange(x, y, moved(context.graph, node), machine.lanes)
    count = sum(len(block) for block in rearrange.pieces(spec))
    if count > rearrange.MOST_PIECES:
        raise refused(node, f"it moves channels in {count} pieces; {rearrange.MOST_PIECES} at most are lowered")
    return rearrange.lower(spec), [context.value(node.inputs[0])]


def _layout_cast(
    context: Context, machine: Machine, group: Group, _steps: tuple[Step, ...]
) -> tuple[Kernel, list[Operand]]:
    """From the value, or from the caller's memory where that is a graph input."""
    name = group.anchor.inputs[0]
    y = context.buffer(group.output)
    for number, port in enumerate(context.graph.inputs):
        if port.tensor == name:
            return _from_port(context, machine, number, y)
    x = context.buffer(name)
    if min(x.lanes, y.lanes) == 1:
        return cast.lower(cast.Cast(x, y, machine.lanes)), [context.value(name)]
    spec = rearrange.Rearrange(x, y, straight(x.channels, x.height, x.width), machine.lanes)
    return rearrange.lower(spec), [context.value(name)]


def _layer_norm(
    context: Context, _machine: Machine, group: Group, steps: tuple[Step, ...]
) -> tuple[Kernel, list[Operand]]:
    node = group.anchor
    rank = len(context.graph.result(node).shape)
    if channel_axis(rank) != rank - 1:
        raise refused(node, "it is lowered over the channels of [1, L, C] or [1, C] only")
    x, y = context.buffer(node.inputs[0]), context.buffer(group.output)
    return layer_norm.lower(layer_norm.LayerNorm(x, y, node.real("epsilon"), steps)), [context.value(node.inputs[0])]


def _bias(context: Context, node: Node, y: Buffer) -> list[Operand]:
    if len(node.operands) < 3:
        return []
    weight = context.graph.weights.get(node.inputs[2])
    if weight is None:
        raise refused(node, "its bias is not constant")
    return [Use(weight, Packing("blocked", y.lanes, y.channels))]


def _contraction(machine: Machine, x: Buffer, y: Buffer, taps: Taps, bias: bool, steps: tuple[Step, ...]) -> Kernel:
    """A dense kernel with the cheapest tile; an image without halos may be seen with other rows where taps are 1x1."""
    images = _images(x, y, taps, steps)
    full, rest = divmod(x.channels, x.lanes)
    cut = plain_cut if y.lanes == 1 else contraction_cut
    tile = cut(
        machine.blocked(y.lanes),
        steps=taps.height * taps.width * x.channels,
        exits=taps.height * taps.width * ((full > 0) + (rest > 0)),
        channels=y.channels,
        images=images,
    )
    size = (tile.height, tile.width)
    if size != (y.height, y.width):
        x, y = x.reshaped(*size), y.reshaped(*size)
        taps = replace(taps, rows=tile.height, outputs=tile.height)
        steps = tuple(_reshaped_step(step, size) for step in steps)
    return contraction.lower(contraction.Contraction(x, y, taps, bias, steps, tile.blocks, tile.columns, tile.tail))


def _images(x: Buffer, y: Buffer, taps: Taps, steps: tuple[Step, ...]) -> list[tuple[int, int]]:
    own = (y.height, y.width)
    pointwise = Taps(1, 1, 1, 1, taps.row_dilation, taps.column_dilation, 0, 0, x.height, y.height)
    if taps != pointwise or any(buffer.has_halo for buffer in [x, y, *filter(None, (step.operand for step in steps))]):
        return [own]
    pixels = y.height * y.width
    small = [rows for rows in range(1, isqrt(pixels) + 1) if pixels % rows == 0]
    rows_of = sorted({*small, *(pixels // rows for rows in small)} - {y.height}, reverse=True)
    return [own] + [(rows, pixels // rows) for rows in rows_of]


def _reshaped_step(step: Step, size: tuple[int, int]) -> Step:
    if step.operand is None or step.operand.height * step.operand.width == 1:
        return step
    return replace(step, operand=step.operand.reshaped(*size))


def _global_average(
    context: Context, machine: Machine, group: Group, steps: tuple[Step, ...]
) -> tuple[Kernel, list[Operand]]:
    source = group.anchor.inputs[0]
    x = context.buffer(source)
    spec = average.GlobalAverage(x, context.buffer(group.output), steps, stream_columns(machine, x.lanes))
    return average.lower(spec), [context.value(source)]


def _pool(context: Context, machine: Machine, group: Group, steps: tuple[Step, ...]) -> tuple[Kernel, list[Operand]]:
    node = group.anchor
    count_pads = node.op == "average_pool" and bool(node.integer("count_include_pad"))
    if count_pads and node.integer("ceil_mode"):
        raise refused(node, "count_include_pad together with ceil_mode is not lowered")
    x, y = context.buffer(node.inputs[0]), context.buffer(group.output)
    kind: Literal["max", "average"] = "max" if node.op == "max_pool" else "average"
    taps = pool_taps(node, context.graph)
    if len(pool.segments(taps, x.width, y.width)) > pool.MAX_SEGMENTS:
        raise refused(node, f"its windows lie in more than {pool.MAX_SEGMENTS} ways on the columns of the image")
    spec = pool.Pool(kind, x, y, taps, count_pads, steps, stream_columns(machine, y.lanes))
    return pool.lower(spec), [context.value(node.inputs[0])]


def _softmax(
    context: Context, _machine: Machine, group: Group, steps: tuple[Step, ...]
) -> tuple[Kernel, list[Operand]]:
    node = group.anchor
    rank, axis = len(context.graph.result(node).shape), node.integer("axis")
    lowered = {channel_axis(rank): softmax.lower_channels, 3: softmax.lower_rows}.get(axis)
    if lowered is None:
        raise refused(node, f"softmax is lowered along channels and along rows only, not along dimension {axis}")
    spec = softmax.Softmax(context.buffer(node.inputs[0]), context.buffer(group.output), steps)
    return lowered(spec), [context.value(node.inputs[0])]


def _elementwise(
    context: Context, machine: Machine, group: Group, steps: tuple[Step, ...]
) -> tuple[Kernel, list[Operand]]:
    """The anchor is the first step; what it works on is the operand of the result's size."""
    node = group.anchor
    shape = context.graph.result(node).static_shape
    values = [name for name in node.operands if name not in context.graph.weights]
    whole = [name for name in values if context.graph.tensors[name].static_shape == shape]
    if not whole:
        raise refused(node, "no operand has the size of the result")
    y = context.buffer(group.output)
    first, operand = step_of(context, node, whole[0], y.lanes)
    later = (step if step.kept is None else replace(step, kept=step.kept + 1) for step in steps)  # 0 is its operand
    columns = stream_columns(machine, y.lanes)
    spec = elementwise.Elementwise(context.buffer(whole[0]), y, (first, *later), columns)
    return elementwise.lower(spec), [context.value(whole[0]), *([operand] if operand is not None else [])]


_ELEMENTWISE = (*BINARY, *UNARY)
_CONCAT_AXES = {CHANNEL: concat.CHANNELS, ROW: concat.ROWS, COLUMN: concat.COLUMNS}
_FORMS: Mapping[str, Form] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "resize": _resize,
    "concat": _concat,
    "layer_norm": _layer_norm,
    "matmul": _matmul,
    "global_average_pool": _global_average,
    "max_pool": _pool,
    "average_pool": _pool,
    "softmax": _softmax,
    "layout_cast": _layout_cast,
    **dict.fromkeys(MOVES, _rearrange),
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
}


def boundary_input(context: Context, machine: Machine, number: int) -> Lowered:
    """The copy of the `number`-th graph input into the compiler's layout."""
    name = context.graph.inputs[number].tensor
    kernel, reads = _from_port(context, machine, number, context.buffer(name))
    return Lowered(f"input{number}", "layout_cast", kernel, (*reads, context.value(name)))


def _from_port(context: Context, machine: Machine, number: int, y: Buffer) -> tuple[Kernel, list[Operand]]:
    port = PortOperand("input", number)
    columns = machine.lanes * (4 if y.lanes == 1 else 1)
    return cast.lower(cast.Cast(port_buffer(context.graph, port), y, columns)), [port]


def boundary_output(context: Context, machine: Machine, number: int) -> Lowered:
    """The copy of a value into the caller's memory of the `number`-th graph output."""
    name = context.graph.outputs[number].tensor
    port = PortOperand("output", number)
    x, y = context.buffer(name), port_buffer(context.graph, port)
    columns = machine.lanes
    if x.height * x.width == 1 and not x.has_halo:  # the channels of one pixel lie in a row already
        x, y = Buffer(1, 1, x.blocks * x.lanes, 1), Buffer(1, 1, x.channels, 1)
        columns *= 4
    kernel = cast.lower(cast.Cast(x, y, columns))
    return Lowered(f"output{number}", "layout_cast", kernel, (context.value(name), port))


def port_buffer(graph: Graph, operand: PortOperand) -> Buffer:
    """The caller's memory of a graph's input or output, row major: channels come first, but last in [1, L, C]."""
    ports = graph.inputs if operand.direction == "input" else graph.outputs
    tensor = graph.tensors[ports[operand.number].tensor]
    return Buffer(*image(tensor), port_lanes(tensor))
