"""Times of single kernels inside an inference, for the performance model: compiled here, run in this process, pinned.

Objects are kept by the digest of their kernel's text in build/bench/objects, so that a second measurement compiles
nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from farm import entries, peak
from farm.agreement import Array
from farm.measure_child import Table, fastest, in_a_row
from farm.peak import Probe
from kernelc.graph import Graph, Port
from kernelc.lowering.objects import build_objects
from kernelc.lowering.program import Program
from kernelc.lowering.table import table_source
from kernelc.schedule.classes import class_of
from kernelfarm import digest
from tests.support import models
from toolchains import runtime_build, zig
from toolchains.target import Target

OBJECTS = models.ROOT / "build" / "bench" / "objects"
ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Times:
    """Nanoseconds of each operation of a program, less the clock's own, and the FMA peak beside it in GF/s."""

    nanoseconds: tuple[int, ...]
    peak_gflops: float


def records(program: Program, target: Target, times: Times) -> list[dict[str, Any]]:
    """One record for each operation: class, work, measured half cycles of the core as it ran."""
    vector = target.vector
    gigahertz = times.peak_gflops / (2 * vector.f32_lanes * vector.fma_ports)
    return [
        {
            "name": op.name,
            "class": class_of(op.kind, op.kernel.operands),
            "tile": op.kernel.tile,
            "parts": op.kernel.parts,
            "flop": op.kernel.flop,
            "half_cycles": round(2 * gigahertz * took),
            **op.kernel.work.to_json(),
        }
        for op, took in zip(program.ops, times.nanoseconds, strict=True)
    ]


def measure(program: Program, target: Target, rounds: int = ROUNDS) -> Times:
    """Compile what is not kept, and time it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        table = linked(program, target, folder, empty(program.graph))
        probe = Probe(peak.build_probe(target, folder))
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
        rows: list[Sequence[int]] = []
        best = probe.gflops()
        for _ in range(rounds):
            rows += in_a_row(table.infer_timed)
            best = max(best, probe.gflops())
        reading = table.reading()
    return Times(tuple(max(1, took - reading) for took in fastest(rows)), best)


def linked(program: Program, target: Target, folder: Path, outputs: Sequence[Array]) -> Table:
    """The program, compiled where it is not kept, over drawn inputs and these outputs; `folder` holds its files."""
    weights = folder / "weights.bin"
    weights.write_bytes(program.weights.data)
    request = {
        "entries": str(entries.build(target, folder)),
        "kernels": str(_library(program, target, folder)),
        "weights": str(weights),
    }
    return Table(request, _drawn(program.graph), outputs)


def _drawn(graph: Graph) -> list[Array]:
    draw = np.random.Generator(np.random.PCG64(7))
    return [draw.standard_normal(_shape(graph, port)).astype(np.float32) for port in graph.inputs]


def empty(graph: Graph) -> list[Array]:
    """Memory for its outputs."""
    return [np.zeros(_shape(graph, port), np.float32) for port in graph.outputs]


def _shape(graph: Graph, port: Port) -> tuple[int, ...]:
    return graph.tensors[port.tensor].static_shape


def _library(program: Program, target: Target, folder: Path) -> Path:
    kept = OBJECTS / target.name
    kept.mkdir(parents=True, exist_ok=True)
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    built = build_objects(program.kernels, target, folder, jobs=2, known=kept)
    os.sched_setaffinity(0, affinity)
    for symbol, one in built.items():
        if not one.reused:
            (kept / digest.hex_of(program.kernels[symbol].digest)).write_bytes(one.entry().to_bytes())
    table = folder / "table.c"
    table.write_text(table_source(program), encoding="utf-8")
    shutil.copyfile(runtime_build.source_root() / "include" / "kf_abi.h", folder / "kf_abi.h")
    zig.compile_c(table, table.with_suffix(".o"), target)
    output = folder / "kernels.so"
    zig.link_kernels([*(one.path for one in built.values()), table.with_suffix(".o")], output, target)
    return output
