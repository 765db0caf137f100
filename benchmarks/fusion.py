"""`make bench-fusion`: what fusion saves: each model beside itself with one kernel for each operator, in one process.

    python -m benchmarks.fusion [--target NAME] [--rounds N] [MODEL...]

Latency is CPU time of the one thread, the two sides in turn (A B B A); traffic the bytes of each kernel's operands,
each once, counted from the IR; the arena what the memory plan takes. Answers of both sides must agree. Writes
build/bench/fusion.json; exits 1 when a model is not measured or its answers differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import kernel_times, prepared, programs, table
from farm import shapes
from farm.agreement import ABSOLUTE, RELATIVE, Array
from farm.measure_child import Table, fastest, in_a_row, timed_run
from kernelc.graph import Group
from kernelc.lowering.program import Program
from kernelc.schedule.classes import class_of
from kernelfarm import files
from kernelfarm.errors import FarmError
from tests.support import models
from tests.support.models import PackagedModel
from toolchains import target
from toolchains.target import Target

PATH = models.ROOT / "build" / "bench" / "fusion.json"
ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Side:
    """One way to cut a model into kernels: nanoseconds of an inference, bytes moved, bytes of the arena."""

    kernels: int
    nanoseconds: int
    traffic: int
    arena: int


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The same anchors with an epilogue and without: nanoseconds of `count` kernels, summed."""

    anchor: str
    steps: str
    count: int
    alone_ns: int
    with_ns: int

    @property
    def cost(self) -> float:
        """By how much of its time the epilogue makes the kernel slower."""
        return self.with_ns / self.alone_ns - 1


@dataclass(frozen=True, slots=True)
class Compared:
    """A model both ways; `error` is how far the answers lie apart, as a share of what is allowed."""

    model: str
    target: str
    fused: Side
    unfused: Side
    error: float
    epilogues: list[Epilogue] = field(default_factory=list)

    def ratio(self, figure: str) -> float:
        """Fused by unfused of a figure of `Side`."""
        return float(getattr(self.fused, figure) / getattr(self.unfused, figure))


@dataclass(frozen=True, slots=True)
class Ready:
    """A program that can run."""

    program: Program
    table: Table
    outputs: list[Array]


def compare(model: PackagedModel, wanted: Target, rounds: int = ROUNDS) -> Compared:
    """Both sides of a model on the last core that this process may use; raises `FarmError`."""
    graph = programs.simplified(prepared.fetch(model), shapes.parse([model.shape]))
    cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as temporary:
        sides = []
        for number, cut in enumerate((programs.fused, programs.unfused)):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            program = cut(graph, wanted)
            outputs = kernel_times.empty(program.graph)
            sides.append(Ready(program, kernel_times.linked(program, wanted, folder, outputs), outputs))
        os.sched_setaffinity(0, [max(cores)])
        try:
            return _compared(model.name, wanted, sides, rounds)
        finally:
            os.sched_setaffinity(0, cores)


def _compared(name: str, wanted: Target, sides: Sequence[Ready], rounds: int) -> Compared:
    timed: list[list[Sequence[int]]] = [[], []]
    whole: list[list[Sequence[int]]] = [[], []]
    for _ in range(rounds):
        for number in (0, 1, 1, 0):
            whole[number] += in_a_row(timed_run(sides[number].table.infer))
            timed[number] += in_a_row(sides[number].table.infer_timed)
    found = [
        Side(len(one.program.ops), fastest(took)[0], _traffic(one.program), one.program.arena.bytes)
        for one, took in zip(sides, whole, strict=True)
    ]
    readings = [one.table.reading() for one in sides]
    times = [
        dict(zip((op.name for op in one.program.ops), (max(1, ns - reading) for ns in fastest(took)), strict=True))
        for one, took, reading in zip(sides, timed, readings, strict=True)
    ]
    fused, unfused = sides
    return Compared(
        name, wanted.name, *found, apart(fused.outputs, unfused.outputs),
        epilogues(fused.program, times[0], unfused.program, times[1]),
    )  # fmt: skip


def _traffic(program: Program) -> int:
    return sum(op.kernel.work.read + op.kernel.work.written for op in program.ops)


def apart(some: Sequence[Array], others: Sequence[Array]) -> float:
    """The largest difference as a share of what `farm.agreement` allows; not a number makes it infinite. Pure."""
    worst = 0.0
    for one, other in zip(some, others, strict=True):
        share = np.abs(one - other) / (ABSOLUTE + RELATIVE * np.abs(other))
        worst = max(worst, float(np.max(np.where(np.isfinite(share), share, np.inf), initial=0.0)))
    return worst


