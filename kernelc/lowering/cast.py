"""Between the caller's row-major memory and a value, and between channels apart and blocks of them."""

from __future__ import annotations

from dataclasses import dataclass

from kernelc.layout.buffer import Buffer
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import BLOCK, COLUMN, LANE, along_row, clear_halo, parts, walk
from kernelc.schedule.split import Run, chunks

MOST_COPIED = 16
"""Numbers that one vector copies."""


@dataclass(frozen=True, slots=True)
class Cast:
    """y = x in another layout: plain (lanes = 1) to blocked, blocked to plain, or plain to plain with another halo.

    Of a sequence the caller's side has all channels of a pixel side by side: one block, with a lane for each.
    Lanes of `y` past the last channel stay unwritten: nothing reads them.
    """

    x: Buffer
    y: Buffer
    columns: int

    @property
    def multiple(self) -> int:
        """Column tiles are a multiple of this where possible: a whole vector, or a square block to transpose."""
        return min(self.columns, max(self.x.lanes, self.y.lanes, 16))

    @property
    def lanes(self) -> int:
        """Channels of a part: a block of the blocked side, whichever that is; of a long one without halo a piece."""
        if min(self.x.lanes, self.y.lanes) == 1:
            widest = max(self.x.lanes, self.y.lanes)
            return widest if self.y.lanes > 1 and self.y.has_halo else min(widest, MOST_COPIED)
        return self.y.lanes if self.x.lanes == self.x.channels else self.x.lanes


def lower(spec: Cast) -> Kernel:
    """The kernel; its operands are x, y. One part per channel block (per channel where both are plain) and row."""
    writer = Writer()
    x, out = Value("%x", spec.x.shape), Value("%out", spec.y.shape)
    lanes = spec.lanes
    full, rest = divmod(spec.x.channels, lanes)

    def one_row(block: Index, run: Run, row: str, current: Value) -> Value:
        channels = lanes if run.start < full else rest
        if spec.y.lanes == 1:
            current = clear_halo(writer, current, spec.y, writer.mul(block, lanes), row, channels)
        else:
            current = clear_halo(writer, current, spec.y, block, row, 1)
        return along_row(
            writer, chunks(spec.y.width, spec.columns, spec.multiple), current,
            lambda column, columns, value: _move(writer, spec, x, (block, row, column), (channels, columns), value),
        )  # fmt: skip

    runs = tuple(Run(start, count, 1) for start, count in ((0, full), (full, min(rest, 1))) if count)
    result = walk(writer, runs, spec.y.height, out, one_row)
    return kernel(
        writer, [x], out, result, set(),
        parts=parts(runs, spec.y.height), tile=f"1x{spec.columns}", flop=0,
    )  # fmt: skip


def _move(
    writer: Writer, spec: Cast, x: Value, place: tuple[Index, Index, Index], extents: tuple[int, int], out: Value
) -> Value:
    """Copy `extents` = (channels, columns) at `place` = (block, row, column)."""
    channels = extents[0]
    dims = "wo" if min(extents) > 1 else "o" if channels > 1 else "w"
    source = _side(writer, spec.x, spec.lanes, place, extents, dims)
    target = _side(writer, spec.y, spec.lanes, place, extents, dims)
    if source.access == target.access == "wo":
        return _move_pixels(writer, (x, source), (out, target), extents)
    if len(dims) == 1:
        # a generic that only copies along one axis would be folded into a copy of bytes, which may become a call
        pieces = _powers(max(extents)) if spec.x.lanes == spec.y.lanes else (Run(0, 1, max(extents)),)
        for piece in pieces:
            read, written = (
                (*side.offsets[:2], writer.add(side.offsets[2], piece.start), side.offsets[3])
                for side in (source, target)
            )
            out = writer.move(x, read, source.axes[0], out, written, target.axes[0], piece.size)
        return out
    values = writer.slice(x, source.offsets, source.sizes, source.axes)
    before = writer.slice(out, target.offsets, target.sizes, target.axes)
    moved = writer.generic(dims, [(values, source.access)], before, target.access, [], "%a0")
    return writer.insert(moved, out, target.offsets, target.sizes)


def _move_pixels(
    writer: Writer, source: tuple[Value, _Side], target: tuple[Value, _Side], extents: tuple[int, int]
) -> Value:
    """Copy each of `extents` = (channels, columns) where the channels of a pixel lie side by side in both."""
    (x, read), (out, written) = source, target
    for number in range(extents[1]):
        for piece in _powers(extents[0]):
            places = [
                (*side.offsets[:2], writer.add(side.offsets[2], number), writer.add(side.offsets[3], piece.start))
                for side in (read, written)
            ]
            out = writer.move(x, places[0], LANE, out, places[1], LANE, piece.size)
    return out


def _powers(extent: int) -> tuple[Run, ...]:
    """A cover by powers of two of at most 16: other vectors are split into single numbers by some back ends."""
    runs: list[Run] = []
    start = 0
    while start < extent:
        size = min(MOST_COPIED, 1 << (extent - start).bit_length() - 1)
        runs.append(Run(start, 1, size))
        start += size
    return tuple(runs)


@dataclass(frozen=True, slots=True)
class _Side:
    """Window of one side, the axes of it that stay, and their loops."""

    offsets: tuple[Index, ...]
    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    access: str


def _side(
    writer: Writer,
    buffer: Buffer,
    lanes: int,
    place: tuple[Index, Index, Index],
    extents: tuple[int, int],
    dims: str,
) -> _Side:
    block, row, column = place
    channels, columns = extents
    plain = buffer.lanes == 1
    within: Index = 0
    if lanes != buffer.lanes > 1:  # one block of all channels: a part is some lanes of it
        block, within = 0, writer.mul(block, lanes)
    letters = {COLUMN: "w", BLOCK if plain else LANE: "o"}
    axes = tuple(axis for axis in sorted(letters) if letters[axis] in dims)
    return _Side(
        (writer.mul(block, lanes if plain else 1), row, writer.add(column, buffer.left), within),
        (channels, 1, columns, 1) if plain else (1, 1, columns, channels),
        axes,
        "".join(letters[axis] for axis in axes),
    )
