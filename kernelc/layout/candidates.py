"""The layouts that a value may have: lanes of its blocks of channels, and their names."""

from __future__ import annotations

BLOCKS = (8, 16)
"""Lanes of NCHWc8 and NCHWc16, candidates on every target."""
LEAST_NHWC = 4


def candidates(channels: int, block: int) -> tuple[int, ...]:
    """Lanes of each candidate, lowest id first: blocks of the target's own lanes, NCHWc8, NCHWc16, NCHW, NHWC.

    Blocks wider than the target's only where the channels fill more than half of one. NHWC is one block of all
    channels; vectors of the kernels are powers of two, so it is for such numbers of channels up to four of the
    target's vectors. A machine without vectors has channels apart only.
    """
    if block == 1:
        return (1,)
    found = [block, *(lanes for lanes in BLOCKS if lanes <= block or lanes < 2 * channels), 1]
    if LEAST_NHWC <= channels <= 4 * block and channels & (channels - 1) == 0:
        found.append(channels)
    return tuple(dict.fromkeys(found))


def name_of(lanes: int) -> str:
    """The name of a layout as `media.layout_cast` has it."""
    if lanes == 1:
        return "NCHW"
    return f"NCHWc{lanes}" if lanes in (4, *BLOCKS) else "NHWC"
