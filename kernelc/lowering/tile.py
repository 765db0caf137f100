"""One tile of an output and its windows into the operands, and the walk over tiles that a part range selects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from kernelc.layout.buffer import Buffer
from kernelc.lowering.text import Index, Shape, Value, Writer
from kernelc.schedule.split import Run, balanced, powers
from kernelc.schedule.work import Task

BLOCK, ROW, COLUMN, LANE = range(4)
HALO_COLUMNS = 8
"""Most zero columns that are written without a loop."""

RowBody = Callable[[Index, Run, str, Value], Value]


@dataclass(frozen=True, slots=True)
class Tile:
    """`blocks` channel blocks x `columns` columns of one row, at (`block`, `row`, `column`).

    Unit dimensions are left out of every tensor of the tile (a unit dimension inside an accumulator blocks hoisting),
    so its loops `dims` are a subsequence of b (block), w (column), o (lane).
    """

    block: Index
    row: Index
    column: Index
    blocks: int
    columns: int
    lanes: int
    step: int = 1
    """From one column of the tile to the next: more than one where phases of an image are written one by one."""

    @property
    def strides(self) -> Shape:
        """Steps of a four-dimensional window."""
        return (1, 1, self.step, 1)

    @property
    def dims(self) -> str:
        """The loops over the tile."""
        return ("b" if self.blocks > 1 else "") + ("w" if self.columns > 1 else "") + self.lane_dims

    @property
    def lane_dims(self) -> str:
        """The loop over the lanes; there is none where a block is one channel."""
        return "o" if self.lanes > 1 else ""

    @property
    def lane_axes(self) -> tuple[int, ...]:
        """The axis of a four-dimensional window that `lane_dims` runs along."""
        return (LANE,) if self.lanes > 1 else ()

    @property
    def channel_dims(self) -> str:
        """The loops over the tile's channels."""
        return self.dims.replace("w", "")

    @property
    def shape(self) -> Shape:
        """Extents of the tile's tensors."""
        extents = {"b": self.blocks, "w": self.columns, "o": self.lanes}
        return tuple(extents[dim] for dim in self.dims)

    @property
    def axes(self) -> tuple[int, ...]:
        """Axes of a four-dimensional window that the tile's tensors keep."""
        return tuple({"b": BLOCK, "w": COLUMN, "o": LANE}[dim] for dim in self.dims)


def accumulator(writer: Writer, tile: Tile, start: Value | float, into: Value) -> Value:
    """The tile's start value: a per-channel value (bias) broadcast along the row, or a constant.

    `into` is what it overwrites: a window of the output, so that no other memory ever holds the tile.
    """
    vectors = (tile.blocks, tile.columns, tile.lanes) if tile.lanes > 1 else (1, tile.blocks, tile.columns)
    writer.work.add(Task("tile", *vectors))
    if isinstance(start, float):
        return writer.generic(tile.dims, [], into, tile.dims, [], writer.scalar(start))
    lines, result = [], "%a0"
    if tile.dims == tile.channel_dims:  # a plain copy would be folded away, and its source is not writable
        lines, result = [f"%s = arith.addf %a0, {writer.scalar(0.0)} : f32"], "%s"
    return writer.generic(tile.dims, [(start, tile.channel_dims)], into, tile.dims, lines, result)


def read(writer: Writer, source: Value, buffer: Buffer, tile: Tile) -> tuple[Value, str]:
    """The tile's window of a value of the output's size, or of a [C] or [1, C, 1, 1] one, and its access."""
    if buffer.height == 1 and buffer.width == 1:
        offsets: list[Index] = [tile.block, 0, buffer.left, 0]
        axes = tuple(axis for axis in tile.axes if axis != COLUMN)
        return writer.slice(source, offsets, (tile.blocks, 1, 1, tile.lanes), axes), tile.channel_dims
    return window(writer, source, buffer, tile), tile.dims


def window(writer: Writer, source: Value, buffer: Buffer, tile: Tile) -> Value:
    """The tile's window of a tensor of the output's size."""
    offsets = [tile.block, tile.row, writer.add(tile.column, buffer.left), 0]
    return writer.slice(source, offsets, (tile.blocks, 1, tile.columns, tile.lanes), tile.axes, tile.strides)


