"""Layer normalisation over the channels of each pixel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kernelc.layout.buffer import Buffer
from kernelc.lowering.kernel import Kernel
from kernelc.lowering.reduction import across_lanes, combine, over_blocks, pixelwise
from kernelc.lowering.root import inverse_root
from kernelc.lowering.steps import CONTRACT, Body, Step, finish
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import Tile, accumulator, window, write


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """y = steps((x - mean) / sqrt(variance + epsilon)), both over the channels of a pixel; x and y are of one size."""

    x: Buffer
    y: Buffer
    epsilon: float
    steps: tuple[Step, ...]


def lower(spec: LayerNorm) -> Kernel:
    """The kernel; its operands are x, the steps' tensors, y. One part per image row."""
    return pixelwise(spec.x, spec.y, spec.steps, 7, partial(_one_pixel, spec))


def _one_pixel(
    spec: LayerNorm, writer: Writer, sources: tuple[Value, list[Value]], row: Index, column: Index, out: Value
) -> Value:
    x, others = sources
    lanes = Tile(0, row, column, 1, 1, spec.x.lanes)
    share = writer.scalar(1.0 / spec.x.channels)
    first = window(writer, x, spec.x, Tile(0, row, column, 1, 1, 1))

    def at(block: Index) -> Tile:
        return Tile(block, row, column, 1, 1, spec.x.lanes)

    def from_first(block: Index, target: Value) -> Value:
        """Less the first number: of channels that are alike nothing is left, not the last bit of their mean."""
        pixels = window(writer, x, spec.x, at(block))
        line = ["%s = arith.subf %a0, %a1 : f32"]
        return writer.generic(lanes.dims, [(pixels, lanes.dims), (first, "")], target, lanes.dims, line, "%s")

    def add(block: Index, valid: int, value: Value) -> Value:
        return combine(writer, from_first(block, writer.empty(lanes.shape)), value, valid, 0.0, "addf")

    def centred(block: Index, target: Value) -> Value:
        line = ["%s = arith.subf %acc, %a0 : f32"]
        return writer.generic(lanes.dims, [(mean, "")], from_first(block, target), lanes.dims, line, "%s")

    def add_square(block: Index, valid: int, value: Value) -> Value:
        away = centred(block, writer.empty(lanes.shape))
        line = [f"%s = arith.mulf %acc, %acc {CONTRACT} : f32"]
        return combine(writer, writer.generic(lanes.dims, [], away, lanes.dims, line, "%s"), value, valid, 0.0, "addf")

    def normalise(block: Index, _valid: int, value: Value) -> Value:
        away = centred(block, window(writer, value, spec.y, at(block)))
        line = ["%s = arith.mulf %acc, %a0 : f32"]
        done = writer.generic(lanes.dims, [(factor, lanes.dims)], away, lanes.dims, line, "%s")
        return write(writer, finish(writer, at(block), done, spec.steps, others), value, spec.y, at(block))

    def mean_of(one: Callable[[Index, int, Value], Value]) -> Value:
        """The share of each sum before they are added up: a product of one number alone would fill no register."""
        sums = over_blocks(writer, spec.x, accumulator(writer, lanes, 0.0, writer.empty(lanes.shape)), one)
        line = [f"%s = arith.mulf %acc, {share} : f32"]
        return across_lanes(writer, writer.generic(lanes.dims, [], sums, lanes.dims, line, "%s"), 0.0, "addf")

    mean = mean_of(add)
    body = Body(writer)
    result = inverse_root(body, body.op("addf", "%a0", writer.scalar(spec.epsilon), ""))
    variance = mean_of(add_square)
    factor = writer.generic(lanes.dims, [(variance, "")], writer.empty(lanes.shape), lanes.dims, body.lines, result)
    return over_blocks(writer, spec.x, out, normalise)
