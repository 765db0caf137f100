"""Depthwise convolution: each channel with its own window; no reduction over channels."""

from __future__ import annotations

from dataclasses import dataclass

from kernelc.layout.buffer import Buffer
from kernelc.layout.window import Taps
from kernelc.lowering.contraction import MULTIPLY_ADD
from kernelc.lowering.geometry import tap_column, tap_loop, tap_row
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Step, finish, step_operands
from kernelc.lowering.text import Index, Shape, Value, Writer
from kernelc.lowering.tile import Tile, accumulator, along_row, clear_halo, parts, read, row_tiles, walk, window, write
from kernelc.schedule.split import Run, balanced


@dataclass(frozen=True, slots=True)
class Depthwise:
    """y = steps(bias + sum over taps of x * w), per channel. `x` holds zero columns for all taps outside the image."""

    x: Buffer
    y: Buffer
    taps: Taps
    bias: bool
    steps: tuple[Step, ...]
    columns: int

    @property
    def weights(self) -> Shape:
        """Packed weights: [channel block][kernel row][kernel column][lane]."""
        return (self.y.blocks, self.taps.height, self.taps.width, self.y.lanes)


def lower(spec: Depthwise) -> Kernel:
    """The kernel; its operands are x, weights, the bias if any, the steps' tensors, y."""
    writer = Writer()
    x = Value("%x", spec.x.shape)
    weights = Value("%w", spec.weights)
    per_channel = Buffer(spec.y.channels, 1, 1, spec.y.lanes)
    bias = [Value("%bias", per_channel.shape)] if spec.bias else []
    others = step_operands(spec.steps)
    out = Value("%out", spec.y.shape)

    def one_tile(tile: Tile, current: Value) -> Value:
        start = read(writer, bias[0], per_channel, tile)[0] if bias else 0.0
        total = accumulator(writer, tile, start, window(writer, current, spec.y, tile))
        total = tap_loop(
            writer, spec.taps, tile.row, total,
            lambda kernel_row, row, value: _row_of_taps(writer, spec, tile, (kernel_row, row), (x, weights), value),
        )  # fmt: skip
        return write(writer, finish(writer, tile, total, spec.steps, others), current, spec.y, tile)

    def one_row(block: Index, run: Run, row: str, current: Value) -> Value:
        current = clear_halo(writer, current, spec.y, block, row, run.size)
        return along_row(
            writer, row_tiles(spec.y, spec.y.width, spec.columns), current,
            lambda column, columns, value: one_tile(Tile(block, row, column, run.size, columns, spec.y.lanes), value),
        )  # fmt: skip

    runs = balanced(spec.y.blocks, 1)
    result = walk(writer, runs, spec.y.height, out, one_row)
    return kernel(
        writer, [x, weights, *bias, *others], out, result, set(),
        parts=parts(runs, spec.y.height),
        tile=f"1x{spec.columns}",
        flop=2 * spec.y.channels * spec.taps.pairs(spec.x.width, spec.y.width),
    )  # fmt: skip


def _row_of_taps(
    writer: Writer,
    spec: Depthwise,
    tile: Tile,
    rows: tuple[Index, Index],
    sources: tuple[Value, Value],
    total: Value,
) -> Value:
    """`total` plus the taps of one kernel row; `rows` is the kernel row and the input row that it reads."""
    x, weights = sources
    kernel_row, row = rows
    strides = (1, 1, spec.taps.column_stride, 1)

    def one_tap(tap: Index, current: Value) -> Value:
        column = tap_column(writer, spec.taps, tile.column, tap, spec.x.left)
        pixels = writer.slice(x, [tile.block, row, column, 0], (1, 1, tile.columns, tile.lanes), tile.axes, strides)
        taps = writer.slice(weights, [tile.block, kernel_row, tap, 0], (1, 1, 1, tile.lanes), tile.lane_axes)
        return writer.generic(
            tile.dims, [(pixels, tile.dims), (taps, tile.lane_dims)], current, tile.dims, MULTIPLY_ADD, "%s"
        )

    return tap_row(writer, 0, spec.taps.width, total, one_tap)
