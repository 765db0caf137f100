"""Resampled images: whole nearest factors as strided copies, everything else by tables of places and weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelc.graph import Weight, weight_of
from kernelc.layout.buffer import Buffer
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Step, finish, produce, step_operands
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import LANE, Tile, accumulator, along_row, clear_halo, parts, walk, window, write
from kernelc.numerics.resampling import Table
from kernelc.schedule.split import Run, balanced
from kernelc.schedule.work import Task

MOST_REPEATS = 16
"""Copies of one column that are written one by one."""
MOST_TAPS = 64
"""Columns that one output may read: each becomes a line of code."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """y = steps(x with each row `rows` times and each column `columns` times); `width` input columns make a tile."""

    x: Buffer
    y: Buffer
    rows: int
    columns: int
    steps: tuple[Step, ...]
    width: int


@dataclass(frozen=True, slots=True)
class Resample:
    """y = steps(x resampled by the tables of `weights_of`, with this many taps along height and width)."""

    x: Buffer
    y: Buffer
    row_taps: int
    column_taps: int
    steps: tuple[Step, ...]


def factor(table: Table, size: int) -> int | None:
    """How often each of `size` elements is repeated, where that is all that the table does."""
    times, rest = divmod(len(table.indices), size)
    plain = table.taps == 1 and not rest and not table.outside.any() and bool((table.weights == 1).all())
    same = plain and bool((table.indices[:, 0] == np.arange(len(table.indices)) // times).all())
    return times if same else None


def weights_of(table: Table) -> Weight:
    """[outputs, 2 * taps]: for each output the places that it reads (i32 bits), then their weights (f32)."""
    weights = np.where(table.outside[:, None], 0.0, table.weights)
    places = np.ascontiguousarray(table.indices, np.int32).view(np.float32)
    return weight_of(np.concatenate([places, weights.astype(np.float32)], axis=1), "f32")


def lower_repeat(spec: Repeat) -> Kernel:
    """The kernel; its operands are x, the steps' tensors, y. One part per channel block and output row."""
    writer = Writer()
    x, out = Value("%x", spec.x.shape), Value("%out", spec.y.shape)
    others = step_operands(spec.steps)

    def one_row(block: Index, _run: Run, row: str, current: Value) -> Value:
        current = clear_halo(writer, current, spec.y, block, row, 1)
        source_row = row if spec.rows == 1 else writer.binary("divui", row, spec.rows)

        def tile(column: Index, columns: int, value: Value) -> Value:
            if not spec.steps:
                return _copies(writer, spec, (x, value), (block, source_row, row), column, columns)
            taken = Tile(block, source_row, column, 1, columns, spec.y.lanes)
            for phase in range(spec.columns):
                place = writer.add(writer.mul(column, spec.columns), phase)
                target = Tile(block, row, place, 1, columns, spec.y.lanes, spec.columns)
                source, before = window(writer, x, spec.x, taken), window(writer, value, spec.y, target)
                result = produce(writer, target, (source, target.dims), spec.steps, others, before)
                value = write(writer, result, value, spec.y, target)
            return value

        return along_row(writer, balanced(spec.x.width, spec.width), current, tile)

    runs = balanced(spec.y.blocks, 1)
    result = walk(writer, runs, spec.y.height, out, one_row)
    return kernel(
        writer, [x, *others], out, result, set(),
        parts=parts(runs, spec.y.height),
        tile=f"1x{spec.width}",
        flop=spec.y.channels * spec.y.height * spec.y.width * len(spec.steps),
    )  # fmt: skip


def _copies(
    writer: Writer,
    spec: Repeat,
    values: tuple[Value, Value],
    places: tuple[Index, Index, Index],
    column: Index,
    columns: int,
) -> Value:
    """The output after copies of `columns` pixels from `column` on; `places`: block, input row, output row."""
    x, out = values
    block, source_row, row = places
    for number in range(columns):
        taken = writer.add(column, number)
        source = (block, source_row, writer.add(taken, spec.x.left), 0)
        for phase in range(spec.columns):
            place = writer.add(writer.mul(taken, spec.columns), phase + spec.y.left)
            out = writer.move(x, source, LANE, out, (block, row, place, 0), LANE, spec.y.lanes)
    return out


def lower_resample(spec: Resample) -> Kernel:
    """The kernel; its operands are x, the tables of rows and columns, the steps' tensors, y."""
    writer = Writer()
    x, out = Value("%x", spec.x.shape), Value("%out", spec.y.shape)
    rows = Value("%rows", (spec.y.height, 2 * spec.row_taps))
    columns = Value("%columns", (spec.y.width, 2 * spec.column_taps))
    others = step_operands(spec.steps)

    def one_pixel(tile: Tile, current: Value) -> Value:
        across = [_entry(writer, columns, tile.column, tap, spec.column_taps) for tap in range(spec.column_taps)]
        total = accumulator(writer, tile, 0.0, window(writer, current, spec.y, tile))

        def one_tap(tap: Index, value: Value) -> Value:
            row, share = _entry(writer, rows, tile.row, tap, spec.row_taps)
            inputs, lines, total = [], [], "%acc"
            for number, (column, weight) in enumerate(across):
                offsets = [tile.block, row, writer.add(column, spec.x.left), 0]
                inputs.append((writer.slice(x, offsets, (1, 1, 1, tile.lanes), tile.lane_axes), tile.lane_dims))
                factor = writer.define(f"arith.mulf {share}, {weight} : f32")
                lines += [
                    f"%p{number} = arith.mulf %a{number}, {factor} fastmath<contract> : f32",
                    f"%s{number} = arith.addf {total}, %p{number} fastmath<contract> : f32",
                ]
                total = f"%s{number}"
            return writer.generic(tile.lane_dims, inputs, value, tile.lane_dims, lines, total)

        total = writer.loop(0, spec.row_taps, 1, total, one_tap) if spec.row_taps > 1 else one_tap(0, total)
        return write(writer, finish(writer, tile, total, spec.steps, others), current, spec.y, tile)

    def one_row(block: Index, _run: Run, row: str, current: Value) -> Value:
        current = clear_halo(writer, current, spec.y, block, row, 1)
        return along_row(
            writer, balanced(spec.y.width, 1), current,
            lambda column, _, value: one_pixel(Tile(block, row, column, 1, 1, spec.y.lanes), value),
        )  # fmt: skip

    runs = balanced(spec.y.blocks, 1)
    result = walk(writer, runs, spec.y.height, out, one_row)
    return kernel(
        writer, [x, rows, columns, *others], out, result, set(),
        parts=parts(runs, spec.y.height),
        tile="1x1",
        flop=2 * spec.y.channels * spec.y.height * spec.y.width * spec.row_taps * spec.column_taps,
    )  # fmt: skip


def _entry(writer: Writer, table: Value, output: Index, tap: Index, taps: int) -> tuple[str, str]:
    """Place (an index) and weight (an f32) of one tap of an output."""
    place = _number(writer, table, output, tap)
    whole = writer.define(f"arith.bitcast {place} : f32 to i32")
    return writer.define(f"arith.index_cast {whole} : i32 to index"), _number(
        writer, table, output, writer.add(tap, taps)
    )


def _number(writer: Writer, table: Value, row: Index, column: Index) -> str:
    writer.work.add(Task("load"))
    places = f"{writer.index(row)}, {writer.index(column)}"
    return writer.define(f"tensor.extract {table.name}[{places}] : {table.type}")
