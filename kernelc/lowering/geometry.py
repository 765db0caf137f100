"""The taps of a window in MLIR: the columns they read, and the loop over the kernel rows that lie inside the image."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from kernelc.layout.window import Taps
from kernelc.lowering.text import Index, Value, Writer

UNROLLED = 16
"""Most taps of a row that are written one by one; the code of a wider window stays as small with a loop."""


def tap_column(writer: Writer, taps: Taps, output: Index, tap: Index, halo: int) -> Index:
    """Column of the haloed input that `tap` reads for the output column `output`."""
    place = writer.add(writer.mul(tap, taps.column_dilation), halo - taps.left)
    return writer.add(writer.mul(output, taps.column_stride), place)


def tap_row(writer: Writer, first: int, last: int, start: Value, body: Callable[[Index, Value], Value]) -> Value:
    """The taps [first, last) of one kernel row in order: `body(tap, value)` returns the next value."""
    if last - first > UNROLLED:
        return writer.loop(first, last, 1, start, body)
    for tap in range(first, last):
        start = body(tap, start)
    return start


def tap_loop(
    writer: Writer,
    taps: Taps,
    output_row: Index,
    start: Value,
    body: Callable[[Index, Index, Value], Value],
) -> Value:
    """Loop over the kernel rows that lie inside the image: `body(kernel row, input row, value)` returns the next value.

    The bounds depend on the output row, so that one piece of code serves border rows and inner rows.
    """
    base = writer.add(writer.mul(output_row, taps.row_stride), -taps.top)
    if taps.height == 1 and taps.always_inside:
        return body(0, base, start)
    low, high = tap_range(writer, taps, base)

    def one(kernel_row: str, value: Value) -> Value:
        return body(kernel_row, writer.add(base, writer.mul(kernel_row, taps.row_dilation)), value)

    return writer.loop(low, high, 1, start, one, turns=Fraction(taps.row_pairs, taps.outputs))


def tap_range(writer: Writer, taps: Taps, base: Index) -> tuple[Index, Index]:
    """First and one past the last kernel row inside the image when tap 0 reads the input row `base`."""
    if taps.always_inside:
        return 0, taps.height
    above = writer.binary("subi", 0, base)
    below = writer.binary("subi", taps.rows, base)
    if taps.row_dilation > 1:
        above = writer.binary("ceildivsi", above, taps.row_dilation)
        below = writer.binary("ceildivsi", below, taps.row_dilation)
    return writer.binary("maxsi", above, 0), writer.binary("minsi", below, taps.height)
