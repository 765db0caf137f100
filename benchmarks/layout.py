"""`make bench-layout`: the exact choice of layouts of 1,500 operators, and how well its model ranks kernels.

Exits 1 where a choice is not proved to be the least, takes 2 s or more, or the ranks agree less than 0.7.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import kernel_times, model_fit
from kernelc import fusion
from kernelc.graph import Graph
from kernelc.layout.choice import Question, kernel_name, question
from kernelc.layout.optimise import choose
from kernelc.lowering.program import build_program, machine_of
from tests.support.backend_graphs import Maker
from tests.support.choices import KINDS, network
from toolchains import processor, target

OPERATORS = 1500
SECONDS = 2.0
RANK = 0.7
ROUNDS = 5
NAMES = ("x86-64-v3", "x86-64-v4")


def main() -> int:
    """Measure and print."""
    return max(_networks(), *(_ranks(name) for name in NAMES))


def _networks() -> int:
    status, machine = 0, machine_of(target.load("x86-64-v4"))
    print("network    operators variables width branches  build s  solve s")
    for kind in KINDS:
        graph = network(kind, OPERATORS)
        groups = fusion.group(graph, ()).groups  # each operator alone: as many choices as operators
        times = []
        for _ in range(3):  # the fastest of three: other processes share the machine
            start = time.process_time()
            found = question(graph, groups, machine)
            middle = time.process_time()
            choice = choose(found)
            times.append((time.process_time() - middle, middle - start))
        solve, build = min(times)
        steps = choice.solution.steps
        print(
            f"{kind:<10} {len(graph.nodes):>9} {len(found.problem.variables):>9} {steps.width:>5} {steps.branched:>8}"
            f" {build:>8.2f} {solve:>8.2f}"
        )
        status |= not (choice.solution.proved and solve < SECONDS)
    return status


def _kernels() -> Iterator[Graph]:
    """Graphs of one operator after another: forty kernels by three layouts at most."""
    for channels, side in ((8, 64), (24, 40), (40, 28), (96, 14), (3, 96)):
        make = Maker()
        x = make.node("relu", make.input(1, channels, side, side))
        wide = make.conv(x, 32, 3, pads=(1, 1, 1, 1))
        own = make.conv(x, channels, 3, pads=(1, 1, 1, 1), group=channels)
        yield make.finish(
            wide, own, make.conv(x, 4, 1), make.conv(x, 1, 3, pads=(1, 1, 1, 1)), make.node("hard_swish", own),
            make.node("global_average_pool", own), make.node("concat", x, own, axis=1),
            make.node("max_pool", x, kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), ceil_mode=0),
        )  # fmt: skip


def _ranks(name: str) -> int:
    """Rank correlation of predicted and measured times, of each kernel in each of its layouts."""
    chosen = target.load(name)
    if lacking := processor.missing_features(chosen):
        print(f"{name}: not run: this processor lacks {', '.join(lacking)}")
        return 0
    predicted: list[int] = []
    measured: list[int] = []
    machine = machine_of(chosen)
    for graph in _kernels():
        groups = fusion.group(graph).groups
        for lanes in (machine.lanes, 8, 1):
            found = question(graph, groups, machine)
            demands = _demands(found, lanes)
            program = build_program(graph, groups, chosen, demands=demands)
            took = kernel_times.measure(program, chosen, rounds=ROUNDS).nanoseconds
            times = dict(zip((op.name for op in program.ops), took, strict=True))
            costs = {variable.name: variable.costs for variable in found.problem.variables}
            choice = choose(question(graph, groups, machine, demands))
            for group, form in choice.kernels.items():
                predicted.append(costs[kernel_name(group)][found.kernels[group].index(form)])
                measured.append(times[group])
    rank = model_fit.spearman(predicted, measured)
    print(f"{name}: {len(predicted)} kernels, rank correlation of predicted and measured {rank:.2f} (at least {RANK})")
    return int(rank < RANK)


def _demands(found: Question, lanes: int) -> dict[str, tuple[int, ...]]:
    written = {group.output: {form.written for form in found.kernels[name]} for name, group in found.groups.items()}
    return {root: (lanes,) for root, choices in written.items() if lanes in choices}


if __name__ == "__main__":
    raise SystemExit(main())
