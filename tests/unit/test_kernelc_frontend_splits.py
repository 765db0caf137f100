"""Split and DepthToSpace: what each operator set says, sizes in symbols, what is refused, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelc import frontend
from kernelc.numerics.reference import evaluate
from kernelfarm.errors import Code, FarmError
from tests.support import onnx_files
from tests.support.onnx_files import node

PARTS = ("y", "z", "v")


def _split(folder: Path, size: int, opset: int, outputs: int = 2, *, operand: Any = None, **attrs: Any) -> list[Any]:
    """The parts of 0, 1, 2, ... in one row, before and after simplification."""
    names = PARTS[:outputs]
    made = node("Split", ["x", "split"] if operand is not None else ["x"], names, axis=1, **attrs)
    weights = {} if operand is None else {"split": np.array(operand, np.int64)}
    model = onnx_files.model([made], {"x": [1, size]}, names, weights, opset=opset)
    graph = onnx_files.load(folder, model)
    value = {"x": np.arange(size, dtype=np.float32)[None]}
    parts = [evaluate(graph, value)[name].tolist()[0] for name in names]
    assert [evaluate(frontend.simplify(graph), value)[name].tolist()[0] for name in names] == parts
    return parts


def _error(folder: Path, made: Any, sizes: list[int | str], opset: int = 13, **weights: Any) -> FarmError:
    names = [name for name in made.output if name]
    model = onnx_files.model([made], {"x": sizes}, names, weights, opset=opset)
    with pytest.raises(FarmError) as caught:
        onnx_files.load(folder, model, allow_symbolic=any(isinstance(size, str) for size in sizes))
    return caught.value


def test_without_lengths_all_parts_are_equal_in_every_operator_set_up_to_17(tmp_path: Path) -> None:
    for opset in (7, 11, 13, 17):
        assert _split(tmp_path, 6, opset) == [[0, 1, 2], [3, 4, 5]]
        assert _split(tmp_path, 6, opset, 3) == [[0, 1], [2, 3], [4, 5]]
        uneven = node("Split", ["x"], ["y", "z"], axis=1)
        assert _error(tmp_path, uneven, [1, 5], opset).code is Code.GRAPH_INVALID


def test_lengths_move_from_attribute_to_input_at_13(tmp_path: Path) -> None:
    for opset in (7, 11, 12):
        assert _split(tmp_path, 5, opset, split=[1, 4]) == [[0], [1, 2, 3, 4]]
    for opset in (13, 18, 26):
        assert _split(tmp_path, 5, opset, operand=[4, 1]) == [[0, 1, 2, 3], [4]]
    attribute, operand = node("Split", ["x"], ["y"], split=[4]), node("Split", ["x", "s"], ["y"])
    assert _error(tmp_path, attribute, [4], 13).code is Code.GRAPH_INVALID
    assert _error(tmp_path, operand, [4], 12, s=np.array([4])).code is Code.GRAPH_INVALID


def test_a_number_of_outputs_that_does_not_divide_leaves_the_last_part_smaller_from_18_on(tmp_path: Path) -> None:
    assert _split(tmp_path, 7, 18, 3, num_outputs=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert _split(tmp_path, 6, 18, 3, num_outputs=3) == [[0, 1], [2, 3], [4, 5]]
    given = {"s": np.array([3, 3])}
    for made, opset, weights in (
        (node("Split", ["x"], ["y", "z"], num_outputs=2), 17, {}),
        (node("Split", ["x"], ["y", "z"]), 18, {}),
        (node("Split", ["x", "s"], ["y", "z"], num_outputs=2), 18, given),
        (node("Split", ["x"], ["y", "z"], num_outputs=3), 18, {}),
        (node("Split", ["x"], ["y", "z"], num_outputs=0), 18, {}),
        (node("Split", ["x"], ["y", "z", "a", "b", "c"], num_outputs=5), 18, {}),  # 2, 2, 2, 2 and -2
    ):
        assert _error(tmp_path, made, [6], opset, **weights).code is Code.GRAPH_INVALID


def test_negative_axes_of_split_came_with_11(tmp_path: Path) -> None:
    made = node("Split", ["x"], ["y", "z"], axis=-1)
    graph = onnx_files.load(tmp_path, onnx_files.model([made], {"x": [3, 4]}, ["y", "z"], opset=11))
    assert [graph.tensors[port.tensor].shape for port in graph.outputs] == [(3, 2), (3, 2)]
    assert _error(tmp_path, made, [3, 4], 10).code is Code.GRAPH_INVALID
    assert _error(tmp_path, node("Split", ["x"], ["y"], axis=2), [3, 4]).code is Code.GRAPH_INVALID


@pytest.mark.parametrize("lengths", [[2, 3], [4], [2, 2, 0], [-1, 5], [5, -1]])
def test_lengths_that_are_not_the_parts_are_refused(tmp_path: Path, lengths: list[int]) -> None:
    assert _error(tmp_path, node("Split", ["x"], ["y", "z"], split=lengths), [4], 11).code is Code.GRAPH_INVALID
    operand = node("Split", ["x", "s"], ["y", "z"])
    assert _error(tmp_path, operand, [4], 13, s=np.array(lengths)).code is Code.GRAPH_INVALID


def test_lengths_that_are_computed_are_refused(tmp_path: Path) -> None:
    assert _error(tmp_path, node("Split", ["x", "x"], ["y", "z"]), [4]).code is Code.OPERATOR_FORM_UNSUPPORTED


def test_a_part_that_nobody_wants_has_no_name(tmp_path: Path) -> None:
    made = node("Split", ["x"], ["", "y"])
    graph = onnx_files.load(tmp_path, onnx_files.model([made], {"x": [4]}, opset=11))
    assert evaluate(graph, {"x": np.arange(4, dtype=np.float32)})["y"].tolist() == [2, 3]
    assert len(graph.nodes) == 1
    with pytest.raises(FarmError) as caught:
        onnx_files.load(tmp_path, onnx_files.model([node("Split", ["x"], ["", ""])], {"x": [4]}, opset=11))
    assert caught.value.code is Code.GRAPH_INVALID


def test_sizes_of_a_shape_may_be_split(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Split", ["s"], ["a", "b"], axis=0),
        node("Concat", ["b", "a"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    graph = onnx_files.load(tmp_path, onnx_files.model(nodes, {"x": [2, 6]}, opset=13))
    assert graph.tensors[graph.outputs[0].tensor].shape == (6, 2)


def test_an_axis_of_a_symbolic_size_is_not_split_but_others_beside_it_are(tmp_path: Path) -> None:
    made = node("Split", ["x"], ["y", "z"], axis=1)
    model = onnx_files.model([made], {"x": ["n", 6]}, ["y", "z"], opset=13)
    graph = onnx_files.load(tmp_path, model, allow_symbolic=True)
    assert [str(size) for size in graph.tensors[graph.outputs[1].tensor].shape] == ["s0", "3"]
    assert _error(tmp_path, made, [6, "n"]).code is Code.SHAPE_NOT_INFERRED


def _spread(folder: Path, channels: int, opset: int, **attrs: Any) -> list[list[list[float]]]:
    made = node("DepthToSpace", ["x"], ["y"], blocksize=2, **attrs)
    graph = onnx_files.load(folder, onnx_files.model([made], {"x": [1, channels, 1, 1]}, opset=opset))
    value = {"x": np.arange(channels, dtype=np.float32).reshape(1, channels, 1, 1)}
    found: list[list[list[float]]] = evaluate(graph, value)["y"][0].tolist()
    simple = frontend.simplify(graph)
    assert [entry.op for entry in simple.nodes] in (["rearrange"], ["reshape"])  # of one pixel CRD moves nothing
    assert evaluate(simple, value)["y"][0].tolist() == found
    return found


def test_depth_to_space_counts_rows_columns_depth_unless_told_which_came_with_11(tmp_path: Path) -> None:
    by_rows = [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]
    by_depth = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    for opset in (7, 10, 11, 13):
        assert _spread(tmp_path, 8, opset) == by_rows
    for opset in (11, 13):
        assert _spread(tmp_path, 8, opset, mode="DCR") == by_rows
        assert _spread(tmp_path, 8, opset, mode="CRD") == by_depth
    told = node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD")
    assert _error(tmp_path, told, [1, 8, 1, 1], 10).code is Code.GRAPH_INVALID


@pytest.mark.parametrize(
    ("attrs", "shape", "why"),
    [
        ({}, [1, 8, 1, 1], "attribute blocksize is missing"),
        ({"blocksize": 0}, [1, 8, 1, 1], "block is 0; the least is 1"),
        ({"blocksize": -2}, [1, 8, 1, 1], "block is -2; the least is 1"),
        ({"blocksize": 2.0}, [1, 8, 1, 1], "blocksize is of type FLOAT; it must be INT"),
        ({"blocksize": 2, "mode": "RCD"}, [1, 8, 1, 1], "mode is 'RCD'; it must be one of DCR, CRD"),
        ({"blocksize": 2, "mode": 1}, [1, 8, 1, 1], "mode is of type INT; it must be STRING"),
        ({"blocksize": 2, "axis": 1}, [1, 8, 1, 1], "is not an attribute"),
        ({"blocksize": 3}, [1, 8, 1, 1], "8 channels do not fill squares of 3 x 3"),
        ({"blocksize": 2}, [8, 1, 1], "x has rank 3"),
    ],
)
def test_what_depth_to_space_may_not_be_is_refused_and_says_why(
    tmp_path: Path, attrs: dict[str, Any], shape: list[int | str], why: str
) -> None:
    error = _error(tmp_path, node("DepthToSpace", ["x"], ["y"], **attrs), shape)
    assert error.code is Code.GRAPH_INVALID
    assert why in error.why


def test_depth_to_space_follows_sizes_in_symbols(tmp_path: Path) -> None:
    made = node("DepthToSpace", ["x"], ["y"], blocksize=3)
    model = onnx_files.model([made], {"x": ["n", 18, "h", "w"]})
    graph = onnx_files.load(tmp_path, model, allow_symbolic=True)
    assert [str(size) for size in graph.result(graph.nodes[0]).shape] == ["s0", "2", "3*s1", "3*s2"]
    assert [entry.op for entry in frontend.simplify(graph).nodes] == ["depth_to_space"]
    assert _error(tmp_path, made, [1, "c", 2, 2]).code is Code.SHAPE_NOT_INFERRED


def test_depth_to_space_of_a_constant_is_folded(tmp_path: Path) -> None:
    nodes = [node("DepthToSpace", ["w"], ["a"], blocksize=2, mode="CRD"), node("Add", ["x", "a"], ["y"])]
    weights = {"w": np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)}
    simple = frontend.simplify(onnx_files.load(tmp_path, onnx_files.model(nodes, {"x": [1, 1, 2, 2]}, weights=weights)))
    assert [entry.op for entry in simple.nodes] == ["add"]
