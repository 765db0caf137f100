"""Reductions over the channels of a pixel: over its blocks lane by lane, then across the lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelc.layout.buffer import Buffer
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Body, Step, step_operands
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import clear_halo, parts, walk
from kernelc.schedule.split import Run

Pixel = Callable[[Writer, tuple[Value, list[Value]], Index, Index, Value], Value]
"""one(writer, (x, the steps' tensors), row, column, y) makes one pixel of y."""


def pixelwise(x: Buffer, y: Buffer, steps: Sequence[Step], flop: int, one: Pixel) -> Kernel:
    """A kernel that makes each pixel of y of the channels of x there, `flop` operations for each number.

    Its operands are x, the steps' tensors, y. One part per image row.
    """
    writer = Writer()
    source, out = Value("%x", x.shape), Value("%out", y.shape)
    others = step_operands(steps)

    def one_row(_block: Index, _run: Run, row: str, current: Value) -> Value:
        for block in range(y.blocks if y.has_halo else 0):
            current = clear_halo(writer, current, y, block, row, 1)
        if x.width == 1:
            return one(writer, (source, others), row, 0, current)
        return writer.loop(
            0, x.width, 1, current, lambda column, value: one(writer, (source, others), row, column, value)
        )

    runs = (Run(0, 1, 1),)
    result = walk(writer, runs, y.height, out, one_row)
    return kernel(
        writer, [source, *others], out, result, set(),
        parts=parts(runs, y.height), tile="1x1", flop=flop * x.channels * x.height * x.width,
    )  # fmt: skip


def over_blocks(writer: Writer, buffer: Buffer, start: Value, one: Callable[[Index, int, Value], Value]) -> Value:
    """`one(block, valid lanes, value)` over all channel blocks, the partial one last."""
    full, rest = divmod(buffer.channels, buffer.lanes)
    if full:
        start = writer.loop(0, full, 1, start, lambda block, value: one(block, buffer.lanes, value))
    return one(full, rest, start) if rest else start


def combine(writer: Writer, pixels: Value, value: Value, valid: int, neutral: float, op: str) -> Value:
    """`value` combined lane by lane with `pixels`, whose lanes from `valid` on count as `neutral`."""
    body = Body(writer)
    name = "%a0"
    if pixels.shape and valid < pixels.shape[0]:
        lane = body.define("linalg.index 0 : index")
        inside = body.define(f"arith.cmpi ult, {lane}, {writer.index(valid)} : index")
        name = body.define(f"arith.select {inside}, %a0, {writer.scalar(neutral)} : f32")
    result = body.op(op, "%acc", name, "")
    dims = "o" if pixels.shape else ""
    return writer.generic(dims, [(pixels, dims)], value, dims, body.lines, result)


def across_lanes(writer: Writer, lanes: Value, neutral: float, op: str) -> Value:
    """All lanes combined into one number."""
    if not lanes.shape:
        return lanes
    start = writer.generic("", [], writer.empty(()), "", [], writer.scalar(neutral))
    return writer.generic("o", [(lanes, "o")], start, "", [f"%s = arith.{op} %acc, %a0 : f32"], "%s", "o")
