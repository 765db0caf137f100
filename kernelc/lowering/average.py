"""Global average pooling."""

from __future__ import annotations

from dataclasses import dataclass

from kernelc.layout.buffer import Buffer
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Step, finish, step_operands
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import Tile, accumulator, along_row, clear_halo, parts, walk, window, write
from kernelc.schedule.split import Run, balanced


@dataclass(frozen=True, slots=True)
class GlobalAverage:
    """y[c] = steps(mean of x over the image); `columns` partial sums hide the latency of the additions."""

    x: Buffer
    y: Buffer
    steps: tuple[Step, ...]
    columns: int


def lower(spec: GlobalAverage) -> Kernel:
    """The kernel; its operands are x, the steps' tensors, y. One part per channel block."""
    writer = Writer()
    x = Value("%x", spec.x.shape)
    others = step_operands(spec.steps)
    out = Value("%out", spec.y.shape)
    scale = 1.0 / (spec.x.height * spec.x.width)

    def one_block(block: Index, _run: Run, row: str, current: Value) -> Value:
        point = Tile(block, row, 0, 1, 1, spec.x.lanes)
        current = clear_halo(writer, current, spec.y, block, row, 1)
        total = accumulator(writer, point, 0.0, window(writer, current, spec.y, point))
        for run in balanced(spec.x.width, spec.columns):
            total = _add_run(writer, spec, block, run, x, total)
        mean = [f"%s = arith.mulf %acc, {writer.scalar(scale)} : f32"]
        total = writer.generic(point.dims, [], total, point.dims, mean, "%s")
        return write(writer, finish(writer, point, total, spec.steps, others), current, spec.y, point)

    runs = balanced(spec.y.blocks, 1)
    result = walk(writer, runs, 1, out, one_block)
    return kernel(
        writer, [x, *others], out, result, set(),
        parts=parts(runs, 1), tile=f"1x{spec.columns}", flop=spec.x.channels * spec.x.height * spec.x.width,
    )  # fmt: skip


def _add_run(writer: Writer, spec: GlobalAverage, block: Index, run: Run, x: Value, total: Value) -> Value:
    """`total` plus all columns of a run of tiles, over all rows: partial sums per column of a tile, then their sum."""
    lines = ["%s = arith.addf %acc, %a0 : f32"]
    tile = Tile(block, 0, run.start, 1, run.size, spec.x.lanes)

    def one_tile(row: str, column: Index, value: Value) -> Value:
        place = Tile(block, row, column, 1, run.size, spec.x.lanes)
        return writer.generic(
            tile.dims, [(window(writer, x, spec.x, place), tile.dims)], value, tile.dims, lines, "%s"
        )  # fmt: skip

    def one_row(row: str, value: Value) -> Value:
        return along_row(writer, (run,), value, lambda column, _, inner: one_tile(row, column, inner))

    sums = writer.loop(0, spec.x.height, 1, accumulator(writer, tile, 0.0, writer.empty(tile.shape)), one_row)
    point = tile.lane_dims
    if run.size == 1:
        return writer.generic(point, [(sums, point)], total, point, lines, "%s")
    return writer.generic(tile.dims, [(sums, tile.dims)], total, point, lines, "%s", "w")
