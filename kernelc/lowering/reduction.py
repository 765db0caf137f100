"""Reductions over the channels of a pixel: over its blocks lane by lane, then across the lanes."""

from __future__ import annotations

from collections.abc import Callable

from kernelc.layout.buffer import Buffer
from kernelc.lowering.steps import Body
from kernelc.lowering.text import Index, Value, Writer


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
