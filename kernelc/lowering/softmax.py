"""Softmax over channels or along rows, with the compiler's own exp."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kernelc.layout.buffer import Buffer
from kernelc.lowering.exponential import exponential
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.reduction import across_lanes, combine, over_blocks, pixelwise
from kernelc.lowering.steps import Body, Step, finish, step_operands
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import Tile, accumulator, clear_halo, parts, walk, window, write
from kernelc.schedule.split import Run, balanced

LOWEST = float("-inf")


@dataclass(frozen=True, slots=True)
class Softmax:
    """y[i] = steps(exp(x[i] - max x) / sum of exp), over the channels i of a pixel or over the columns i of a row.

    x and y have the same size.
    """

    x: Buffer
    y: Buffer
    steps: tuple[Step, ...]


def lower_channels(spec: Softmax) -> Kernel:
    """The kernel over channels; its operands are x, the steps' tensors, y. One part per image row."""
    return pixelwise(spec.x, spec.y, spec.steps, 20, partial(_one_pixel, spec))


def _one_pixel(
    spec: Softmax, writer: Writer, sources: tuple[Value, list[Value]], row: Index, column: Index, out: Value
) -> Value:
    x, others = sources
    lanes = Tile(0, row, column, 1, 1, spec.x.lanes)

    def at(block: Index) -> Tile:
        return Tile(block, row, column, 1, 1, spec.x.lanes)

    def largest(block: Index, valid: int, value: Value) -> Value:
        return combine(writer, window(writer, x, spec.x, at(block)), value, valid, LOWEST, "maximumf")

    def powers(block: Index, _valid: int, value: Value) -> Value:
        body = Body(writer)
        result = exponential(body, body.op("subf", "%a0", "%a1", ""))
        pixels = window(writer, x, spec.x, at(block))
        target = window(writer, value, spec.y, at(block))
        done = writer.generic(lanes.dims, [(pixels, lanes.dims), (peak, "")], target, lanes.dims, body.lines, result)
        return write(writer, done, value, spec.y, at(block))

    def add(block: Index, valid: int, value: Value) -> Value:
        return combine(writer, window(writer, powered, spec.y, at(block)), value, valid, 0.0, "addf")

    def divide(block: Index, _valid: int, value: Value) -> Value:
        target = window(writer, value, spec.y, at(block))
        body = ["%s = arith.divf %acc, %a0 : f32"]
        share = writer.generic(lanes.dims, [(total, "")], target, lanes.dims, body, "%s")
        return write(writer, finish(writer, at(block), share, spec.steps, others), value, spec.y, at(block))

    peaks = over_blocks(writer, spec.x, accumulator(writer, at(0), LOWEST, writer.empty(lanes.shape)), largest)
    peak = across_lanes(writer, peaks, LOWEST, "maximumf")
    powered = over_blocks(writer, spec.x, out, powers)
    sums = over_blocks(writer, spec.x, accumulator(writer, at(0), 0.0, writer.empty(lanes.shape)), add)
    total = across_lanes(writer, sums, 0.0, "addf")
    return over_blocks(writer, spec.x, powered, divide)


def lower_rows(spec: Softmax) -> Kernel:
    """The kernel along rows; its operands are x, the steps' tensors, y. One part per channel block and row."""
    writer = Writer()
    x, out = Value("%x", spec.x.shape), Value("%out", spec.y.shape)
    others = step_operands(spec.steps)

    def one_row(block: Index, _run: Run, row: str, current: Value) -> Value:
        def at(column: Index) -> Tile:
            return Tile(block, row, column, 1, 1, spec.y.lanes)

        def largest(column: str, value: Value) -> Value:
            return combine(writer, window(writer, x, spec.x, at(column)), value, spec.y.lanes, LOWEST, "maximumf")

        def powers(column: str, value: Value) -> Value:
            body = Body(writer)
            result = exponential(body, body.op("subf", "%a0", "%a1", ""))
            inputs = [(window(writer, x, spec.x, at(column)), dims), (peak, dims)]
            target = window(writer, value, spec.y, at(column))
            done = writer.generic(dims, inputs, target, dims, body.lines, result)
            return write(writer, done, value, spec.y, at(column))

        def add(column: str, value: Value) -> Value:
            return combine(writer, window(writer, powered, spec.y, at(column)), value, spec.y.lanes, 0.0, "addf")

        def divide(column: str, value: Value) -> Value:
            target = window(writer, value, spec.y, at(column))
            share = writer.generic(dims, [(total, dims)], target, dims, ["%s = arith.divf %acc, %a0 : f32"], "%s")
            return write(writer, finish(writer, at(column), share, spec.steps, others), value, spec.y, at(column))

        def start(value: float) -> Value:
            return accumulator(writer, at(0), value, writer.empty(at(0).shape))

        dims, width = at(0).dims, spec.y.width
        current = clear_halo(writer, current, spec.y, block, row, 1)
        peak = writer.loop(0, width, 1, start(LOWEST), largest)
        powered = writer.loop(0, width, 1, current, powers)
        total = writer.loop(0, width, 1, start(0.0), add)
        return writer.loop(0, width, 1, powered, divide)

    runs = balanced(spec.y.blocks, 1)
    result = walk(writer, runs, spec.y.height, out, one_row)
    return kernel(
        writer, [x, *others], out, result, set(),
        parts=parts(runs, spec.y.height), tile="1x1", flop=20 * spec.x.channels * spec.x.height * spec.x.width,
    )  # fmt: skip
