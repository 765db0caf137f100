"""Transposed convolution as sub-pixel convolutions: the outputs of each phase are a plain convolution of stride 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kernelc.layout.buffer import Buffer
from kernelc.layout.window import Phase, Taps
from kernelc.lowering.contraction import MULTIPLY_ADD, Place, add_tap
from kernelc.lowering.cut import Cut
from kernelc.lowering.geometry import tap_loop, tap_row
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Step, finish, step_operands
from kernelc.lowering.text import Index, Shape, Value, Writer
from kernelc.lowering.tile import (
    RowBody,
    Tile,
    accumulator,
    along_row,
    clear_halo,
    parts,
    read,
    walk,
    window,
    write,
)
from kernelc.schedule.cost import Tail
from kernelc.schedule.sequence import Reduction
from kernelc.schedule.split import Run, balanced


@dataclass(frozen=True, slots=True)
class ConvTranspose:
    """y = steps(bias + every element of x spread by w). `rows` and `columns` are the phases along each axis.

    `x` holds zero columns for all taps outside the image; rows outside are left out by the kernel. A tile is `blocks`
    x `width` outputs of one phase, which lie `strides[1]` columns apart. `depthwise`: each channel has its own kernel.
    """

    x: Buffer
    y: Buffer
    rows: tuple[Phase, ...]
    columns: tuple[Phase, ...]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    bias: bool
    steps: tuple[Step, ...]
    blocks: int
    width: int
    tail: Tail | None = None
    depthwise: bool = False

    @property
    def weights(self) -> Shape:
        """Packed: [output block][kernel row][kernel column][input channel][output lane]; depthwise: no channel."""
        channels = () if self.depthwise else (self.x.channels,)
        return (self.y.blocks, *self.kernel, *channels, self.y.lanes)


def lower(spec: ConvTranspose) -> Kernel:
    """The kernel; its operands are x, weights, the bias if any, the steps' tensors, y.

    One part per row phase, block tile and row of the phase.
    """
    writer = Writer()
    x, weights = Value("%x", spec.x.shape, one_by_one=spec.y.lanes > 1), Value("%w", spec.weights)
    per_channel = Buffer(spec.y.channels, 1, 1, spec.y.lanes)
    bias = [Value("%bias", per_channel.shape)] if spec.bias else []
    others = step_operands(spec.steps)
    result = out = Value("%out", spec.y.shape)
    reductions: set[Reduction] = set()

    def one_tile(phases: tuple[Phase, Phase], places: tuple[Index, Index], tile: Tile, current: Value) -> Value:
        start = read(writer, bias[0], per_channel, tile)[0] if bias else 0.0
        total = accumulator(writer, tile, start, window(writer, current, spec.y, tile))
        total = _taps(writer, spec, phases, places, tile, (x, weights), total, reductions)
        return write(writer, finish(writer, tile, total, spec.steps, others), current, spec.y, tile)

    def columns_of(phases: tuple[Phase, Phase], place: Index, at: Tile) -> Callable[[Index, int, Value], Value]:
        def body(start: Index, columns: int, current: Value) -> Value:
            column = writer.add(writer.mul(start, spec.strides[1]), phases[1].first)
            tile = replace(at, column=column, columns=columns, step=spec.strides[1])
            return one_tile(phases, (place, start), tile, current)

        return body

    def rows_of(down: Phase) -> RowBody:
        def one_row(block: Index, run: Run, place: str, current: Value) -> Value:
            row = writer.add(writer.mul(place, spec.strides[0]), down.first)
            current = clear_halo(writer, current, spec.y, block, row, run.size)
            lanes, width = cut.tile(run)
            at = Tile(block, row, 0, run.size, 1, lanes)
            for across in spec.columns:
                tiles = balanced(across.count, width)
                current = along_row(writer, tiles, current, columns_of((down, across), place, at))
            return current

        return one_row

    cut = Cut(spec.y.blocks, spec.y.lanes, spec.blocks, spec.width, spec.tail)
    count = 0
    for down in spec.rows:
        result = walk(writer, cut.runs, down.count, result, rows_of(down), count)
        count += parts(cut.runs, down.count)
    return kernel(
        writer, [x, weights, *bias, *others], out, result, reductions,
        parts=count, tile=cut.text, flop=_flop(spec),
    )  # fmt: skip


def _flop(spec: ConvTranspose) -> int:
    pairs = sum(phase.pairs(spec.x.height) for phase in spec.rows)
    pairs *= sum(phase.pairs(spec.x.width) for phase in spec.columns)
    return 2 * spec.y.channels * (1 if spec.depthwise else spec.x.channels) * pairs


def _taps(
    writer: Writer,
    spec: ConvTranspose,
    phases: tuple[Phase, Phase],
    places: tuple[Index, Index],
    tile: Tile,
    sources: tuple[Value, Value],
    total: Value,
    reductions: set[Reduction],
) -> Value:
    """`total` plus all taps of one phase; `places` are row and first column of the tile in the phase's own outputs."""
    down, across = phases
    if not (down.taps and across.taps):
        return total

    def one_row(tap: Index, row: Index, value: Value) -> Value:
        kernel_row = writer.add(writer.mul(tap, -down.kernel_step), down.kernel)

        def one_column(number: Index, current: Value) -> Value:
            place = writer.add(writer.mul(number, across.dilation), across.offset + spec.x.left)
            kernel_column = writer.add(writer.mul(number, -across.kernel_step), across.kernel)
            taken = Place(kernel_row, kernel_column, row, writer.add(places[1], place), 1)
            if spec.depthwise:
                return _depthwise_tap(writer, tile, taken, sources, current)
            return add_tap(writer, spec.x, tile, taken, sources, current, reductions)

        return tap_row(writer, 0, across.taps, value, one_column)

    taps = Taps(down.taps, 1, 1, 1, down.dilation, 1, -down.offset, 0, spec.x.height, down.count)
    return tap_loop(writer, taps, places[0], total, one_row)


def _depthwise_tap(writer: Writer, tile: Tile, place: Place, sources: tuple[Value, Value], total: Value) -> Value:
    pixels = writer.slice(
        sources[0], [tile.block, place.row, place.column, 0], (1, 1, tile.columns, tile.lanes), tile.axes
    )
    offsets = [tile.block, place.kernel_row, place.kernel_column, 0]
    weights = writer.slice(sources[1], offsets, (1, 1, 1, tile.lanes), tile.lane_axes)
    return writer.generic(
        tile.dims, [(pixels, tile.dims), (weights, tile.lane_dims)], total, tile.dims, MULTIPLY_ADD, "%s"
    )
