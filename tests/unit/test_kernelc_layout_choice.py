"""Which layouts are chosen, what casts that takes, and what contradicts each other."""

from __future__ import annotations

import pytest

from kernelc import fusion, media
from kernelc.graph import Graph
from kernelc.layout.candidates import candidates, name_of
from kernelc.layout.optimise import choose, lay_out
from kernelc.layout.solve import solve
from kernelc.lowering.program import machine_of
from kernelc.schedule.cost import Machine
from kernelfarm.errors import Code, FarmError
from tests.support.backend_graphs import Maker
from tests.support.choices import KINDS, V4, asked, network
from toolchains import target

NEON = Machine(4, 32, 1 << 19)


def narrow_end(channels: int = 3) -> Graph:
    """A wide value, and a convolution of it to few channels: the result and the caller's memory are best apart."""
    make = Maker()
    x = make.node("relu", make.conv(make.input(1, 3, 64, 64), 24, 3, pads=(1, 1, 1, 1)))
    return make.finish(make.conv(x, channels, 3, pads=(1, 1, 1, 1)), make.conv(x, 24, 3))


def test_a_value_has_the_five_candidates_of_the_document() -> None:
    assert [name_of(lanes) for lanes in candidates(16, 4)] == ["NCHWc4", "NCHWc8", "NCHWc16", "NCHW"]
    assert [name_of(lanes) for lanes in candidates(32, 16)] == ["NCHWc16", "NCHWc8", "NCHW", "NHWC"]
    assert len(candidates(64, 16)) == 4 and candidates(64, 16)[0] == 16
    assert candidates(3, 4) == (4, 1)


def test_a_convolution_to_few_channels_reads_and_writes_them_apart_after_one_cast() -> None:
    graph = narrow_end()
    placed, layout, choice = lay_out(graph, fusion.group(graph).groups, V4)

    (cast,) = [node for node in placed.graph.nodes if node.op == "layout_cast"]
    assert cast.attr("layout") == "NCHW"
    assert layout.buffers[cast.inputs[0]].lanes == 16
    assert layout.buffers[cast.outputs[0]].lanes == 1
    assert layout.buffers[placed.graph.outputs[0].tensor].lanes == 1
    assert layout.buffers[placed.graph.outputs[1].tensor].lanes == 16
    assert choice.solution.proved
    assert media.to_text(placed.graph).count("media.layout_cast") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_no_cast_is_taken_back_and_none_is_made_twice(kind: str) -> None:
    graph = network(kind, 60)
    placed, _, _ = lay_out(graph, fusion.group(graph).groups, V4)

    casts = [node for node in placed.graph.nodes if node.op == "layout_cast"]
    made = {node.outputs[0] for node in casts}
    assert all(node.inputs[0] not in made for node in casts)
    assert len({(node.inputs[0], node.attr("layout")) for node in casts}) == len(casts)


@pytest.mark.parametrize("kind", KINDS)
def test_it_costs_no_more_than_any_layout_for_all(kind: str) -> None:
    graph = network(kind, 60)
    free = choose(asked(graph)).solution
    alike = {
        lanes: choose(asked(graph, V4, {root: (lanes,) for root in asked(graph).memories if root != "t0"})).solution
        for lanes in (16, 8)
    }

    assert free.proved
    assert all(free.cost <= one.cost for one in alike.values())


@pytest.mark.parametrize("kind", KINDS)
def test_three_hundred_operators_take_small_tables_and_no_branches(kind: str) -> None:
    found = solve(asked(network(kind, 300)).problem)

    assert found.proved
    assert found.steps.branched == 0
    assert found.steps.width <= (10 if kind == "dense" else 3)


def test_the_caller_has_row_major_memory_whatever_is_chosen() -> None:
    make = Maker()
    x = make.input(1, 20, 6, 7)
    graph = make.finish(make.node("softmax", x, axis=1))

    placed, layout, _ = lay_out(graph, fusion.group(graph).groups, V4)

    assert layout.buffers["t0"].lanes > 1  # the kernel needs blocks; the casts at the boundaries are the program's
    assert placed.graph.inputs == graph.inputs


def test_contradicting_demands_are_named_with_their_nodes() -> None:
    make = Maker()
    x = make.node("relu", make.input(1, 20, 6, 7))
    graph = make.finish(make.node("relu", make.node("softmax", x, axis=1)), make.node("sqrt", x))
    value = graph.outputs[0].tensor

    with pytest.raises(FarmError) as error:
        lay_out(graph, fusion.group(graph).groups, V4, {value: (1,), graph.nodes[0].outputs[0]: (16,)})

    assert error.value.code is Code.LAYOUT_INFEASIBLE
    assert error.value.detail["nodes"] == [graph.nodes[1].name]
    (group,) = [one for one in fusion.group(graph).groups if one.anchor.op == "softmax"]
    assert set(error.value.detail["constraints"]) == {
        f"{group.name} writes {group.output}",
        f"{group.output} must be written as NCHW",
    }


@pytest.mark.parametrize("name", target.names())
def test_blocks_that_registers_do_not_hold_are_no_obstacle_and_not_taken(name: str) -> None:
    graph, machine = narrow_end(16), machine_of(target.load(name))

    choice = choose(asked(graph, machine))

    assert {places.home for root, places in choice.places.items() if root != "t0"} <= {1, 8, machine.lanes}


def test_four_lanes_keep_their_blocks() -> None:
    choice = choose(asked(network("residual", 40), NEON))

    assert {places.home for root, places in choice.places.items() if root != "t0"} == {4}
