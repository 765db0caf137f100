"""The child of `farm.measure`: times each operation of a payload where it stands in an inference, on one pinned core.

Usage: python -I -m farm.measure_child FOLDER. It holds request.json as `farm.measure` writes it, and gets result.json.
Times are CPU time of the one thread in nanoseconds. A round is a block each of ordinary inferences by the runtime, of
the bare entry table, and of the entry table with a clock between operations. Of each kind the fastest fiftieth counts:
its median, for an operation over those inferences. Minima of each operation would come from different inferences and
add up to less than any whole one takes.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from farm import cases
from farm.agreement import Array
from farm.bench_child import BLOCK_NS
from farm.cases import TensorSpec
from farm.engine import Engine
from farm.peak import Probe
from kernelfarm.errors import Code, FarmError

T = TypeVar("T")

ALIGNMENT = 64
READINGS = 20_000
FASTEST = 50
"""One inference of so many counts."""


def main(arguments: Sequence[str]) -> None:
    """Measure what the request in the folder asks for."""
    folder = Path(arguments[0])
    request = json.loads((folder / "request.json").read_bytes())
    os.sched_setaffinity(0, [request["core"]])
    result = _measure(request)
    (folder / "result.json").write_text(json.dumps(result))


def _measure(request: Mapping[str, Any]) -> dict[str, Any]:
    inputs = [TensorSpec(item["name"], tuple(item["shape"])) for item in request["inputs"]]
    outputs = [TensorSpec(item["name"], tuple(item["shape"])) for item in request["outputs"]]
    (fed,) = cases.seeded(inputs, seed=request["seed"], count=1)
    ordinary = {spec.name: np.full(spec.shape, np.nan, np.float32) for spec in outputs}
    taken = {spec.name: np.full(spec.shape, np.nan, np.float32) for spec in outputs}
    table = Table(request, [fed[spec.name] for spec in inputs], [taken[spec.name] for spec in outputs])
    probe = Probe(Path(request["probe"]))
    with Engine(Path(request["library"]), Path(request["layout"]), request["target"]) as engine:
        whole = engine.bind(fed, ordinary)
        found = _rounds(whole, table, probe, request["rounds"])
    equal = all(taken[spec.name].tobytes() == ordinary[spec.name].tobytes() for spec in outputs)
    return {**found, "reading_ns": table.reading(), "equal": equal}


def _rounds(whole: Callable[[], None], table: Table, probe: Probe, rounds: int) -> dict[str, Any]:
    engine: list[Sequence[int]] = []
    bare: list[Sequence[int]] = []
    timed: list[Sequence[int]] = []
    peak = probe.gflops()
    for _ in range(rounds):
        engine += in_a_row(timed_run(whole))
        bare += in_a_row(timed_run(table.infer))
        timed += in_a_row(table.infer_timed)
        peak = max(peak, probe.gflops())
    return {
        "engine_ns": fastest(engine)[0],
        "table_ns": fastest(bare)[0],
        "timed_ns": fastest(timed),
        "inferences": len(timed),
        "peak_gflops": peak,
    }


def fastest(rows: Sequence[Sequence[int]]) -> list[int]:
    """Medians, column by column, over the fiftieth of the rows with the smallest sums (at least one row)."""
    samples = np.array(sorted(rows, key=sum)[: max(1, len(rows) // FASTEST)])
    return [int(value) for value in np.median(samples, axis=0)]


def in_a_row(run: Callable[[], T]) -> list[T]:
    """What at least three runs in a row give."""
    found: list[T] = []
    start = time.thread_time_ns()
    while len(found) < 3 or time.thread_time_ns() - start < BLOCK_NS:
        found.append(run())
    return found


def timed_run(run: Callable[[], None]) -> Callable[[], tuple[int]]:
    """A run that gives what CPU time of this thread it took, in nanoseconds."""

    def timed() -> tuple[int]:
        began = time.thread_time_ns()
        run()
        return (time.thread_time_ns() - began,)

    return timed


class _Memory(ctypes.Structure):
    _fields_ = (
        ("arena", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
    )


class _Head(ctypes.Structure):
    """The start of struct kf_table in runtime/include/kf_abi.h."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("magic", "bytes", "abi_version", "ir_version", "functions", "ops")),
        ("more", ctypes.c_uint32 * 8),
        *((name, ctypes.c_uint64) for name in ("arena_bytes", "weights_bytes", "scratch_bytes")),
    )


class Table:
    """An entry table over memory of its own, run by farm/entries.c."""

    def __init__(self, request: Mapping[str, Any], inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._code = ctypes.CDLL(request["entries"])
        self._kernels = ctypes.CDLL(request["kernels"])
        self._table = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._kernels, "kf_table")))
        head = _Head.from_address(self._table.value or 0)
        if head.scratch_bytes:
            raise FarmError(Code.INTERNAL, "the entry table wants scratch memory", "it is timed without")
        weights = np.fromfile(request["weights"], np.uint8)
        self._spaces = [_aligned(head.arena_bytes), _aligned(len(weights))]
        self._spaces[0][:] = 0xFF  # NaN
        self._spaces[1][:] = weights
        self._ports = [
            (ctypes.c_void_p * len(group))(*(one.ctypes.data for one in group)) for group in (inputs, outputs)
        ]
        self._keep = inputs, outputs
        places = [space.ctypes.data for space in self._spaces] + [ctypes.addressof(port) for port in self._ports]
        self._memory = _Memory(*places)
        self._took = (ctypes.c_int64 * head.ops)()
        self._clock = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
        self._code.kf_reading.restype = ctypes.c_int64
        self._code.kf_reading.argtypes = (ctypes.c_void_p, ctypes.c_int64)

    def infer(self) -> None:
        """One inference."""
        self._require(self._code.kf_infer(self._table, ctypes.byref(self._memory)))

    def infer_timed(self) -> list[int]:
        """One inference with a clock between operations: the time of each."""
        self._require(self._code.kf_infer_timed(self._table, ctypes.byref(self._memory), self._clock, self._took))
        return list(self._took)

    def reading(self) -> int:
        """What each time holds of the clock's own."""
        return int(self._code.kf_reading(self._clock, READINGS))

    def _require(self, done: int) -> None:
        if not done:
            raise FarmError(Code.INTERNAL, "an operation has too many operands to be timed")


def _aligned(size: int) -> npt.NDArray[np.uint8]:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


if __name__ == "__main__":
    main(sys.argv[1:])
