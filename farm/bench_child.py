"""The child of `farm.bench`: our engine, the peer and the FMA peak in one process, on one pinned core, interleaved.

Usage: python -I -m farm.bench_child FOLDER. It holds request.json as `farm.bench` writes it, and gets result.json.
All times are CPU time of the one thread, in nanoseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farm import agreement, cases, reference_child
from farm.agreement import Array
from farm.cases import TensorSpec
from farm.engine import Engine

BLOCK_NS = 10_000_000
"""How long one side runs before the other has its turn."""
PROBE_ITERATIONS = 50_000
PROBES = 8


def main(arguments: Sequence[str]) -> None:
    """Measure what the request in the folder asks for."""
    folder = Path(arguments[0])
    request = json.loads((folder / "request.json").read_bytes())
    os.sched_setaffinity(0, {request["core"]})
    result = _measure(request)
    (folder / "result.json").write_text(json.dumps(result))


def _measure(request: Mapping[str, Any]) -> dict[str, Any]:
    inputs = [TensorSpec(item["name"], tuple(item["shape"])) for item in request["inputs"]]
    outputs = [TensorSpec(item["name"], tuple(item["shape"])) for item in request["outputs"]]
    (fed,) = cases.seeded(inputs, seed=request["seed"], count=1)
    ours, theirs = _empty(outputs), _empty(outputs)
    shapes = {spec.name: spec.shape for spec in inputs}
    running = reference_child.session(Path(request["model"]), shapes, optimised=True)
    binding = reference_child.bind(running, fed, theirs)
    probe = Probe(Path(request["probe"]))
    with Engine(Path(request["library"]), Path(request["layout"]), request["target"]) as engine:
        sides = {"ours": engine.bind(fed, ours), "onnxruntime": lambda: running.run_with_iobinding(binding)}
        best, peak = interleave(sides, probe.gflops, request["rounds"])
    found = [agreement.compare(spec.name, ours[spec.name], theirs[spec.name]) for spec in outputs]
    return {
        "best_ns": best,
        "peak_gflops": peak,
        "agreements": [
            {"output": one.output, "holds": one.holds, "max_abs_error": one.max_abs_error, "text": one.describe()}
            for one in found
        ],
        "versions": {"onnxruntime": reference_child.VERSION},
    }


def _empty(outputs: Sequence[TensorSpec]) -> dict[str, Array]:
    return {spec.name: np.full(spec.shape, np.nan, np.float32) for spec in outputs}


class Probe:
    """The FMA loop of peak.c as a shared object."""

    def __init__(self, library: Path) -> None:
        self._call = ctypes.CDLL(str(library)).kf_peak
        self._call.restype = ctypes.c_int64
        self._call.argtypes = (ctypes.c_int64, ctypes.c_void_p)
        self._sink = (ctypes.c_float * 16)()

    def gflops(self) -> float:
        """Best of a few runs, in GF/s."""
        best = 0.0
        for _ in range(PROBES):
            began = time.thread_time_ns()
            flop = self._call(PROBE_ITERATIONS, ctypes.addressof(self._sink))
            best = max(best, PROBE_ITERATIONS * flop / max(1, time.thread_time_ns() - began))
        return best


def interleave(
    sides: Mapping[str, Callable[[], None]],
    probe: Callable[[], float],
    rounds: int,
    clock: Callable[[], int] = time.thread_time_ns,
) -> tuple[dict[str, int], float]:
    """Best time of each side over `rounds` of A B B A, and the best peak, which is probed around each round."""
    order = [*sides, *reversed(list(sides))]
    best = {name: _block(run, clock) for name, run in sides.items()}  # also warms caches and clocks
    peak = probe()
    for _ in range(rounds):
        for name in order:
            best[name] = min(best[name], _block(sides[name], clock))
        peak = max(peak, probe())
    return best, peak


def _block(run: Callable[[], None], clock: Callable[[], int]) -> int:
    """Best single time of the runs of one turn; at least three."""
    start = clock()
    best, count = 0, 0
    while count < 3 or clock() - start < BLOCK_NS:
        began = clock()
        run()
        took = max(1, clock() - began)
        best, count = (took if count == 0 else min(best, took)), count + 1
    return best


if __name__ == "__main__":
    main(sys.argv[1:])
