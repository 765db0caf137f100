"""Max and average pooling with windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from kernelc.layout.buffer import Buffer
from kernelc.layout.window import Taps
from kernelc.lowering.geometry import tap_column, tap_loop, tap_range, tap_row
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Step, finish, step_operands
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import Tile, accumulator, along_row, clear_halo, parts, walk, window, write
from kernelc.schedule.split import Run, balanced

LOWEST = float("-inf")
MAX_SEGMENTS = 128
"""Each has code of its own."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Pooling of each channel. Taps outside the image are left out, so `x` needs no halo and no pad value exists.

    `count_pads`: an average divides by the whole window (ONNX count_include_pad), else by the taps inside the image.
    """

    kind: Literal["max", "average"]
    x: Buffer
    y: Buffer
    taps: Taps
    count_pads: bool
    steps: tuple[Step, ...]
    columns: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Output columns [start, end) whose windows lie on the same taps [first, last) inside the image."""

    start: int
    end: int
    first: int
    last: int


def segments(taps: Taps, width_in: int, width_out: int) -> tuple[Segment, ...]:
    """Cover of the output columns by runs with equal valid taps."""
    found: list[Segment] = []
    whole = (width_in - 1 - (taps.width - 1) * taps.column_dilation + taps.left) // taps.column_stride
    column = 0
    while column < width_out:
        base = column * taps.column_stride - taps.left
        first = max(0, -(base // taps.column_dilation))
        last = min(taps.width, (width_in - 1 - base) // taps.column_dilation + 1)
        first, last = (first, last) if first < last else (0, 0)
        end = min(whole + 1, width_out) if (first, last) == (0, taps.width) else column + 1
        if found and (found[-1].first, found[-1].last) == (first, last):
            found[-1] = Segment(found[-1].start, end, first, last)
        else:
            found.append(Segment(column, end, first, last))
        column = end
    return tuple(found)


def lower(spec: Pool) -> Kernel:
    """The kernel; its operands are x, the steps' tensors, y."""
    writer = Writer()
    x = Value("%x", spec.x.shape)
    others = step_operands(spec.steps)
    out = Value("%out", spec.y.shape)

    def one_tile(tile: Tile, segment: Segment, current: Value) -> Value:
        start = LOWEST if spec.kind == "max" else 0.0
        total = accumulator(writer, tile, start, window(writer, current, spec.y, tile))
        total = tap_loop(
            writer, spec.taps, tile.row, total,
            lambda _, row, value: _row_of_taps(writer, spec, tile, segment, row, x, value),
        )  # fmt: skip
        if spec.kind == "average":
            total = _divide(writer, spec, tile, segment, total)
        return write(writer, finish(writer, tile, total, spec.steps, others), current, spec.y, tile)

    def one_row(block: Index, run: Run, row: str, current: Value) -> Value:
        current = clear_halo(writer, current, spec.y, block, row, run.size)
        for segment in segments(spec.taps, spec.x.width, spec.y.width):
            tiles = tuple(piece.moved(segment.start) for piece in balanced(segment.end - segment.start, spec.columns))
            current = along_row(
                writer, tiles, current,
                _one_segment(one_tile, segment, Tile(block, row, 0, run.size, 1, spec.y.lanes)),
            )  # fmt: skip
        return current

    runs = balanced(spec.y.blocks, 1)
    result = walk(writer, runs, spec.y.height, out, one_row)
    return kernel(
        writer, [x, *others], out, result, set(),
        parts=parts(runs, spec.y.height),
        tile=f"1x{spec.columns}",
        flop=spec.y.channels * spec.taps.pairs(spec.x.width, spec.y.width),
    )  # fmt: skip


def _one_segment(
    one_tile: Callable[[Tile, Segment, Value], Value], segment: Segment, place: Tile
) -> Callable[[Index, int, Value], Value]:
    return lambda column, columns, value: one_tile(replace(place, column=column, columns=columns), segment, value)


def _row_of_taps(writer: Writer, spec: Pool, tile: Tile, segment: Segment, row: Index, x: Value, total: Value) -> Value:
    combine = "maximumf" if spec.kind == "max" else "addf"

    def one_tap(tap: Index, current: Value) -> Value:
        column = tap_column(writer, spec.taps, tile.column, tap, spec.x.left)
        pixels = writer.slice(
            x,
            [tile.block, row, column, 0],
            (1, 1, tile.columns, tile.lanes),
            tile.axes,
            (1, 1, spec.taps.column_stride, 1),
        )
        lines = [f"%s = arith.{combine} %acc, %a0 : f32"]
        return writer.generic(tile.dims, [(pixels, tile.dims)], current, tile.dims, lines, "%s")

    return tap_row(writer, segment.first, segment.last, total, one_tap)


def _divide(writer: Writer, spec: Pool, tile: Tile, segment: Segment, total: Value) -> Value:
    """The sum over the number of taps that count: a static column count times a row count that depends on the row."""
    if spec.count_pads or spec.taps.always_inside:
        columns = spec.taps.width if spec.count_pads else segment.last - segment.first
        divisor = writer.scalar(float(spec.taps.height * columns))
    else:
        base = writer.add(writer.mul(tile.row, spec.taps.row_stride), -spec.taps.top)
        low, high = tap_range(writer, spec.taps, base)
        rows = writer.binary("subi", high, low)
        taps = writer.mul(rows, segment.last - segment.first)
        integer = writer.define(f"arith.index_cast {writer.index(taps)} : index to i32")
        divisor = writer.define(f"arith.sitofp {integer} : i32 to f32")
    lines = [f"%s = arith.divf %acc, {divisor} : f32"]
    return writer.generic(tile.dims, [], total, tile.dims, lines, "%s")
