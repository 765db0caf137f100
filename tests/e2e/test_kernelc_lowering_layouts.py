"""Values in each layout, and casts between any two: compiled, run, compared with plain NumPy; every cut, equal bits."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from kernelc import fusion
from kernelc.graph import Graph, Group
from kernelc.layout.candidates import name_of
from kernelc.lowering.program import build_program, machine_of
from tests.support import plain_numpy
from tests.support.backend_graphs import Maker
from tests.support.choices import asked
from tests.support.kernel_runs import Compiled, agree, agree_however_cut, backwards, drawn_inputs, targets, thirds
from toolchains import target


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize(
    ("channels", "before", "after"),
    [(21, *pair) for pair in permutations((1, 8, 16), 2)]
    + [(32, *pair) for pair in permutations((1, 8, 16, 32), 2) if 32 in pair],
    ids=lambda value: str(value) if isinstance(value, int) else None,
)
def test_a_cast_and_the_cast_back_leave_every_number(
    name: str, channels: int, before: int, after: int, tmp_path: Path
) -> None:
    make = Maker()
    value = make.node("relu", make.input(1, channels, 3, 21))
    graph = make.finish(make.node("relu", make.node("relu", value)))
    groups = [one for node in graph.nodes for one in _single(graph, node.name)]
    chosen = target.load(name)
    homes = dict(zip((node.outputs[0] for node in graph.nodes), (before, after, before), strict=True))

    program = build_program(graph, groups, chosen, demands={root: (lanes,) for root, lanes in homes.items()})

    casts = [node.attr("layout") for node in program.graph.nodes if node.op == "layout_cast"]
    assert casts == [name_of(after), name_of(before)]
    draw = np.abs(np.random.Generator(np.random.PCG64(3)).standard_normal((1, channels, 3, 21))).astype(np.float32)
    draw[0, 0, 0, :3] = np.inf, 1e-42, 0
    compiled = Compiled(program, chosen, tmp_path)
    assert [compiled.run([draw], cut)[0].tobytes() for cut in (backwards, thirds)] == [draw.tobytes()] * 2


def _single(graph: Graph, node: str) -> list[Group]:
    """A group of one node."""
    (found,) = [one for one in graph.nodes if one.name == node]
    return [Group(f"g_{node}", found, (), found.inputs, found.outputs[0])]


def narrow_end(make: Maker) -> tuple[str, ...]:
    """To three channels and to one, whose kernels have channels apart, beside readers in blocks."""
    x = make.node("relu", make.conv(make.input(1, 3, 40, 53), 24, 3, pads=(1, 1, 1, 1)))
    return (
        make.node("sigmoid", make.conv(x, 1, 3, pads=(1, 1, 1, 1))),
        make.node("add", make.conv(x, 3, 1), make.conv(x, 3, 3, pads=(1, 1, 1, 1))),
        make.conv(x, 24, 3, group=24),
    )


def plain_chain(make: Maker) -> tuple[str, ...]:
    """Every kernel that has a form for channels apart."""
    x = make.conv(make.input(1, 2, 11, 37), 4, 3, pads=(1, 1, 1, 1))
    y = make.node("hard_swish", make.conv(x, 4, 3, pads=(1, 1, 1, 1), group=4))
    gate = make.node("sigmoid", make.conv(make.node("global_average_pool", y), 4, 1))
    joined = make.node("concat", make.node("mul", y, gate), make.node("relu", x), axis=1)
    pooled = make.node(
        "max_pool", joined, kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), ceil_mode=0
    )
    return (make.conv(pooled, 3, 1), make.node("concat", x, y, axis=3), make.node("concat", x, y, axis=2))


CASES = {"narrow-end": narrow_end, "plain-chain": plain_chain}


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("case", CASES)
def test_chosen_layouts_agree_with_numpy_however_they_are_cut(case: str, name: str, tmp_path: Path) -> None:
    make = Maker(seed=5)
    agree_however_cut(make.finish(*CASES[case](make)), name, tmp_path)


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("case", CASES)
def test_every_candidate_that_kernels_can_write_is_right(case: str, name: str, lanes: int, tmp_path: Path) -> None:
    make = Maker(seed=5)
    graph, chosen = make.finish(*CASES[case](make)), target.load(name)
    found = asked(graph, machine_of(chosen))
    written = {group.output: {form.written for form in found.kernels[key]} for key, group in found.groups.items()}
    demands = {root: (lanes,) for root, all_lanes in written.items() if lanes in all_lanes}
    if not demands:
        pytest.skip("these lanes are no candidate: so few channels fill no half of such a block")

    compiled = Compiled(build_program(graph, fusion.group(graph).groups, chosen, demands=demands), chosen, tmp_path)

    assert {compiled.program.layout.buffers[root].lanes for root in demands} == {lanes}
    inputs = drawn_inputs(graph)
    for got, wanted in zip(compiled.run(inputs), plain_numpy.evaluate(graph, list(inputs)), strict=True):
        agree(got, wanted)


def test_narrow_ends_are_apart_with_wide_vectors() -> None:
    make = Maker(seed=5)
    graph = make.finish(*narrow_end(make))
    program = build_program(graph, fusion.group(graph).groups, target.load("x86-64-v4"))

    lanes = {program.layout.buffers[port.tensor].lanes for port in program.graph.outputs}
    assert lanes == {1, 16}
