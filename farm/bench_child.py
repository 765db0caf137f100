"""The child of `farm.bench`: our engine, the peer and the FMA peak in one process, on pinned cores, interleaved.

Usage: python -I -m farm.bench_child FOLDER. It holds request.json as `farm.bench` writes it, and gets result.json.
Times are in nanoseconds: on one core CPU time of its one thread; on several real time, as many threads as cores, and
before each turn a pause in which the threads of the other side stop looking for work.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from farm import agreement, cases, reference_child
from farm.agreement import Array
from farm.cases import TensorSpec
from farm.engine import Engine
from farm.peak import Probe

BLOCK_NS = 10_000_000
"""How long one side runs before the other has its turn."""
PAUSE_S = 0.02
"""Of several threads before a turn: longer than either side's look for work before they sleep."""


def main(arguments: Sequence[str]) -> None:
    """Measure what the request in the folder asks for."""
    folder = Path(arguments[0])
    request = json.loads((folder / "request.json").read_bytes())
    os.sched_setaffinity(0, request["cores"])  # before there are threads: they inherit it
    result = _measure(request)
    (folder / "result.json").write_text(json.dumps(result))


def _measure(request: Mapping[str, Any]) -> dict[str, Any]:
    inputs = [TensorSpec(item["name"], tuple(item["shape"])) for item in request["inputs"]]
    outputs = [TensorSpec(item["name"], tuple(item["shape"])) for item in request["outputs"]]
    (fed,) = cases.seeded(inputs, seed=request["seed"], count=1)
    ours, theirs = _empty(outputs), _empty(outputs)
    shapes = {spec.name: spec.shape for spec in inputs}
    threads = len(request["cores"])
    running = reference_child.session(Path(request["model"]), shapes, optimised=True, threads=threads)
    binding = reference_child.bind(running, fed, theirs)
    probe = Probe(Path(request["probe"]))
    with Engine(Path(request["library"]), Path(request["layout"]), request["target"], threads) as engine:
        sides = {"ours": engine.bind(fed, ours), "onnxruntime": lambda: running.run_with_iobinding(binding)}
        clocks = ONE_THREAD if threads == 1 else SEVERAL_THREADS
        times, peak = interleave(sides, probe.gflops, request["rounds"], clocks)
    found = [agreement.compare(spec.name, ours[spec.name], theirs[spec.name]) for spec in outputs]
    return {
        "best_ns": {name: times.best_ns for name, times in times.items()},
        "cpu_ns": {name: times.cpu_ns / times.count for name, times in times.items()},
        "peak_gflops": peak,
        "agreements": [
            {"output": one.output, "holds": one.holds, "max_abs_error": one.max_abs_error, "text": one.describe()}
            for one in found
        ],
        "versions": {"onnxruntime": reference_child.VERSION},
    }


def _empty(outputs: Sequence[TensorSpec]) -> dict[str, Array]:
    return {spec.name: np.full(spec.shape, np.nan, np.float32) for spec in outputs}


@dataclass(frozen=True, slots=True)
class Clocks:
    """`single` times one inference, `cpu` all threads of the process; `pause` comes before each turn."""

    single: Callable[[], int]
    cpu: Callable[[], int]
    pause: Callable[[], None]


ONE_THREAD = Clocks(time.thread_time_ns, time.thread_time_ns, lambda: None)
SEVERAL_THREADS = Clocks(time.perf_counter_ns, time.process_time_ns, lambda: time.sleep(PAUSE_S))


@dataclass(slots=True)
class Times:
    """Of one side: its best inference, and CPU time and number of all."""

    best_ns: int = 0
    cpu_ns: int = 0
    count: int = 0

    def add(self, took_ns: int) -> None:
        """One more inference."""
        self.best_ns = took_ns if self.count == 0 else min(self.best_ns, took_ns)
        self.count += 1


def interleave(
    sides: Mapping[str, Callable[[], None]], probe: Callable[[], float], rounds: int, clocks: Clocks = ONE_THREAD
) -> tuple[dict[str, Times], float]:
    """Times of each side over `rounds` of A B B A, and the best peak, which is probed around each round."""
    order = [*sides, *reversed(list(sides))]
    found = {name: Times() for name in sides}
    for name, run in sides.items():  # also warms caches and clocks
        _block(run, found[name], clocks)
    peak = probe()
    for _ in range(rounds):
        for name in order:
            _block(sides[name], found[name], clocks)
        peak = max(peak, probe())
    return found, peak


def _block(run: Callable[[], None], times: Times, clocks: Clocks) -> None:
    """One turn: at least three inferences. The system counts other threads' CPU time by ticks: only sums are true."""
    clocks.pause()
    cpu, start, before = clocks.cpu(), clocks.single(), times.count
    while times.count < before + 3 or clocks.single() - start < BLOCK_NS:
        began = clocks.single()
        run()
        times.add(max(1, clocks.single() - began))
    times.cpu_ns += clocks.cpu() - cpu


if __name__ == "__main__":
    main(sys.argv[1:])
