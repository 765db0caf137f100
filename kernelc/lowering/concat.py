"""Values one after another in one buffer, along the channels or along rows or columns: copies only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelc.layout.buffer import Buffer
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import COLUMN, LANE, RowBody, along_row, clear_halo, parts, row_tiles, walk
from kernelc.schedule.split import Run, balanced

CHANNELS, ROWS, COLUMNS = 1, 2, 3
MOST_SOURCES = 128
"""Each has code of its own."""


@dataclass(frozen=True, slots=True)
class Concat:
    """y = the `sources` along `axis` (of [N, C, H, W]); `columns` is the width of a copied tile."""

    sources: tuple[Buffer, ...]
    y: Buffer
    axis: int
    columns: int


@dataclass(frozen=True, slots=True)
class Piece:
    """`lanes` channels from lane `start` of an output block on: lane `lane` and the next ones of a source block.

    `number` is the source; the block is the output block + `delta`.
    """

    start: int
    lanes: int
    number: int
    delta: int
    lane: int


def pieces(channels: Sequence[int], lanes: int, block: int) -> tuple[Piece, ...]:
    """What an output block is made of, for sources of these channels one after another."""
    found = []
    first, low, high = 0, block * lanes, (block + 1) * lanes
    for number, count in enumerate(channels):
        place = max(first, low)
        while place < min(first + count, high):
            source, lane = divmod(place - first, lanes)
            taken = min(lanes - lane, first + count - place, high - place)
            found.append(Piece(place - low, taken, number, source - block, lane))
            place += taken
        first += count
    return tuple(found)


def lower(spec: Concat) -> Kernel:
    """The kernel; its operands are the sources in order, y. Lanes of y past the last channel stay unwritten."""
    writer = Writer()
    sources = [Value(f"%x{number}", buffer.shape) for number, buffer in enumerate(spec.sources)]
    out = Value("%out", spec.y.shape)
    result, count = (
        _channels(writer, spec, sources, out) if spec.axis == CHANNELS else _image(writer, spec, sources, out)
    )
    return kernel(writer, sources, out, result, set(), parts=count, tile=f"1x{spec.columns}", flop=0)


def _channels(writer: Writer, spec: Concat, sources: list[Value], out: Value) -> tuple[Value, int]:
    """One part per output block and row; blocks that are made alike share their code."""
    made = [pieces([source.channels for source in spec.sources], spec.y.lanes, block) for block in range(spec.y.blocks)]
    runs = tuple(Run(start, length, 1) for start, length in equal_runs(made))

    def one_row(block: Index, run: Run, row: str, current: Value) -> Value:
        current = clear_halo(writer, current, spec.y, block, row, 1)
        for piece in made[run.start]:
            current = _copy_row(
                writer, spec, (sources[piece.number], spec.sources[piece.number]), current,
                (writer.add(block, piece.delta), row, 0, piece.lane), (block, row, 0, piece.start), piece.lanes,
            )  # fmt: skip
        return current

    return walk(writer, runs, spec.y.height, out, one_row), parts(runs, spec.y.height)


def equal_runs(made: Sequence[tuple[object, ...]]) -> list[tuple[int, int]]:
    """(start, length) of runs of equal items."""
    found: list[tuple[int, int]] = []
    for index, item in enumerate(made):
        if found and made[found[-1][0]] == item:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((index, 1))
    return found


def _image(writer: Writer, spec: Concat, sources: list[Value], out: Value) -> tuple[Value, int]:
    """One part per source, block and row of it; the first source of a row clears the halo."""
    runs, result, count, first = balanced(spec.y.blocks, 1), out, 0, 0
    for number, buffer in enumerate(spec.sources):
        place = (first, 0) if spec.axis == ROWS else (0, first)
        body = _rows_of(writer, spec, (sources[number], buffer), place, clears=spec.axis == ROWS or number == 0)
        result = walk(writer, runs, buffer.height, result, body, count)
        count += parts(runs, buffer.height)
        first += buffer.height if spec.axis == ROWS else buffer.width
    return result, count


def _rows_of(
    writer: Writer, spec: Concat, source: tuple[Value, Buffer], place: tuple[int, int], *, clears: bool
) -> RowBody:
    def one_row(block: Index, _run: Run, row: str, current: Value) -> Value:
        target = writer.add(row, place[0])
        if clears:
            current = clear_halo(writer, current, spec.y, block, target, 1)
        return _copy_row(
            writer, spec, source, current, (block, row, 0, 0), (block, target, place[1], 0), spec.y.lanes
        )  # fmt: skip

    return one_row


def _copy_row(
    writer: Writer,
    spec: Concat,
    source: tuple[Value, Buffer],
    out: Value,
    read: tuple[Index, Index, int, int],
    written: tuple[Index, Index, int, int],
    lanes: int,
) -> Value:
    """`out` after a copy of `lanes` lanes of one row; the places are (block, row, first column, first lane)."""
    value, buffer = source

    def move(column: Index, current: Value, axis: int, extent: int) -> Value:
        taken = (read[0], read[1], writer.add(column, read[2] + buffer.left), read[3])
        target = (written[0], written[1], writer.add(column, written[2] + spec.y.left), written[3])
        return writer.move(value, taken, axis, current, target, axis, extent)

    def tile(column: Index, columns: int, current: Value) -> Value:
        if spec.y.lanes == 1:
            return move(column, current, COLUMN, columns)
        for number in range(columns):
            current = move(writer.add(column, number), current, LANE, lanes)
        return current

    return along_row(writer, row_tiles(spec.y, buffer.width, spec.columns), out, tile)
