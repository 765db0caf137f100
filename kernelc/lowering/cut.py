"""The output blocks of a dense kernel as runs of tiles, the last block with fewer lanes where few channels fill it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelc.schedule.cost import Tail
from kernelc.schedule.split import Run, balanced


@dataclass(frozen=True, slots=True)
class Cut:
    """`total` blocks of `lanes` in tiles of at most `blocks` x `columns`; the last block apart where there is a `tail`.

    Lanes of the last block past the tail's stay unwritten, as all lanes past the last channel may.
    """

    total: int
    lanes: int
    blocks: int
    columns: int
    tail: Tail | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The tiles along the blocks."""
        if self.tail is None:
            return balanced(self.total, self.blocks)
        full = self.total - 1
        return (*(balanced(full, self.blocks) if full else ()), Run(full, 1, 1))

    def tile(self, run: Run) -> tuple[int, int]:
        """Lanes and most columns of a tile of a run."""
        if self.tail is not None and run.start == self.total - 1:
            return self.tail.lanes, self.tail.columns
        return self.lanes, self.columns

    @property
    def text(self) -> str:
        """For reports, such as "4x6", or "1x16,1x14/8" with a tail of 8 lanes."""
        tail = "" if self.tail is None else f"1x{self.tail.columns}/{self.tail.lanes}"
        main = f"{self.blocks}x{self.columns}" if self.tail is None or self.total > 1 else ""
        return ",".join(filter(None, (main, tail)))
