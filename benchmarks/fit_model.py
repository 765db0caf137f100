"""`python -m benchmarks.fit_model measure|fit|report`: the performance model from microbenchmarks, judged on networks.

`measure` times the microbenchmarks and the pinned models on every target that this processor runs, and writes the
records to benchmarks/model, which is kept in the repository: use an idle machine. `fit` makes
kernelc/schedule/weights.json of the microbenchmarks alone. `report` says how the model ranks the kernels of the
networks, none of which it was fitted on.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import kernel_times, microbenchmarks, model_fit, programs
from farm import shapes
from kernelc.lowering.program import machine_of
from kernelc.schedule import model
from kernelc.schedule.classes import CLASSES
from kernelc.schedule.work import Work
from tests.support import models
from toolchains import processor, target
from toolchains.target import Target

FOLDER = Path(__file__).with_name("model")
MICRO, NETWORKS = FOLDER / "micro.json", FOLDER / "networks.json"
WEIGHTS = Path(model.__file__).with_name("weights.json")
PULL = 0.03
"""How strongly weights that few samples speak of are pulled to the analytic ones."""


@dataclass(frozen=True, slots=True)
class Record:
    """An operation of a graph as it was measured on a target."""

    target: str
    graph: str
    name: str
    kind: str
    work: Work
    flop: int
    half_cycles: int

    def predicted(self) -> int:
        """Half cycles by the model."""
        return model.cost(machine_of(target.load(self.target)), self.target, self.kind, self.work).half_cycles


def read(path: Path) -> list[Record]:
    """The records of a file."""
    document = json.loads(path.read_bytes())
    return [
        Record(name, graph, op["name"], op["class"], Work.from_json(op), op["flop"], op["half_cycles"])
        for name, graphs in document["targets"].items()
        for graph, found in graphs.items()
        for op in found["ops"]
    ]


def fit(records: Sequence[Record]) -> dict[str, dict[str, dict[str, int]]]:
    """Weights by target and class; a class with no record keeps the analytic ones."""
    analytic = dict(model.weights_of("", ""))
    table: dict[str, dict[str, dict[str, int]]] = {"analytic": {"any": analytic}}
    prior = np.array([analytic[name] for name in model.NAMES], np.float64) / model.UNIT
    for name in sorted({record.target for record in records}):
        machine = machine_of(target.load(name))
        table[name] = {}
        for kind in CLASSES:
            some = [record for record in records if (record.target, record.kind) == (name, kind)]
            if some:
                rows = [[getattr(model.features(machine, one.work), key) for key in model.NAMES] for one in some]
                measured = np.array([one.half_cycles for one in some], np.float64)
                found = model_fit.weights(np.array(rows, np.float64), measured, prior, PULL)
                table[name][kind] = dict(zip(model.NAMES, (round(model.UNIT * one) for one in found), strict=True))
    return table


def report(records: Sequence[Record]) -> Iterator[tuple[str, str, int, float, float]]:
    """(target, class or network, samples, rank correlation, median error), each target's whole first."""
    for name in sorted({record.target for record in records}):
        mine = [record for record in records if record.target == name]
        groups: dict[str, list[Record]] = {"all": mine}
        for record in mine:
            groups.setdefault(record.graph, []).append(record)
        for kind in CLASSES:
            groups[kind] = [record for record in mine if record.kind == kind]
        for what, some in groups.items():
            if len(some) > 1:
                guessed = [record.predicted() for record in some]
                measured = [record.half_cycles for record in some]
                yield (
                    name,
                    what,
                    len(some),
                    model_fit.spearman(guessed, measured),
                    model_fit.median_error(guessed, measured),
                )


def main(arguments: Sequence[str]) -> int:
    """Do it; the exit status."""
    match list(arguments):
        case ["measure"]:
            _measure()
        case ["fit"]:
            WEIGHTS.write_text(_text({"weights": fit(read(MICRO))}, depth=3), encoding="ascii")
        case ["report"]:
            for name, what, count, rank, error in report(read(NETWORKS)):
                print(f"{name:<12} {what:<18} {count:>4} {rank:>6.3f} {100 * error:>6.1f} %")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def _measure() -> None:
    networks = [one for one in (*models.MODELS, *models.OTHERS, *models.SHARED) if models.is_at_hand(one.name)]
    found: dict[Path, dict[str, Any]] = {MICRO: {}, NETWORKS: {}}
    with tempfile.TemporaryDirectory() as temporary:
        graphs = list(microbenchmarks.write(Path(temporary)))
        for name in target.names():
            wanted = target.load(name)
            if lacking := processor.missing_features(wanted):
                print(f"{name} not run: this processor lacks {', '.join(lacking)}")
                continue
            for path, some in ((MICRO, graphs), (NETWORKS, [(one.name, models.fetch(one.name)) for one in networks])):
                shape = {one.name: one.shape for one in networks}
                found[path][name] = {graph: _times(file, shape.get(graph), wanted) for graph, file in some}
    for path, targets in found.items():
        path.write_text(_text({"schema": "model-records/1", "targets": targets}, depth=5), encoding="ascii")


def _times(path: Path, shape: str | None, wanted: Target) -> dict[str, Any]:
    program = programs.fused(programs.simplified(path, shapes.parse([shape] if shape else [])), wanted)
    times = kernel_times.measure(program, wanted)
    print(f"{path.stem} {wanted.name} {times.peak_gflops:.0f} GF/s", flush=True)
    return {"peak_gflops": round(times.peak_gflops, 1), "ops": kernel_times.records(program, wanted, times)}


def _text(value: Any, depth: int) -> str:
    """JSON with a line for each value `depth` levels down: files that a person can read and a diff shows."""
    if depth == 0 or not isinstance(value, dict | list) or not value:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}:{_text(one, depth - 1)}" for key, one in sorted(value.items())]
        return "{\n" + ",\n".join(inner) + "\n}"
    return "[\n" + ",\n".join(_text(one, depth - 1) for one in value) + "\n]"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
