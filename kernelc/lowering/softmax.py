"""Softmax over channels, with the compiler's own exp."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelc.layout.buffer import Buffer
from kernelc.lowering.exponential import exponential
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Body, Step, finish, step_operands
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import Tile, accumulator, clear_halo, parts, walk, window, write
from kernelc.schedule.split import Run

LOWEST = float("-inf")


@dataclass(frozen=True, slots=True)
class Softmax:
    """y[c] = steps(exp(x[c] - max x) / sum of exp over the channels), at each pixel. x and y have the same size."""

    x: Buffer
    y: Buffer
    steps: tuple[Step, ...]


def lower(spec: Softmax) -> Kernel:
    """The kernel; its operands are x, the steps' tensors, y. One part per image row."""
    writer = Writer()
    x, out = Value("%x", spec.x.shape), Value("%out", spec.y.shape)
    others = step_operands(spec.steps)

    def one_row(_block: Index, _run: Run, row: str, current: Value) -> Value:
        for block in range(spec.y.blocks if spec.y.has_halo else 0):
            current = clear_halo(writer, current, spec.y, block, row, 1)
        if spec.x.width == 1:
            return _one_pixel(writer, spec, (x, others), row, 0, current)
        return writer.loop(
            0, spec.x.width, 1, current, lambda column, value: _one_pixel(writer, spec, (x, others), row, column, value)
        )

    runs = (Run(0, 1, 1),)
    result = walk(writer, runs, spec.y.height, out, one_row)
    return kernel(
        writer, [x, *others], out, result, set(),
        parts=parts(runs, spec.y.height), tile="1x1", flop=20 * spec.x.channels * spec.x.height * spec.x.width,
    )  # fmt: skip


def _one_pixel(
    writer: Writer, spec: Softmax, sources: tuple[Value, list[Value]], row: Index, column: Index, out: Value
) -> Value:
    x, others = sources
    lanes = Tile(0, row, column, 1, 1, spec.x.lanes)

    def at(block: Index) -> Tile:
        return Tile(block, row, column, 1, 1, spec.x.lanes)

    def largest(block: Index, valid: int, value: Value) -> Value:
        return _combine(writer, window(writer, x, spec.x, at(block)), value, valid, LOWEST, "maximumf")

    def powers(block: Index, _valid: int, value: Value) -> Value:
        body = Body(writer)
        result = exponential(body, body.op("subf", "%a0", "%a1", ""))
        pixels = window(writer, x, spec.x, at(block))
        target = window(writer, value, spec.y, at(block))
        done = writer.generic(lanes.dims, [(pixels, lanes.dims), (peak, "")], target, lanes.dims, body.lines, result)
        return write(writer, done, value, spec.y, at(block))

    def add(block: Index, valid: int, value: Value) -> Value:
        return _combine(writer, window(writer, powered, spec.y, at(block)), value, valid, 0.0, "addf")

    def divide(block: Index, _valid: int, value: Value) -> Value:
        target = window(writer, value, spec.y, at(block))
        body = ["%s = arith.divf %acc, %a0 : f32"]
        share = writer.generic(lanes.dims, [(total, "")], target, lanes.dims, body, "%s")
        return write(writer, finish(writer, at(block), share, spec.steps, others), value, spec.y, at(block))

    peaks = _blocks(writer, spec.x, accumulator(writer, at(0), LOWEST, writer.empty(lanes.shape)), largest)
    peak = _lanes(writer, peaks, LOWEST, "maximumf")
    powered = _blocks(writer, spec.x, out, powers)
    sums = _blocks(writer, spec.x, accumulator(writer, at(0), 0.0, writer.empty(lanes.shape)), add)
    total = _lanes(writer, sums, 0.0, "addf")
    return _blocks(writer, spec.x, powered, divide)


def _blocks(writer: Writer, buffer: Buffer, start: Value, one: Callable[[Index, int, Value], Value]) -> Value:
    """`one(block, valid lanes, value)` over all channel blocks, the partial one last."""
    full, rest = divmod(buffer.channels, buffer.lanes)
    if full:
        start = writer.loop(0, full, 1, start, lambda block, value: one(block, buffer.lanes, value))
    return one(full, rest, start) if rest else start


def _combine(writer: Writer, pixels: Value, value: Value, valid: int, neutral: float, op: str) -> Value:
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


def _lanes(writer: Writer, lanes: Value, neutral: float, op: str) -> Value:
    """All lanes combined into one number."""
    if not lanes.shape:
        return lanes
    start = writer.generic("", [], writer.empty(()), "", [], writer.scalar(neutral))
    return writer.generic("o", [(lanes, "o")], start, "", [f"%s = arith.{op} %acc, %a0 : f32"], "%s", "o")
