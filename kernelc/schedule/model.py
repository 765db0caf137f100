"""The performance model: half cycles of a kernel by its counted work, for reports and for whoever compares kernels.

It is a roofline over what the target file says (multiply-add ports, lanes, how factors are broadcast, sizes of caches),
with a weight for each feature of each class. The weights are whole numbers, fitted by `benchmarks.fit_model` on
recorded microbenchmarks and kept in weights.json: nothing is measured when something is compiled, and every machine
that compiles finds the same cost. Steps of a reduction loop cost what the choice of tiles counts
(`kernelc.schedule.cost`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from kernelc.schedule.cost import LATENCY, Machine, held, lanes_of, step_cost
from kernelc.schedule.work import Task, Work
from kernelfarm import canonical

UNIT = 256
"""Weights are in this share of a half cycle."""
LINE = 64
_FILE = Path(__file__).with_name("weights.json")
_ANALYTIC = "analytic"


@dataclass(frozen=True, slots=True)
class Features:
    """Half cycles and counts that a kernel's time is a weighted sum of.

    `core`: steps of reduction loops. `port`: the busiest of arithmetic, loads and stores outside them. `divide`,
    `across`, `transpose`: such operations on a vector. `tile`, `held`: tiles, and their accumulators. `exit`:
    reduction loops left. `turn`: turns of other loops. `near`, `far`: lines from beyond the first and the second
    cache. `once`: 1.
    """

    core: int
    port: int
    divide: int
    across: int
    transpose: int
    tile: int
    held: int
    exit: int
    turn: int
    near: int
    far: int
    once: int = 1


Weights = Mapping[str, int]
NAMES = tuple(field.name for field in fields(Features))


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted half cycles of a kernel, how many of them its arithmetic and how many its memory takes at the least.

    `registers` are those that its largest tile asks for; beyond the machine's it would spill.
    """

    half_cycles: int
    arithmetic: int
    memory: int
    registers: int

    @property
    def bound(self) -> str:
        """What it waits for most."""
        if 2 * max(self.arithmetic, self.memory) < self.half_cycles:
            return "overhead"
        return "memory" if self.memory > self.arithmetic else "compute"


def cost(machine: Machine, target: str, kind: str, work: Work) -> Cost:
    """The cost of a kernel of the class `kind` on a target; one that was never measured has the analytic weights."""
    found, weights = features(machine, work), weights_of(target, kind)
    parts = {name: weights.get(name, 0) * getattr(found, name) for name in NAMES}
    return Cost(
        max(1, sum(parts.values()) // UNIT),
        sum(parts[name] for name in ("core", "port", "divide", "across", "transpose")) // UNIT,
        sum(parts[name] for name in ("near", "far")) // UNIT,
        max((registers(machine, task) for task, _ in work.tasks), default=0),
    )


def registers(machine: Machine, task: Task) -> int:
    """Registers that a tile asks for: by the rule that tiles are chosen by, or accumulators, a weight and a pixel."""
    rows = task.blocks * _pieces(machine, task)
    if task.kind == "reduce":
        return held(lanes_of(machine, task.lanes), rows, task.columns)
    return rows * task.columns + 2 if task.kind == "multiply" else 0


def _pieces(machine: Machine, task: Task) -> int:
    """Vectors of the machine that one of the task takes: several where blocks are wider, or columns of a plain row."""
    return max(1, -(-task.lanes // machine.lanes))


def weights_of(target: str, kind: str) -> Weights:
    """Weights of the features by name."""
    table = _weights()
    return table.get(target, {}).get(kind) or table[_ANALYTIC]["any"]


@cache
def _weights() -> Mapping[str, Mapping[str, Weights]]:
    table: Mapping[str, Mapping[str, Weights]] = canonical.loads(_FILE.read_bytes(), name=_FILE.name)["weights"]
    return table


def features(machine: Machine, work: Work) -> Features:
    """The features of a kernel's work."""
    sums = dict.fromkeys(NAMES, 0)
    ports = {"arithmetic": 0, "load": 0, "store": 0}
    for task, count in work.tasks:
        rows = task.blocks * _pieces(machine, task)
        vectors = rows * task.columns
        narrow = lanes_of(machine, task.lanes)
        match task.kind:
            case "reduce":
                sums["core"] += count * step_cost(narrow, rows, task.columns)
            case "multiply":
                ports["arithmetic"] += count * max(narrow.multiply * vectors, LATENCY)
            case "arithmetic":
                ports["arithmetic"] += count * narrow.multiply * vectors
            case "load":
                ports["load"] += count * vectors * 2 // machine.ports
            case "store":
                ports["store"] += count * vectors * 2
            case "tile":
                sums["tile"] += count
                sums["held"] += count * vectors
            case other:
                sums[other] += count * vectors
    sums["port"] = max(ports.values())
    return Features(**{**sums, "near": _near(machine, work), "far": _far(machine, work), "once": 1})


def _near(machine: Machine, work: Work) -> int:
    """Lines that come from the second cache or farther: every operand once where they do not fit the first together.

    A tile's weights come again for each tile where they alone fill half the first cache.
    """
    whole = sum(work.operands)
    lines = whole // LINE if whole > machine.l1_bytes else 0
    steps: dict[tuple[int, int, int], int] = {}
    tiles: dict[tuple[int, int, int], int] = {}
    for task, count in work.tasks:
        shape = (task.blocks, task.columns, task.lanes)
        if task.kind == "reduce":
            steps[shape] = steps.get(shape, 0) + count
        elif task.kind == "tile":
            tiles[shape] = tiles.get(shape, 0) + count
    for shape, count in steps.items():
        panel = 4 * shape[0] * shape[2] * count // max(1, tiles.get(shape, 1))
        if 2 * panel > machine.l1_bytes:
            lines += 4 * shape[0] * shape[2] * count // LINE
    return lines


def _far(machine: Machine, work: Work) -> int:
    """Lines from beyond the second cache, where the operands do not fit it together."""
    whole = sum(work.operands)
    return whole // LINE if whole > machine.l2_bytes else 0
