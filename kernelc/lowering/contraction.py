"""Dense convolution and matrix product (a 1x1 convolution of a 1x1 image), blocked channels or plain NCHW input."""

from __future__ import annotations

from dataclasses import dataclass

from kernelc.layout.buffer import Buffer
from kernelc.layout.window import Taps
from kernelc.lowering.cut import Cut
from kernelc.lowering.geometry import tap_column, tap_loop, tap_row
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Step, finish, step_operands
from kernelc.lowering.text import Index, Shape, Value, Writer
from kernelc.lowering.tile import Tile, accumulator, along_row, clear_halo, parts, read, row_tiles, walk, window, write
from kernelc.schedule.cost import Tail
from kernelc.schedule.sequence import Reduction
from kernelc.schedule.split import Run

MULTIPLY_ADD = (
    "%m = arith.mulf %a0, %a1 fastmath<contract> : f32",
    "%s = arith.addf %acc, %m fastmath<contract> : f32",
)
"""Body of a contraction: acc + a0 * a1, one fused multiply-add."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """y = steps(bias + sum over taps and input channels of x * w).

    `x` holds zero columns for all taps outside the image; rows outside are left out by the kernel. `blocks` x `columns`
    is the tile: accumulators are blocks * columns vectors. `tail` is the tile of the last block where that has another.
    """

    x: Buffer
    y: Buffer
    taps: Taps
    bias: bool
    steps: tuple[Step, ...]
    blocks: int
    columns: int
    tail: Tail | None = None

    @property
    def weights(self) -> Shape:
        """Packed weights: [output block][kernel row][kernel column][input channel][output lane]."""
        return (self.y.blocks, self.taps.height, self.taps.width, self.x.channels, self.y.lanes)


def lower(spec: Contraction) -> Kernel:
    """The kernel; its operands are x, weights, the bias if any, the steps' tensors, y."""
    writer = Writer()
    x = Value("%x", spec.x.shape, one_by_one=spec.y.lanes > 1)
    weights = Value("%w", spec.weights)
    per_channel = Buffer(spec.y.channels, 1, 1, spec.y.lanes)
    bias = [Value("%bias", per_channel.shape)] if spec.bias else []
    others = step_operands(spec.steps)
    out = Value("%out", spec.y.shape)
    reductions: set[Reduction] = set()

    def one_tile(tile: Tile, current: Value) -> Value:
        start = read(writer, bias[0], per_channel, tile)[0] if bias else 0.0
        total = accumulator(writer, tile, start, window(writer, current, spec.y, tile))
        total = tap_loop(
            writer, spec.taps, tile.row, total,
            lambda kernel_row, row, value: _row_of_taps(
                writer, spec, tile, (kernel_row, row), (x, weights), value, reductions
            ),
        )  # fmt: skip
        return write(writer, finish(writer, tile, total, spec.steps, others), current, spec.y, tile)

    def one_row(block: Index, run: Run, row: str, current: Value) -> Value:
        current = clear_halo(writer, current, spec.y, block, row, run.size)
        lanes, width = cut.tile(run)
        return along_row(
            writer, row_tiles(spec.y, spec.y.width, width), current,
            lambda column, columns, value: one_tile(Tile(block, row, column, run.size, columns, lanes), value),
        )  # fmt: skip

    cut = Cut(spec.y.blocks, spec.y.lanes, spec.blocks, spec.columns, spec.tail)
    result = walk(writer, cut.runs, spec.y.height, out, one_row)
    return kernel(
        writer, [x, weights, *bias, *others], out, result, reductions,
        parts=parts(cut.runs, spec.y.height),
        tile=cut.text,
        flop=2 * spec.y.channels * spec.x.channels * spec.taps.pairs(spec.x.width, spec.y.width),
    )  # fmt: skip


def _row_of_taps(
    writer: Writer,
    spec: Contraction,
    tile: Tile,
    rows: tuple[Index, Index],
    sources: tuple[Value, Value],
    total: Value,
    reductions: set[Reduction],
) -> Value:
    """`total` plus all taps of one kernel row; `rows` is the kernel row and the input row that it reads."""
    kernel_row, row = rows

    def one_tap(tap: Index, current: Value) -> Value:
        column = tap_column(writer, spec.taps, tile.column, tap, spec.x.left)
        place = Place(kernel_row, tap, row, column, spec.taps.column_stride)
        return add_tap(writer, spec.x, tile, place, sources, current, reductions)

    return tap_row(writer, 0, spec.taps.width, total, one_tap)


@dataclass(frozen=True, slots=True)
class Place:
    """One tap of a tile: its element of the kernel, and the row, first column and column stride of the input."""

    kernel_row: Index
    kernel_column: Index
    row: Index
    column: Index
    stride: int


def add_tap(
    writer: Writer,
    x: Buffer,
    tile: Tile,
    place: Place,
    sources: tuple[Value, Value],
    total: Value,
    reductions: set[Reduction],
) -> Value:
    """`total` plus one tap over all input channels; `sources` are the input in buffer `x` and the packed weights."""
    full, rest = divmod(x.channels, x.lanes)
    channels = [(0, full, x.lanes)] * (full > 0) + [(full, 1, rest)] * (rest > 0)
    for first, blocks, inner in channels:
        loops = ("p" if blocks > 1 else "") + ("i" if inner > 1 else "")
        kind = Reduction(len(tile.dims), len(loops))
        reductions |= {kind} if loops else set()
        taken = (first, place.row, place.column, 0)
        weights = (tile.block, place.kernel_row, place.kernel_column, first * x.lanes, 0)
        total = writer.generic(
            tile.dims + loops,
            [
                _input(writer, place.stride, tile, taken, blocks, inner, sources[0]),
                _weights(writer, tile, weights, blocks, inner, sources[1]),
            ],
            total, tile.dims, MULTIPLY_ADD, "%s", loops, kind.tag if loops else "",
        )  # fmt: skip
    return total


def _input(
    writer: Writer, stride: int, tile: Tile, offsets: tuple[Index, ...], blocks: int, inner: int, x: Value
) -> tuple[Value, str]:
    access = ("p" if blocks > 1 else "") + ("w" if tile.columns > 1 else "") + ("i" if inner > 1 else "")
    axes = [{"p": 0, "w": 2, "i": 3}[letter] for letter in access]
    strides = (1, 1, stride, 1)
    return writer.slice(x, offsets, (blocks, 1, tile.columns, inner), axes, strides), access


def _weights(
    writer: Writer, tile: Tile, offsets: tuple[Index, ...], blocks: int, inner: int, weights: Value
) -> tuple[Value, list[str]]:
    channels = {(True, True): [f"p * {inner} + i"], (True, False): ["p"], (False, True): ["i"], (False, False): []}
    channel = channels[blocks > 1, inner > 1]
    axes = ([0] if tile.blocks > 1 else []) + ([3] if channel else []) + ([4] if tile.lanes > 1 else [])
    sizes = (tile.blocks, 1, 1, blocks * inner, tile.lanes)
    return writer.slice(weights, offsets, sizes, axes), [*(["b"] if tile.blocks > 1 else []), *channel, *tile.lane_dims]
