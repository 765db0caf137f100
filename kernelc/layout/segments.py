"""The weights file: one segment per (content, packing), each at a multiple of 64 bytes, in order of first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelc.graph import Weight
from kernelc.layout.arena import ALIGNMENT, aligned
from kernelc.layout.packing import Packing, packed
from kernelfarm.digest import Digest


@dataclass(frozen=True, slots=True)
class Use:
    """A weight that a kernel reads in a packing."""

    weight: Weight
    packing: Packing

    @property
    def key(self) -> tuple[Digest, str]:
        """Identity of the segment: content, and packing of that shape."""
        shape = "x".join(str(size) for size in self.weight.shape)
        return self.weight.digest, f"{self.packing.id}:{shape}"


@dataclass(frozen=True, slots=True)
class Segment:
    """Place of a segment in the file."""

    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """The bytes of the file and the segments in it, by key."""

    data: bytes
    segments: dict[tuple[Digest, str], Segment]


def weights_file(uses: Sequence[Use]) -> WeightsFile:
    """All segments of `uses`, each once; gaps are zero, and the file is a multiple of 64 bytes, never empty."""
    data = bytearray()
    segments: dict[tuple[Digest, str], Segment] = {}
    for use in uses:
        if use.key not in segments:
            content = packed(use.weight, use.packing)
            segments[use.key] = Segment(len(data), len(content))
            data += content
            data += bytes(aligned(len(data)) - len(data))
    return WeightsFile(bytes(data or bytes(ALIGNMENT)), segments)
