"""A chain of element-wise operations without a producer to fuse into."""

from __future__ import annotations

from dataclasses import dataclass

from kernelc.layout.buffer import Buffer
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.steps import Step, produce, step_operands
from kernelc.lowering.text import Index, Value, Writer
from kernelc.lowering.tile import Tile, along_row, clear_halo, parts, read, row_tiles, walk, window, write
from kernelc.schedule.split import Run, balanced


@dataclass(frozen=True, slots=True)
class Elementwise:
    """y = steps(x); `x` has y's size, or is one value per channel that the first step spreads over the image."""

    x: Buffer
    y: Buffer
    steps: tuple[Step, ...]
    columns: int


def lower(spec: Elementwise) -> Kernel:
    """The kernel; its operands are x, the steps' tensors, y."""
    writer = Writer()
    x = Value("%x", spec.x.shape)
    others = step_operands(spec.steps)
    out = Value("%out", spec.y.shape)

    def one_tile(tile: Tile, current: Value) -> Value:
        source = read(writer, x, spec.x, tile)
        result = produce(writer, tile, source, spec.steps, others, window(writer, current, spec.y, tile))
        return write(writer, result, current, spec.y, tile)

    def one_row(block: Index, run: Run, row: str, current: Value) -> Value:
        current = clear_halo(writer, current, spec.y, block, row, run.size)
        return along_row(
            writer, row_tiles(spec.y, spec.y.width, spec.columns), current,
            lambda column, columns, value: one_tile(Tile(block, row, column, run.size, columns, spec.y.lanes), value),
        )  # fmt: skip

    runs = balanced(spec.y.blocks, 1)
    result = walk(writer, runs, spec.y.height, out, one_row)
    return kernel(
        writer, [x, *others], out, result, set(),
        parts=parts(runs, spec.y.height),
        tile=f"1x{spec.columns}",
        flop=spec.y.channels * spec.y.height * spec.y.width * max(1, len(spec.steps)),
    )  # fmt: skip
