"""Matrix products of two values, one for each channel: channels are lanes, so that nothing is reduced across them."""

from __future__ import annotations

from dataclasses import dataclass

from kernelc.layout.buffer import Buffer
from kernelc.lowering.contraction import MULTIPLY_ADD
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Step, finish, step_operands
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import Tile, accumulator, along_row, clear_halo, parts, row_tiles, walk, window, write
from kernelc.schedule.split import Run, balanced


@dataclass(frozen=True, slots=True)
class Product:
    """y = steps(left * right) for each channel: rows and columns of the images are those of the matrices."""

    left: Buffer
    right: Buffer
    y: Buffer
    steps: tuple[Step, ...]
    columns: int


def lower(spec: Product) -> Kernel:
    """The kernel; its operands are left, right, the steps' tensors, y. One part per channel block and row."""
    writer = Writer()
    left, right = Value("%x", spec.left.shape), Value("%w", spec.right.shape)
    others = step_operands(spec.steps)
    out = Value("%out", spec.y.shape)

    def one_tile(tile: Tile, current: Value) -> Value:
        def one_term(term: str, value: Value) -> Value:
            factor = window(writer, left, spec.left, Tile(tile.block, tile.row, term, 1, 1, tile.lanes))
            row = window(writer, right, spec.right, Tile(tile.block, term, tile.column, 1, tile.columns, tile.lanes))
            inputs = [(factor, tile.lane_dims), (row, tile.dims)]
            return writer.generic(tile.dims, inputs, value, tile.dims, MULTIPLY_ADD, "%s")

        total = accumulator(writer, tile, 0.0, window(writer, current, spec.y, tile))
        total = writer.loop(0, spec.left.width, 1, total, one_term)
        return write(writer, finish(writer, tile, total, spec.steps, others), current, spec.y, tile)

    def one_row(block: Index, run: Run, row: str, current: Value) -> Value:
        current = clear_halo(writer, current, spec.y, block, row, run.size)
        return along_row(
            writer, row_tiles(spec.y, spec.y.width, spec.columns), current,
            lambda column, columns, value: one_tile(Tile(block, row, column, 1, columns, spec.y.lanes), value),
        )  # fmt: skip

    runs = balanced(spec.y.blocks, 1)
    result = walk(writer, runs, spec.y.height, out, one_row)
    return kernel(
        writer, [left, right, *others], out, result, set(),
        parts=parts(runs, spec.y.height),
        tile=f"1x{spec.columns}",
        flop=2 * spec.y.channels * spec.y.height * spec.y.width * spec.left.width,
    )  # fmt: skip
