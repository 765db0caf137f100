"""How long each operation of a payload takes: `python -m benchmarks.peers.op_times PAYLOAD CORES` prints JSON.

A child of the benchmark: it loads the kernels into itself and calls them in the order of their table. Times are in
nanoseconds of CPU time, the best of several inferences, less what a call of the same function for no parts takes: what
is faster than the clock ticks is 1.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from farm import cases, payload
from kernelfarm.oci_bundle import CONFIG
from tests.support.kernel_table import KernelTable, call

RUNS = 40
LONGEST_NS = 20_000_000_000
"""Fewer runs, three at least, where they take longer than this together."""
ALIGNMENT = 64


def main(folder: Path) -> list[int]:
    """The time of each operation, in the order of the payload's groups."""
    table = KernelTable(folder / payload.KERNELS)
    config = json.loads((folder / CONFIG).read_bytes())
    (fed,) = cases.seeded(cases.specs(config, "inputs"), seed=0, count=1)
    outputs = [np.empty(spec.shape, np.float32) for spec in cases.specs(config, "outputs")]
    weights = np.frombuffer((folder / payload.WEIGHTS).read_bytes(), np.uint8)
    spaces = [
        [_aligned(np.zeros(table.arena_bytes, np.uint8))],
        [_aligned(weights)],
        list(fed.values()),
        outputs,
    ]
    steps = []
    for function, first, count, parts in table.ops:
        operands = table.operands[first : first + count]
        steps.append((function, [spaces[a][b].ctypes.data + offset for a, b, offset in operands], parts))
    whole, empty = [LONGEST_NS] * len(steps), [LONGEST_NS] * len(steps)
    began = time.monotonic_ns()
    for number in range(RUNS):
        for index, (function, addresses, parts) in enumerate(steps):
            empty[index] = min(empty[index], _timed(function, addresses, 0))
            whole[index] = min(whole[index], _timed(function, addresses, parts))
        if number >= 2 and time.monotonic_ns() - began > LONGEST_NS:
            break
    return [max(1, took - nothing) for took, nothing in zip(whole, empty, strict=True)]


def _timed(function: object, addresses: list[int], parts: int) -> int:
    began = time.thread_time_ns()
    call(function, addresses, [(0, parts)])
    return time.thread_time_ns() - began


def _aligned(array: np.ndarray) -> np.ndarray:
    raw = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    raw[start : start + array.nbytes] = array
    return raw[start : start + array.nbytes]


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(core) for core in sys.argv[2].split(",")})
    print(json.dumps(main(Path(sys.argv[1]))))
