"""What fusion saves: figures counted from the program, answers compared, epilogues beside the same anchors alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarks import bar_c, fusion, programs
from benchmarks.fusion import Compared, Epilogue, Side
from kernelc.lowering.program import Program
from tests.support.backend_graphs import Maker
from toolchains import target

V3 = target.load("x86-64-v3")


def both() -> tuple[Program, Program]:
    """A 1x1 convolution with ReLU, then one with nothing, fused and not."""
    make = Maker()
    first = make.node("relu", make.conv(make.input(1, 16, 8, 8), 32, 1))
    graph = make.finish(make.conv(first, 16, 1))
    return programs.fused(graph, V3), programs.unfused(graph, V3)


def test_unfused_has_a_kernel_for_each_operator_and_moves_more() -> None:
    fused, unfused = both()

    kinds = [[op.kind for op in one.ops if op.kind != "layout_cast"] for one in (fused, unfused)]
    assert kinds == [["conv", "conv"], ["conv", "relu", "conv"]]
    moved = [sum(op.kernel.work.read + op.kernel.work.written for op in one.ops) for one in (fused, unfused)]
    assert moved[1] - moved[0] == 2 * 4 * 32 * 8 * 8


def test_an_epilogue_is_held_against_the_same_anchor_without() -> None:
    fused, unfused = both()
    times = {op.name: 110 for op in fused.ops}
    alone = {op.name: 100 for op in unfused.ops}

    (found,) = fusion.epilogues(fused, times, unfused, alone)

    assert found == Epilogue("conv 1x1", "relu", 1, 100, 110)
    assert found.cost == pytest.approx(0.1)


def test_an_anchor_that_is_cut_otherwise_is_not_held_against() -> None:
    fused, unfused = both()
    times = {op.name: 100 for op in (*fused.ops, *unfused.ops)}
    op = next(op for op in unfused.ops if op.kind == "conv")
    other = dataclasses.replace(op, kernel=dataclasses.replace(op.kernel, tile="another"))
    ops = tuple(other if one is op else one for one in unfused.ops)

    assert fusion.epilogues(fused, times, dataclasses.replace(unfused, ops=ops), times) == []


@pytest.mark.parametrize(("off", "error"), [(0.0, 0.0), (1e-4, 1.0), (1e-3, 10.0), (np.nan, np.inf)])
def test_answers_are_apart_by_shares_of_what_is_allowed(off: float, error: float) -> None:
    answer = np.zeros(4, np.float32)
    other = answer.copy()
    other[2] = off

    assert fusion.apart([other], [answer]) == pytest.approx(error)


def compared(model: str, *, faster: float, cost: int = 104) -> Compared:
    """A model that fusion makes faster, and smaller by half."""
    epilogues = [Epilogue("conv 1x1", "relu", 1, 100, cost)]
    return Compared(model, "x86-64-v3", Side(2, round(1000 * faster), 50, 50), Side(4, 1000, 100, 100), 0.0, epilogues)


def test_the_table_has_means_and_epilogues_of_all_models() -> None:
    told = fusion.lines([compared("one", faster=0.5), compared("two", faster=0.8, cost=112)])

    assert told[1].split() == ["one", "2/4", "0.50", "0.50", "0.50", "0"]
    assert told[3].split() == ["geometric", "mean", "0.63", "0.50", "0.50"]
    assert told[-1].split() == ["conv", "1x1", "relu", "2", "8.0%"]


def test_the_bar_wants_a_fifth_of_latency_and_names_what_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [compared("one", faster=0.9)]
    monkeypatch.setattr(fusion, "run", lambda *_: (models, ["two: OPERATOR_UNKNOWN: Tanh"]))

    found = {line.name.partition(",")[0]: line for line in bar_c.fused()}

    assert {name: line.holds for name, line in found.items()} == {
        "models both ways": False,
        "latency": False,
        "memory traffic": True,
        "arena": True,
        "epilogues": True,
    }
    assert found["models both ways"].lacking == ["two: OPERATOR_UNKNOWN: Tanh"]