def write(writer: Writer, result: Value, out: Value, buffer: Buffer, tile: Tile) -> Value:
    """`out` with the tile's window replaced."""
    offsets = [tile.block, tile.row, writer.add(tile.column, buffer.left), 0]
    return writer.insert(result, out, offsets, (tile.blocks, 1, tile.columns, tile.lanes), tile.strides)


def clear_halo(writer: Writer, out: Value, buffer: Buffer, block: Index, row: Index, blocks: int) -> Value:
    """`out` with the zero columns of one row of `blocks` blocks written."""
    plain = Buffer(buffer.channels, buffer.height, buffer.pitch, buffer.lanes)

    def clear(column: Index, columns: int, current: Value) -> Value:
        tile = Tile(block, row, column, blocks, columns, buffer.lanes)
        zero = writer.generic(tile.dims, [], window(writer, current, plain, tile), tile.dims, [], writer.scalar(0.0))
        return write(writer, zero, current, plain, tile)

    for start, columns in ((0, buffer.left), (buffer.left + buffer.width, buffer.right)):
        if columns:
            out = along_row(writer, tuple(run.moved(start) for run in balanced(columns, HALO_COLUMNS)), out, clear)
    return out


def parts(runs: tuple[Run, ...], rows: int) -> int:
    """Size of the partition that `walk` covers: one part per block tile and row."""
    return sum(run.count for run in runs) * rows


def walk(
    writer: Writer,
    runs: tuple[Run, ...],
    rows: int,
    out: Value,
    row_body: RowBody,
    base: int = 0,
) -> Value:
    """Loops over the parts [%begin, %end): part = base + tile * rows + row, over the channel-block tiles of `runs`.

    `row_body(first block, run, row, out)` writes one row of one tile of `run` and returns `out`. The bounds are exact,
    so any cut of the range gives the same bits; several walks with a base of their own make one kernel.
    """
    first = 0
    begin, end = (writer.index(writer.add(bound, -base)) for bound in ("%begin", "%end"))
    for run in runs:
        low = writer.binary("maxsi", writer.binary("divsi", begin, rows), first)
        high = writer.binary("minsi", writer.binary("ceildivsi", end, rows), first + run.count)
        body = _tile_loop(writer, run, first, rows, row_body, (begin, end))
        out = writer.loop(low, high, 1, out, body, turns=Fraction(run.count))
        first += run.count
    return out


def _tile_loop(
    writer: Writer, run: Run, first: int, rows: int, row_body: RowBody, bounds: tuple[str, str]
) -> Callable[[str, Value], Value]:
    def body(tile: str, out: Value) -> Value:
        base = writer.mul(tile, rows)
        low = writer.binary("maxsi", writer.binary("subi", bounds[0], base), 0)
        high = writer.binary("minsi", writer.binary("subi", bounds[1], base), rows)
        block = writer.add(writer.mul(writer.add(tile, -first), run.size), run.start)
        return writer.loop(
            low, high, 1, out, lambda row, inner: row_body(block, run, row, inner), turns=Fraction(rows)
        )  # fmt: skip

    return body


def row_tiles(buffer: Buffer, width: int, columns: int) -> tuple[Run, ...]:
    """Cover of a row of `width` of a value by tiles of at most `columns`; of whole vectors where channels lie apart.

    There the last two may overlap (`powers`): no kernel writes what it reads, so a number that is computed twice is
    the same.
    """
    return powers(width, columns) if buffer.lanes == 1 else balanced(width, columns)


def along_row(writer: Writer, runs: tuple[Run, ...], out: Value, body: Callable[[Index, int, Value], Value]) -> Value:
    """Static loops over a row's column tiles: `body(column, columns, out)` returns `out`."""
    for run in runs:
        if run.count == 1:
            out = body(run.start, run.size, out)
        else:
            out = writer.loop(run.start, run.end, run.size, out, _columns(run.size, body))
    return out


def _columns(size: int, body: Callable[[Index, int, Value], Value]) -> Callable[[str, Value], Value]:
    return lambda column, out: body(column, size, out)
