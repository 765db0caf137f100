"""What a lowered group is: text, partition, operands and figures."""

from __future__ import annotations

from dataclasses import dataclass

from kernelc.lowering.text import Shape, Value, Writer
from kernelc.schedule.sequence import Reduction, sequence
from kernelc.schedule.work import Work
from kernelfarm.digest import Digest, hex_of, of_bytes

FUNCTION = "group"
"""Name of the function in every kernel's text; the symbol in the object comes from the digest."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One function: `text` is a whole MLIR module with its transform sequence.

    `operands` are the shapes of what it reads, in argument order, then of what it writes; `parts` is the size of its
    partition; `tile`, `flop` and `work` are for reports (flop counts a fused multiply-add as two).
    """

    text: str
    operands: tuple[Shape, ...]
    parts: int
    tile: str
    flop: int
    work: Work

    @property
    def digest(self) -> Digest:
        """Identity: equal text is the same function."""
        return of_bytes(self.text.encode())

    @property
    def symbol(self) -> str:
        """Name of the tile function in the object."""
        return f"kf_{hex_of(self.digest)[:16]}"


def kernel(
    writer: Writer,
    reads: list[Value],
    written: Value,
    result: Value,
    reductions: set[Reduction],
    *,
    parts: int,
    tile: str,
    flop: int,
) -> Kernel:
    """Assemble a kernel from a finished body: `result` is the last state of `written`."""
    text = writer.function(FUNCTION, reads, written, result) + "\n" + sequence(reductions) + "\n"
    shapes = tuple(value.shape for value in [*reads, written])
    return Kernel(text, shapes, parts, tile, flop, writer.work.work(shapes))
