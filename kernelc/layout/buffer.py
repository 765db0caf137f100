"""The one layout of the compiler: channels in blocks of the vector lanes, with zero columns for padded readers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

F32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Buffer:
    """f32 memory of one value: [ceil(channels / lanes)][height][left + width + right][lanes], packed, row major.

    `left` and `right` are halo columns; the kernel that writes the value fills them with zeros in every run, because
    the arena is reused. Lanes past `channels` in the last block hold anything (also NaN): a reader keeps them out of
    valid lanes. lanes = 1 is plain NCHW with a halo.
    """

    channels: int
    height: int
    width: int
    lanes: int
    left: int = 0
    right: int = 0

    @property
    def blocks(self) -> int:
        """Channel blocks."""
        return -(-self.channels // self.lanes)

    @property
    def pitch(self) -> int:
        """Columns of a row, halo included."""
        return self.left + self.width + self.right

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Extents of the memory."""
        return (self.blocks, self.height, self.pitch, self.lanes)

    @property
    def bytes(self) -> int:
        """Size of the memory."""
        return prod(self.shape) * F32_BYTES

    @property
    def has_halo(self) -> bool:
        """Whether rows are longer than the image."""
        return self.left > 0 or self.right > 0

    def reshaped(self, height: int, width: int) -> Buffer:
        """The same memory seen with other rows; only without halo and with height * width unchanged."""
        if self.has_halo or height * width != self.height * self.width:
            raise ValueError(f"{self} cannot be seen as {height} x {width}")
        return Buffer(self.channels, height, width, self.lanes)
