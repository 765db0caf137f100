"""The layouts that a value may have: lanes of its blocks of channels, and their names."""

from __future__ import annotations

BLOCKS = (8, 16)
"""Lanes of NCHWc8 and NCHWc16, candidates on every target."""
LEAST_NHWC = 4


def least_vector(block: int) -> int:
    """Lanes of the narrowest vectors that kernels compute in: the gate takes halves of those of 64 bytes only."""
    return block // 2 if block >= 16 else block


def candidates(channels: int, block: int) -> tuple[int, ...]:
    """Lanes of each candidate, lowest id first: blocks of the target's own lanes, NCHWc8, NCHWc16, NCHW, NHWC.

    Blocks wider than the target's only where the channels fill more than half of one. NHWC is one block of all
    channels; vectors of the kernels are powers of two, so it is for such numbers of channels from `least_vector` up to
    four of the target's vectors.
    """
    found = [block, *(lanes for lanes in BLOCKS if lanes <= block or lanes < 2 * channels), 1]
    if max(LEAST_NHWC, least_vector(block)) <= channels <= 4 * block and channels & (channels - 1) == 0:
        found.append(channels)
    return tuple(dict.fromkeys(found))


def name_of(lanes: int) -> str:
    """The name of a layout as `media.layout_cast` has it."""
    if lanes == 1:
        return "NCHW"
    return f"NCHWc{lanes}" if lanes in (4, *BLOCKS) else "NHWC"
