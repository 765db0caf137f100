"""Numbers from a seed that are the same everywhere, on the device too: splitmix64 (Steele, Lea and Flood, 2014).

Integer arithmetic modulo 2^64 and an exact conversion, nothing else; runtime/src/golden.c is the same in C.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP = 0x9E3779B97F4A7C15


def uniform(seed: int, count: int) -> NDArray[np.float32]:
    """`count` multiples of 2^-23 in [-1, 1) as float32: the top 24 bits of splitmix64's numbers from `seed` on."""
    with np.errstate(over="ignore"):
        states = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_STEP)
        top = _mixed(states) >> np.uint64(40)
    return ((top.astype(np.int64) - (1 << 23)).astype(np.float64) / (1 << 23)).astype(np.float32)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