def epilogues(
    fused: Program, fused_ns: Mapping[str, int], unfused: Program, unfused_ns: Mapping[str, int]
) -> list[Epilogue]:
    """By class of anchor and steps, where both sides lower the anchor to the same layouts and tile. Pure."""
    alone = {group.anchor.name: group for group in unfused.groups}
    tiles = [{op.name: op for op in program.ops} for program in (fused, unfused)]
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for group in fused.groups:
        other = alone.get(group.anchor.name)
        if not group.epilogue or other is None or group.name not in tiles[0] or other.name not in tiles[1]:
            continue
        ours, theirs = tiles[0][group.name], tiles[1][other.name]
        if ours.kernel.tile != theirs.kernel.tile or _places(fused, group) != _places(unfused, other):
            continue
        family = class_of(ours.kind, ours.kernel.operands)
        took = sums[family, " + ".join(node.op for node in group.epilogue)]
        for place, more in enumerate((1, unfused_ns[other.name], fused_ns[group.name])):
            took[place] += more
    return [Epilogue(*key, *found) for key, found in sorted(sums.items())]


def _places(program: Program, group: Group) -> tuple[int | None, int]:
    """Lanes of what the anchor reads and of what the group writes."""
    buffers = program.layout.buffers
    read = buffers.get(group.anchor.inputs[0])
    return (None if read is None else read.lanes, buffers[group.output].lanes)


def lines(found: Sequence[Compared]) -> list[str]:
    """The table, its geometric means, and what epilogues cost over all models. Pure."""
    told = [
        f"{'model':<20}{'kernels':>12}{'latency':>9}{'traffic':>9}{'arena':>7}{'apart':>9}",
        *(
            f"{one.model:<20}{f'{one.fused.kernels}/{one.unfused.kernels}':>12}{one.ratio('nanoseconds'):>9.2f}"
            f"{one.ratio('traffic'):>9.2f}{one.ratio('arena'):>7.2f}{one.error:>9.2g}"
            for one in found
        ),
    ]
    if found:
        means = [mean(found, figure) for figure in ("nanoseconds", "traffic", "arena")]
        told.append(f"{'geometric mean':<32}{means[0]:>9.2f}{means[1]:>9.2f}{means[2]:>7.2f}")
    told += ["", f"{'anchor':<14}{'epilogue':<44}{'kernels':>8}{'cost':>8}"]
    told += [
        f"{one.anchor:<14}{one.steps:<44}{one.count:>8}{100 * one.cost:>7.1f}%"
        for one in sorted(together(found), key=lambda one: one.alone_ns - one.with_ns)
    ]
    return told


def mean(found: Sequence[Compared], figure: str) -> float:
    """Geometric mean of fused by unfused."""
    return table.geometric_mean(one.ratio(figure) for one in found)


def together(found: Sequence[Compared]) -> list[Epilogue]:
    """Epilogues of all models, summed by anchor and steps. Pure."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in (epilogue for model in found for epilogue in model.epilogues):
        for place, more in enumerate((one.count, one.alone_ns, one.with_ns)):
            sums[one.anchor, one.steps][place] += more
    return [Epilogue(*key, *took) for key, took in sorted(sums.items())]


def run(names: Sequence[str], wanted: Target, rounds: int) -> tuple[list[Compared], list[str]]:
    """What was measured, and why others were not; the record is written after each model."""
    found: list[Compared] = []
    lacking: list[str] = []
    PATH.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        try:
            one = compare(prepared.find(name), wanted, rounds)
        except FarmError as error:
            lacking.append(f"{name}: {error.code.name}: {error.what}")
            continue
        print(f"{name} {one.ratio('nanoseconds'):.2f}", file=sys.stderr, flush=True)
        found.append(one)
        if one.error > 1:
            lacking.append(f"{name}: the answers lie {one.error:.2g} times as far apart as they may")
        document = {"schema": "fusion/1", "models": [dataclasses.asdict(one) for one in found]}
        files.atomic_write(PATH, json.dumps(document, indent=1).encode())
    return found, lacking


def main(words: Sequence[str]) -> int:
    """Measure, print, write; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion", description=__doc__.partition("\n")[0])
    names = [model.name for model in prepared.all_models()]
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--target", default=None, help="by default the best that this processor runs")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args(words)
    if unknown := sorted(set(given.models) - set(names)):
        parser.error(f"no such model: {', '.join(unknown)}")
    found, lacking = run(given.models or names, target.load(given.target or prepared.best_target()), given.rounds)
    print("\n".join([*lines(found), *lacking]))
    return 1 if lacking else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
