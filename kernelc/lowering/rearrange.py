"""Elements in another order, by rows, columns and channels: copies only.

Where channels lie apart on both sides vectors run along the rows, those of several rows in turn for depth to space;
else the channels of a pixel that stay side by side are one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from kernelc.layout.buffer import Buffer
from kernelc.layout.movement import CHANNEL, COLUMN, Digit, Movement, Place
from kernelc.lowering.concat import equal_runs
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import COLUMN as COLUMN_AXIS
from kernelc.lowering.tile import LANE, along_row, clear_halo, parts, row_tiles, walk
from kernelc.schedule.split import Run

MOST_PIECES = 4096
"""Each is a line of code."""


@dataclass(frozen=True, slots=True)
class Rearrange:
    """y = x in the order of `movement`."""

    x: Buffer
    y: Buffer
    movement: Movement
    columns: int
    """Of a vector, where channels lie apart in both and the movement has vectors along rows."""

    @property
    def by_rows(self) -> bool:
        """Whether vectors run along the columns of both."""
        return self.x.lanes == self.y.lanes == 1 and self.movement.interleaved > 0


@dataclass(frozen=True, slots=True)
class Piece:
    """`lanes` lanes from lane `start` of an output block on, which lie side by side in the source.

    `channel` is the source channel of the first one less that of the block's first lane were channels kept; `row` and
    `column` are where the channel's digits alone lead.
    """

    start: int
    lanes: int
    channel: int
    row: int
    column: int


def pieces(spec: Rearrange) -> list[tuple[Piece, ...]]:
    """What each output block is made of."""
    lanes = spec.y.lanes
    together = not spec.movement.mixes_channels and spec.x.lanes > 1
    found = []
    for block in range(spec.y.blocks):
        made: list[Piece] = []
        for lane in range(min(lanes, spec.y.channels - block * lanes)):
            channel, row, column = _place(spec.movement.axes[CHANNEL], block * lanes + lane, spec.movement.origin)
            one = Piece(lane, 1, channel - block * lanes, row, column)
            last = made[-1] if made else None
            if together and channel % spec.x.lanes and last is not None and one == _after(last):
                made[-1] = Piece(last.start, last.lanes + 1, last.channel, row, column)
            else:
                made.append(one)
        found.append(tuple(made))
    return found


def _after(piece: Piece) -> Piece:
    """The piece of one lane that continues a piece."""
    return Piece(piece.start + piece.lanes, 1, piece.channel + piece.lanes, piece.row, piece.column)


def _place(digits: Sequence[Digit], index: int, origin: Place) -> Place:
    """Where `index` of an axis leads from `origin` on."""
    channel, row, column = origin
    for digit in reversed(digits):
        index, count = divmod(index, digit.size)
        channel, row, column = (
            start + count * step for start, step in zip((channel, row, column), digit.step, strict=True)
        )
    return channel, row, column


@dataclass(frozen=True, slots=True)
class _At:
    """A place in the source while the kernel runs."""

    channel: Index
    row: Index
    column: Index

    def moved(self, writer: Writer, step: Place, count: Index) -> _At:
        """The place `count` steps further on."""
        channel, row, column = (
            writer.add(start, writer.mul(count, by)) if by else start
            for start, by in zip((self.channel, self.row, self.column), step, strict=True)
        )
        return _At(channel, row, column)


def lower(spec: Rearrange) -> Kernel:
    """The kernel; its operands are x, y. One part per output block and row; blocks made alike share their code."""
    writer = Writer()
    x, out = Value("%x", spec.x.shape), Value("%out", spec.y.shape)
    made = pieces(spec)
    _, rows, columns = spec.movement.axes
    runs = tuple(Run(start, length, 1) for start, length in equal_runs(made))

    def one_row(block: Index, run: Run, row: str, current: Value) -> Value:
        current = clear_halo(writer, current, spec.y, block, row, 1)
        start = _along_row(writer, rows, _At(0, 0, 0), row)
        if spec.by_rows:
            (piece,) = made[run.start]
            return _by_rows(writer, spec, (x, current), piece, start, (block, row))

        def pixel(at: _At, column: Index, value: Value) -> Value:
            for piece in made[run.start]:
                value = _copy(writer, spec, (x, value), piece, at, (block, row, column))
            return value

        return _columns(writer, columns, start, 0, current, pixel)

    result = walk(writer, runs, spec.y.height, out, one_row)
    tile = f"1x{spec.columns if spec.by_rows else 1}"
    return kernel(writer, [x], out, result, set(), parts=parts(runs, spec.y.height), tile=tile, flop=0)


def _by_rows(
    writer: Writer, spec: Rearrange, values: tuple[Value, Value], piece: Piece, start: _At, target: tuple[Index, Index]
) -> Value:
    """The output after one row of vectors: copies of parts of one row of the source, or of several in turn."""
    x, out = values
    channel, row = target
    digits, rows = spec.movement.axes[COLUMN], spec.movement.interleaved
    outer, along = (digits[:-1], digits[-1]) if rows == 1 else (digits[:-2], digits[-2])
    step = (0, 0, 0) if rows == 1 else digits[-1].step

    def run(at: _At, column: Index, value: Value) -> Value:
        sources = [at.moved(writer, step, number) for number in range(rows)]

        def tile(first: Index, columns: int, current: Value) -> Value:
            reads = [_taken(writer, spec, piece, one, channel, first) for one in sources]
            place = writer.add(writer.add(column, writer.mul(first, rows)), spec.y.left)
            return writer.interleave(x, reads, current, (channel, row, place, 0), COLUMN_AXIS, columns)

        return along_row(writer, row_tiles(spec.y, along.size, spec.columns), value, tile)

    return _columns(writer, outer, start, 0, out, run, rows * along.size)


def _taken(
    writer: Writer, spec: Rearrange, piece: Piece, at: _At, channel: Index, first: Index
) -> tuple[Index, Index, Index, Index]:
    """The place in the source from which a vector is read, where channels lie apart."""
    return (
        writer.add(at.channel, writer.add(channel, piece.channel)),
        writer.add(at.row, piece.row),
        writer.add(writer.add(at.column, piece.column), writer.add(first, spec.x.left)),
        0,
    )


def _along_row(writer: Writer, digits: Sequence[Digit], at: _At, row: Index) -> _At:
    """The place to which the digits of the row lead."""
    for number, digit in enumerate(reversed(digits)):
        count: Index = row
        if number < len(digits) - 1:
            count, row = writer.binary("remui", row, digit.size), writer.binary("divui", row, digit.size)
        at = at.moved(writer, digit.step, count)
    return at


def _columns(
    writer: Writer,
    digits: Sequence[Digit],
    at: _At,
    column: Index,
    out: Value,
    pixel: Callable[[_At, Index, Value], Value],
    each: int = 1,
) -> Value:
    """Loops over the digits of the column: `pixel(place in the source, column, out)` writes `each` columns of `out`."""
    if not digits:
        return pixel(at, column, out)
    digit, inner = digits[0], each * prod(one.size for one in digits[1:])

    def one(count: str, value: Value) -> Value:
        here = writer.add(column, writer.mul(count, inner))
        return _columns(writer, digits[1:], at.moved(writer, digit.step, count), here, value, pixel, each)

    return writer.loop(0, digit.size, 1, out, one)


def _copy(
    writer: Writer,
    spec: Rearrange,
    values: tuple[Value, Value],
    piece: Piece,
    at: _At,
    target: tuple[Index, Index, Index],
) -> Value:
    """The output after the copy of a piece of one pixel; `target` is its block, row and column."""
    x, out = values
    block, row, column = target
    lane: Index
    if spec.movement.mixes_channels or spec.y.lanes % spec.x.lanes:
        channel = writer.add(at.channel, writer.add(writer.mul(block, spec.y.lanes), piece.channel))
        place, lane = writer.binary("divui", channel, spec.x.lanes), writer.binary("remui", channel, spec.x.lanes)
    else:
        blocks, lane = divmod(piece.channel, spec.x.lanes)
        place = writer.index(writer.add(writer.mul(block, spec.y.lanes // spec.x.lanes), blocks))
    taken = (
        place,
        writer.add(at.row, piece.row),
        writer.add(writer.add(at.column, piece.column), spec.x.left),
        lane,
    )
    written = (block, row, writer.add(column, spec.y.left), piece.start)
    return writer.move(x, taken, LANE, out, written, LANE, piece.lanes)
