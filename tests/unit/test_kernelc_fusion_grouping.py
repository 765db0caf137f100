"""Groups of small graphs, and the reasons why nodes stay apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelc import fusion
from kernelc.fusion.rule import MAX_CHAIN
from kernelc.graph import Graph, weight_of
from kernelc.media.builder import GraphBuilder

CONV = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}
IMAGE = (1, 4, 6, 6)


class Sketch(GraphBuilder):
    """A builder with short words for the nodes of these tests."""

    def image(self, name: str = "x", shape: tuple[int, ...] = IMAGE) -> str:
        return self.input(name, "f32", shape)

    def constant(self, *shape: int) -> str:
        return self.weight(weight_of(np.full(shape, len(self.weights)), "f32"))

    def conv(self, value: str) -> str:
        return self.node("conv", [value, self.constant(4, 4, 3, 3)], CONV)

    def unary(self, op: str, value: str, **attrs: Any) -> str:
        return self.node(op, [value], attrs)


def _groups(graph: Graph) -> list[str]:
    return [" ".join(node.op for node in group.nodes) for group in fusion.group(graph).groups]


def _reasons(graph: Graph) -> list[str]:
    return [f"{refusal.node}: {refusal.reason}" for refusal in fusion.group(graph).refusals]


def test_a_conv_takes_bias_activation_scale_and_residual() -> None:
    build = Sketch()
    x = build.image()
    y = build.unary("hard_swish", build.conv(x))
    y = build.node("mul", [y, build.constant(1, 4, 1, 1)])
    y = build.node("add", [y, build.constant()])
    y = build.node("add", [x, y])
    graph = build.finish([("y", build.unary("relu", y))])
    result = fusion.group(graph)
    assert _groups(graph) == ["conv hard_swish mul add add relu"]
    assert result.refusals == ()
    assert result.groups[0].inputs == ("t0", "w0", "w1", "w2")
    assert (result.groups[0].name, result.groups[0].output) == ("g0_conv", graph.outputs[0].tensor)


def test_the_residual_joins_the_later_of_two_convs() -> None:
    build = Sketch()
    x = build.image()
    first, second = build.conv(x), build.conv(x)
    graph = build.finish([("y", build.node("add", [first, second]))])
    assert _groups(graph) == ["conv", "conv add"]
    assert _reasons(graph) == ["n2_add: it joined g1_conv"]


def test_groups_run_in_an_order_that_the_model_did_not_have() -> None:
    build = Sketch()
    x = build.image()
    convs = [build.conv(x), build.conv(x)]
    left, right = (build.unary("relu", conv) for conv in convs)
    graph = build.finish([("y", build.node("add", [right, left]))])
    assert _groups(graph) == ["conv relu", "conv relu add"]


def test_a_group_waits_for_one_that_begins_later() -> None:
    build = Sketch()
    x = build.image()
    late = build.unary("relu", build.conv(x))
    early = build.conv(x)
    graph = build.finish([("z", early), ("y", build.node("add", [late, early]))])
    assert _groups(graph) == ["conv", "conv relu add"]
    assert [group.name for group in fusion.group(graph).groups] == ["g0_conv", "g1_conv"]


def test_a_value_that_two_nodes_read_is_written() -> None:
    build = Sketch()
    a = build.conv(build.image())
    graph = build.finish([("y", build.unary("relu", a)), ("z", build.unary("sigmoid", a))])
    assert _groups(graph) == ["conv", "relu", "sigmoid"]
    assert _reasons(graph) == [
        "n1_relu: t1 is read by 2 nodes and must be written",
        "n2_sigmoid: t1 is read by 2 nodes and must be written",
    ]


def test_a_graph_output_is_written() -> None:
    build = Sketch()
    a = build.conv(build.image())
    graph = build.finish([("a", a), ("y", build.unary("relu", a))])
    assert _groups(graph) == ["conv", "relu"]
    assert _reasons(graph) == ["n1_relu: t1 is a graph output and must be written"]


def test_a_value_used_twice_by_one_node_is_written() -> None:
    build = Sketch()
    a = build.conv(build.image())
    graph = build.finish([("y", build.node("mul", [a, a]))])
    assert _groups(graph) == ["conv", "mul"]
    assert _reasons(graph) == ["n1_mul: it reads t1 more than once"]


def test_a_gate_that_grows_to_the_image_stays_apart() -> None:
    build = Sketch()
    x = build.image()
    gate = build.unary("sigmoid", build.unary("global_average_pool", x))
    graph = build.finish([("y", build.node("mul", [x, gate]))])
    assert _groups(graph) == ["global_average_pool sigmoid", "mul"]
    assert _reasons(graph) == ["n2_mul: it changes the shape of t2 to 1x4x6x6"]


@pytest.mark.parametrize("shape", [(1, 4, 6, 1), (1, 1, 1, 6), (1, 1, 1, 1), (6,)], ids=str)
def test_an_operand_that_varies_along_one_side_only_stays_apart(shape: tuple[int, ...]) -> None:
    build = Sketch()
    a = build.conv(build.image())
    graph = build.finish([("y", build.node("add", [a, build.constant(*shape)]))])
    assert _groups(graph) == ["conv", "add"]
    assert "is neither whole, nor per channel, nor a scalar" in _reasons(graph)[0]


def test_moves_of_data_take_no_epilogue_and_join_none() -> None:
    build = Sketch()
    a = build.unary("reshape", build.conv(build.image()), shape=(1, 144))
    graph = build.finish([("y", build.unary("relu", a))])
    assert _groups(graph) == ["conv", "reshape", "relu"]
    assert _reasons(graph) == ["n2_relu: reshape takes no epilogue"]


def test_element_wise_nodes_chain_on_their_own() -> None:
    build = Sketch()
    y = build.unary("sigmoid", build.unary("relu", build.image()))
    graph = build.finish([("y", build.node("sub", [build.constant(), y]))])
    assert _groups(graph) == ["relu sigmoid sub"]


def test_an_increment_taken_away_again_is_computed() -> None:
    build = Sketch()
    x = build.image()
    y = build.node("sub", [build.node("add", [x, build.constant()]), x])
    graph = build.finish([("y", y)])
    assert _groups(graph) == ["add sub"]


def test_a_long_chain_is_cut() -> None:
    build = Sketch()
    y = build.conv(build.image())
    for _ in range(MAX_CHAIN + 2):
        y = build.unary("relu", y)
    graph = build.finish([("y", y)])
    assert [len(group.nodes) for group in fusion.group(graph).groups] == [17, 3]
    assert _reasons(graph) == ["n17_relu: no rule joins it to the 17 nodes of the group"]


def test_the_text_lists_groups_then_refusals() -> None:
    build = Sketch()
    a = build.unary("relu", build.conv(build.image()))
    graph = build.finish([("a", a), ("y", build.unary("relu", a))])
    assert fusion.to_text(fusion.group(graph)) == (
        "g0_conv: n0_conv + n1_relu (t0, w0) -> t2 by conv_relu, benefit 2\n"
        "g1_relu: n2_relu (t2) -> t3\n"
        "refused n2_relu after g0_conv: t2 is a graph output and must be written\n"
    )


def _silu(build: Sketch, value: str) -> str:
    return build.node("mul", [value, build.unary("sigmoid", value)])


def test_a_value_that_is_read_twice_inside_is_kept() -> None:
    build = Sketch()
    x = build.image()
    graph = build.finish([("y", build.unary("relu", _silu(build, build.conv(x))))])
    assert _groups(graph) == ["conv sigmoid mul relu"]
    assert fusion.group(graph).groups[0].inputs == ("t0", "w0")


def test_two_in_a_row_are_two_groups_for_a_kernel_keeps_what_its_rule_says() -> None:
    build = Sketch()
    graph = build.finish([("y", _silu(build, _silu(build, build.conv(build.image()))))])
    assert _groups(graph) == ["conv sigmoid mul", "sigmoid mul"]
    assert _reasons(graph) == [
        "n3_sigmoid: t3 is read by 2 nodes and must be written",
        "n4_mul: t3 is read by 2 nodes and must be written",
    ]


def test_a_value_that_somebody_else_reads_is_not_kept() -> None:
    build = Sketch()
    c = build.conv(build.image())
    graph = build.finish([("y", _silu(build, c)), ("z", build.unary("relu", c))])
    assert _groups(graph) == ["conv", "sigmoid mul", "relu"]
    assert _reasons(graph)[0] == "n1_sigmoid: t1 is read by 3 nodes and must be written"


def test_an_output_is_not_kept() -> None:
    build = Sketch()
    c = build.conv(build.image())
    graph = build.finish([("y", _silu(build, c)), ("z", c)])
    assert _groups(graph) == ["conv", "sigmoid mul"]
    assert _reasons(graph)[0] == "n1_sigmoid: t1 is a graph output and must be written"
