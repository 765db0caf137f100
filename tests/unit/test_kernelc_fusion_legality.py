"""The rules that hold of every group, each with a group that breaks it alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np

from kernelc import fusion
from kernelc.fusion import legality
from kernelc.fusion.legality import Flow
from kernelc.graph import Graph, weight_of
from tests.support.backend_graphs import Maker

IMAGE = (1, 4, 6, 8)


def _objections(graph: Graph, nodes: Sequence[int], on_chip_bytes: int = 0) -> list[str]:
    return list(legality.objections(Flow(graph), [graph.nodes[index] for index in nodes], on_chip_bytes))


def _residual() -> Graph:
    """n0 = conv, n1 = relu, n2 = add of both."""
    make = Maker()
    conv = make.conv(make.input(*IMAGE), 4, 1)
    return make.finish(make.node("add", make.node("relu", conv), conv))


def test_a_chain_is_legal() -> None:
    make = Maker()
    graph = make.finish(make.node("sigmoid", make.node("relu", make.conv(make.input(*IMAGE), 4, 1))))
    assert _objections(graph, [0, 1, 2]) == []


def test_g1_an_intermediate_has_one_reader_and_that_in_the_group() -> None:
    graph = _residual()
    assert _objections(graph, [0, 1]) == ["t1 is read by 2 nodes and must be written"]
    assert _objections(graph, [1, 0]) == ["t2 is read outside and must be written"]


def test_g2_no_path_leaves_the_group_and_comes_back() -> None:
    assert "n1_relu outside waits for the group and the group for it" in _objections(_residual(), [0, 2])


def test_g3_a_row_of_everything_fits_twice_on_chip() -> None:
    make = Maker()
    x = make.input(*IMAGE)
    graph = make.finish(make.node("add", make.conv(x, 4, 1), x))
    row = 4 * 8 * 4  # channels, columns, bytes; of the result and of x
    assert _objections(graph, [0, 1], on_chip_bytes=4 * row) == []
    assert _objections(graph, [0, 1], on_chip_bytes=4 * row - 1) == [
        "one row of what it works on takes 512 bytes, on chip are 511"
    ]
    assert [refusal.reason for refusal in fusion.group(graph, on_chip_bytes=511).refusals] == [
        "one row of what it works on takes 512 bytes, on chip are 511"
    ]


def test_g4_no_shape_is_computed_inside() -> None:
    make = Maker()
    x = make.input(*IMAGE)
    sizes = make.builder.weight(weight_of(np.array([4, -1], np.int64), "i64"))
    graph = make.finish(make.node("relu", make.node("dynamic_reshape", x, sizes, allow_zero=0)))
    assert _objections(graph, [0, 1]) == ["dynamic_reshape computes a shape"]


def test_g5_no_layout_changes_inside() -> None:
    make = Maker()
    graph = make.finish(make.node("transpose", make.node("relu", make.input(*IMAGE)), permutation=(0, 1, 3, 2)))
    assert _objections(graph, [0, 1]) == ["transpose changes the layout"]


def test_g6_a_graph_output_is_written() -> None:
    make = Maker()
    conv = make.conv(make.input(*IMAGE), 4, 1)
    graph = make.finish(conv, make.node("relu", conv))
    assert _objections(graph, [0, 1]) == ["t1 is a graph output and must be written"]


def test_g7_one_element_type() -> None:
    make = Maker()
    graph = make.finish(make.node("cast", make.node("relu", make.input(*IMAGE)), to="f64"))
    assert _objections(graph, [0, 1]) == ["cast makes f64 of f32"]


def test_the_compiler_needs_no_parser_of_yaml() -> None:
    rules = "import kernelc.fusion as f; f.joined(f.to_json([]), 'x')"
    code = f"import sys, kernelc.pipeline; {rules}; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
