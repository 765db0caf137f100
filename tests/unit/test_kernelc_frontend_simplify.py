"""Simplification: what becomes what, and what must stay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelc import frontend
from kernelc.frontend import simplifier
from kernelc.graph import Graph
from kernelc.numerics.reference import evaluate
from tests.support import onnx_files
from tests.support.onnx_files import node

IMAGE = [1, 4, 6, 6]
DRAW = np.random.Generator(np.random.PCG64(7))
X = DRAW.standard_normal(IMAGE).astype(np.float32)
W = DRAW.standard_normal((4, 4, 3, 3)).astype(np.float32)
CHANNELS = {
    "scale": np.array([1, 2, -1, 0.5], np.float32),
    "shift": np.array([0, 1, 2, 3], np.float32),
    "mean": np.array([0.5, -0.5, 1, 0], np.float32),
    "var": np.array([1, 4, 0.25, 9], np.float32),
}
BN = list(CHANNELS)


def _simple(folder: Path, nodes: Sequence[Any], outputs: Sequence[str] = ("y",), **weights: Any) -> Graph:
    """The simplified graph, after a check that it computes what the original does."""
    graph = onnx_files.load(folder, onnx_files.model(nodes, {"x": IMAGE}, outputs, weights))
    simple = frontend.simplify(graph)
    before, after = evaluate(graph, {"x": X}), evaluate(simple, {"x": X})
    for name in outputs:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-5, atol=1e-5)
    return simple


def _ops(graph: Graph) -> list[str]:
    return [entry.op for entry in graph.nodes]


def test_a_shape_computed_from_sizes_becomes_a_reshape(tmp_path: Path) -> None:
    nodes = [
        node("GlobalAveragePool", ["x"], ["p"]),
        node("Shape", ["p"], ["s"]),
        node("Cast", ["s"], ["i"], to=6),
        node("Slice", ["i", "zero", "one"], ["b"]),
        node("Cast", ["b"], ["l"], to=7),
        node("Gather", ["s", "one"], ["c"]),
        node("Mul", ["c", "one"], ["c2"]),
        node("Concat", ["l", "c2"], ["t"], axis=0),
        node("Reshape", ["p", "t"], ["y"]),
    ]
    graph = _simple(tmp_path, nodes, zero=np.array([0], np.int64), one=np.array([1], np.int64))
    assert _ops(graph) == ["global_average_pool", "reshape"]
    assert graph.nodes[1].attr("shape") == (1, 4)
    assert graph.weights == {}


def test_constants_fold_to_the_bits_of_float32_arithmetic(tmp_path: Path) -> None:
    third = np.float32(1) / np.float32(3)
    nodes = [node("Div", ["a", "b"], ["c"]), node("Add", ["c", "b"], ["d"]), node("Mul", ["x", "d"], ["y"])]
    graph = _simple(tmp_path, nodes, a=np.float32(1), b=np.float32(3))
    assert _ops(graph) == ["mul"]
    assert graph.weights["w0"].data == (third + np.float32(3)).tobytes() == bytes.fromhex("55555540")


def test_operations_that_are_not_exact_everywhere_are_left_to_the_device(tmp_path: Path) -> None:
    nodes = [node("Sigmoid", ["a"], ["b"]), node("Mul", ["x", "b"], ["y"])]
    assert _ops(_simple(tmp_path, nodes, a=np.float32(1))) == ["sigmoid", "mul"]


def test_a_large_result_is_not_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelc.frontend.rules.fold.MAX_FOLDED_ELEMENTS", 143)
    nodes = [node("Add", ["a", "b"], ["c"]), node("Mul", ["x", "c"], ["y"])]
    column, row = np.ones((1, 4, 6, 1), np.float32), np.ones((1, 1, 1, 6), np.float32)
    assert _ops(_simple(tmp_path, nodes, a=column, b=row)) == ["add", "mul"]
    monkeypatch.setattr("kernelc.frontend.rules.fold.MAX_FOLDED_ELEMENTS", 144)
    assert _ops(_simple(tmp_path, nodes, a=column, b=row)) == ["mul"]


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Identity", ["x"], ["a"]), node("Relu", ["a"], ["y"])],
        [node("Dropout", ["x"], ["a"]), node("Relu", ["a"], ["y"])],
        [node("Cast", ["x"], ["a"], to=1), node("Relu", ["a"], ["y"])],
        [node("Transpose", ["x"], ["a"], perm=[0, 1, 2, 3]), node("Relu", ["a"], ["y"])],
        [node("Concat", ["x"], ["a"], axis=1), node("Relu", ["a"], ["y"])],
        [node("Slice", ["x", "zero", "far"], ["a"]), node("Relu", ["a"], ["y"])],
        [node("Flatten", ["x"], ["a"]), node("Reshape", ["a", "shape"], ["b"]), node("Relu", ["b"], ["y"])],
        [node("Relu", ["x"], ["y"]), node("Sigmoid", ["x"], ["unused"])],
    ],
    ids=["identity", "dropout", "cast", "transpose", "concat", "slice", "reshapes", "dead code"],
)
def test_what_does_nothing_is_removed(tmp_path: Path, nodes: list[Any]) -> None:
    lists = {"zero": [0], "far": [2**62], "shape": IMAGE}
    graph = _simple(tmp_path, nodes, **{name: np.array(items, np.int64) for name, items in lists.items()})
    assert _ops(graph) == ["relu"]
    assert graph.weights == {}


@pytest.mark.parametrize(
    ("op", "operands", "c"),
    [
        ("Mul", ["x", "c"], np.float32(1)),
        ("Mul", ["c", "x"], np.ones((4, 1, 1), np.float32)),
        ("Div", ["x", "c"], np.ones(IMAGE, np.float32)),
        ("Sub", ["x", "c"], np.float32(0)),
        ("Add", ["c", "x"], np.float32(-0.0)),
    ],
)
def test_a_neutral_constant_is_removed(tmp_path: Path, op: str, operands: list[str], c: Any) -> None:
    nodes = [node(op, operands, ["a"]), node("Relu", ["a"], ["y"])]
    assert _ops(_simple(tmp_path, nodes, c=c)) == ["relu"]


@pytest.mark.parametrize(
    ("op", "operands", "c"),
    [
        ("Add", ["x", "c"], np.float32(0)),  # -0 + 0 is 0
        ("Sub", ["x", "c"], np.float32(-0.0)),
        ("Sub", ["c", "x"], np.float32(0)),
        ("Div", ["c", "x"], np.float32(1)),
        ("Mul", ["x", "c"], np.array([1, 1, 1, 1, 1, 2], np.float32)),
        ("Mul", ["x", "c"], np.ones((2, 1, 4, 1, 1), np.float32)),  # spreads x over more elements
    ],
)
def test_a_constant_that_changes_a_bit_or_the_shape_stays(tmp_path: Path, op: str, operands: list[str], c: Any) -> None:
    assert _ops(_simple(tmp_path, [node(op, operands, ["y"])], c=c)) == [op.lower()]


def test_a_reversing_slice_stays(tmp_path: Path) -> None:
    lists = {"start": [5], "end": [-9], "axis": [3], "step": [-1]}
    nodes = [node("Slice", ["x", *lists], ["y"])]
    graph = _simple(tmp_path, nodes, **{k: np.array(v, np.int64) for k, v in lists.items()})
    assert _ops(graph) == ["rearrange"]
    assert (graph.nodes[0].integers("strides"), graph.nodes[0].integer("offset")) == ((6, -1), 5)


def test_every_output_stays_a_value_of_its_own(tmp_path: Path) -> None:
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("Relu", ["x"], ["y"]),
        node("Identity", ["y"], ["again"]),
        node("Add", ["c", "c"], ["constant"]),
    ]
    graph = _simple(tmp_path, nodes, ["same", "y", "again", "constant"], c=np.ones(3, np.float32))
    assert sorted(_ops(graph)) == ["identity", "identity", "identity", "relu"]
    assert len({port.tensor for port in (*graph.inputs, *graph.outputs)}) == 5


def test_batch_norm_after_a_conv_becomes_its_weights_rounded_once(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["a", *BN], ["y"], epsilon=0.0),
    ]
    graph = _simple(tmp_path, nodes, w=W, **CHANNELS)
    assert _ops(graph) == ["conv"]
    factor = np.array([1, 1, -2, 0.5 / 3])
    weight, bias = (graph.weights[name].array for name in graph.nodes[0].inputs[1:])
    np.testing.assert_array_equal(weight, (W.astype(np.float64) * factor.reshape(4, 1, 1, 1)).astype(np.float32))
    assert bias.tolist() == [-0.5, 1.5, 4.0, 3.0]


def test_batch_norm_before_a_padded_conv_stays_before_it(tmp_path: Path) -> None:
    nodes = [node("BatchNormalization", ["x", *BN], ["a"]), node("Conv", ["a", "w"], ["y"], pads=[1, 1, 1, 1])]
    graph = _simple(tmp_path, nodes, w=W, **CHANNELS)
    assert _ops(graph) == ["mul", "add", "conv"]
    assert graph.weights[graph.nodes[2].inputs[1]].data == W.tobytes()
    assert graph.weights[graph.nodes[0].inputs[1]].shape == (1, 4, 1, 1)


def test_a_conv_that_something_else_reads_keeps_its_weights(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["a", *BN], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    assert _ops(_simple(tmp_path, nodes, w=W, **CHANNELS)) == ["conv", "mul", "add", "add"]
    assert _ops(_simple(tmp_path, nodes[:2], ["a", "b"], w=W, **CHANNELS)) == ["conv", "mul", "add"]


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1), (1,), ()], ids=str)
def test_a_constant_per_channel_added_to_a_conv_is_its_bias(tmp_path: Path, shape: tuple[int, ...]) -> None:
    added = (np.arange(4, dtype=np.float32) if len(shape) > 1 else np.full(1, 2, np.float32)).reshape(shape)
    nodes = [node("Conv", ["x", "w", "b"], ["a"]), node("Add", ["c", "a"], ["y"])]
    graph = _simple(tmp_path, nodes, w=W, b=np.ones(4, np.float32), c=added)
    assert _ops(graph) == ["conv"]
    expected = [1.0, 2.0, 3.0, 4.0] if len(shape) > 1 else [3.0] * 4
    assert graph.weights[graph.nodes[0].inputs[2]].array.tolist() == expected


@pytest.mark.parametrize("shape", [(1, 4, 4, 4), (1, 1, 1, 4), (4, 4), (3, 1, 1, 1)], ids=str)
def test_a_constant_that_varies_otherwise_is_still_added(tmp_path: Path, shape: tuple[int, ...]) -> None:
    added = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Add", ["a", "c"], ["y"])]
    assert _ops(_simple(tmp_path, nodes, w=W, c=added)) == ["conv", "add"]


def test_factors_and_offsets_after_a_linear_operation_are_in_its_weights(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Mul", ["a", "half"], ["b"]),
        node("Add", ["b", "offset"], ["c"]),
        node("Mul", ["factor", "c"], ["y"]),
    ]
    per_channel = np.array([1, -2, 3, 0.25], np.float32).reshape(4, 1, 1)
    graph = _simple(tmp_path, nodes, w=W, half=np.float32(0.5), offset=per_channel, factor=per_channel)
    assert _ops(graph) == ["conv"]
    assert graph.weights[graph.nodes[0].inputs[2]].array.tolist() == [1, 4, 9, 0.0625]


@pytest.mark.parametrize("factor", [0.0, 1e30, np.inf, np.nan])
def test_a_factor_that_would_ruin_the_weights_stays_outside(tmp_path: Path, factor: float) -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Mul", ["a", "f"], ["y"])]
    model = onnx_files.model(nodes, {"x": IMAGE}, weights={"w": W, "f": np.float32(factor)})
    assert _ops(frontend.simplify(onnx_files.load(tmp_path, model))) == ["conv", "mul"]


def test_gemm_is_one_matmul_with_bias(tmp_path: Path) -> None:
    nodes = [node("Flatten", ["x"], ["f"]), node("Gemm", ["f", "m", "b"], ["y"], transB=1, alpha=0.5, beta=2.0)]
    matrix = DRAW.standard_normal((5, 144)).astype(np.float32)
    graph = _simple(tmp_path, nodes, m=matrix, b=np.arange(5, dtype=np.float32))
    assert _ops(graph) == ["reshape", "matmul"]
    plain = [node("Flatten", ["x"], ["f"]), node("Gemm", ["f", "m", "b"], ["y"], transB=1)]
    graph = _simple(tmp_path, plain, m=matrix, b=np.arange(5, dtype=np.float32))
    assert _ops(graph) == ["reshape", "matmul"]
    assert graph.weights[graph.nodes[1].inputs[1]].shape == (144, 5)


def _spelled(last: Any, *, low: float = 0, high: float = 6, three: float = 3) -> tuple[list[Any], dict[str, Any]]:
    nodes = [node("Add", ["three", "x"], ["a"]), node("Clip", ["a", "low", "high"], ["c"]), *last]
    numbers = {"three": three, "low": low, "high": high, "six": 6, "sixth": 1 / 6}
    return nodes, {name: np.float32(value) for name, value in numbers.items()}


@pytest.mark.parametrize(
    "last",
    [
        [node("Mul", ["x", "c"], ["m"]), node("Div", ["m", "six"], ["y"])],
        [node("Mul", ["c", "x"], ["m"]), node("Mul", ["sixth", "m"], ["y"])],
        [node("Div", ["c", "six"], ["d"]), node("Mul", ["x", "d"], ["y"])],
        [node("Mul", ["c", "sixth"], ["d"]), node("Mul", ["d", "x"], ["y"])],
    ],
)
def test_a_spelled_hard_swish_is_recognised(tmp_path: Path, last: list[Any]) -> None:
    nodes, weights = _spelled(last)
    assert _ops(_simple(tmp_path, nodes, **weights)) == ["hard_swish"]


def test_a_spelled_hard_sigmoid_is_recognised(tmp_path: Path) -> None:
    nodes, weights = _spelled([node("Div", ["c", "six"], ["y"])])
    graph = _simple(tmp_path, nodes, **weights)
    assert _ops(graph) == ["hard_sigmoid"]
    assert graph.nodes[0].attrs == (("alpha", 0.1666666716337204), ("beta", 0.5))


@pytest.mark.parametrize("changed", [{"low": -1}, {"high": 5}, {"three": 2.5}], ids=str)
def test_a_near_miss_of_hard_swish_is_not_recognised(tmp_path: Path, changed: dict[str, float]) -> None:
    nodes, weights = _spelled([node("Mul", ["x", "c"], ["m"]), node("Div", ["m", "six"], ["y"])], **changed)
    assert _ops(_simple(tmp_path, nodes, **weights)) == ["add", "clip", "mul", "div"]


def test_a_gate_on_another_value_is_no_hard_swish(tmp_path: Path) -> None:
    nodes, weights = _spelled(
        [node("Relu", ["x"], ["r"]), node("Mul", ["r", "c"], ["m"]), node("Div", ["m", "six"], ["y"])]
    )
    assert "hard_swish" not in _ops(_simple(tmp_path, nodes, **weights))


def test_a_max_pool_with_ceil_mode_gets_the_pads_it_means(tmp_path: Path) -> None:
    nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)]
    pool = _simple(tmp_path, nodes).nodes[0]
    assert (pool.attr("ceil_mode"), pool.attr("pads")) == (0, (0, 0, 1, 1))


def test_clip_between_computed_bounds_stays_a_clamp_and_folded_bounds_make_a_clip(tmp_path: Path) -> None:
    nodes = [node("Add", ["one", "one"], ["two"]), node("Clip", ["x", "", "two"], ["y"])]
    graph = _simple(tmp_path, nodes, one=np.float32(1))
    assert _ops(graph) == ["clip"]
    assert graph.nodes[0].attrs == (("max", 2.0), ("min", -3.4028234663852886e38))


@pytest.mark.parametrize("operands", [["x", "s"], ["s", "x"]])
def test_a_spelled_silu_is_recognised(tmp_path: Path, operands: list[str]) -> None:
    nodes = [node("Sigmoid", ["x"], ["s"]), node("Mul", operands, ["y"])]
    assert _ops(_simple(tmp_path, nodes)) == ["silu"]


def test_a_product_with_the_sigmoid_of_something_else_stays(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("Sigmoid", ["r"], ["s"]), node("Mul", ["x", "s"], ["y"])]
    assert _ops(_simple(tmp_path, nodes)) == ["relu", "sigmoid", "mul"]


def _layer_norm(*, axis: int = -1, added: str = "epsilon", squared: str = "d") -> list[Any]:
    """LayerNormalization as exporters spell it out, with ReduceMean, Pow and Sqrt."""
    return [
        node("ReduceMean", ["x"], ["m"], axes=[axis]),
        node("Sub", ["x", "m"], ["d"]),
        node("Pow", [squared, "two"], ["p"]),
        node("ReduceMean", ["p"], ["v"], axes=[axis]),
        node("Add", ["v", added], ["e"]),
        node("Sqrt", ["e"], ["r"]),
        node("Div", ["d", "r"], ["y"]),
    ]


NORM = {
    "two": np.float32(2),
    "epsilon": np.float32(0.01),
    "vector": np.ones((4, 6, 1), np.float32),
    "fifth": np.full((1, 1, 1, 1, 1), 0.01, np.float32),
}


def test_a_spelled_layer_norm_is_recognised(tmp_path: Path) -> None:
    graph = _simple(tmp_path, _layer_norm(), **NORM)
    assert _ops(graph) == ["layer_norm"]
    assert graph.nodes[0].real("epsilon") == float(np.float32(0.01))


@pytest.mark.parametrize("other", [{"axis": 1}, {"added": "vector"}, {"added": "fifth"}, {"squared": "x"}], ids=str)
def test_what_only_looks_like_a_layer_norm_stays(tmp_path: Path, other: dict[str, Any]) -> None:
    assert "layer_norm" not in _ops(_simple(tmp_path, _layer_norm(**other), **NORM))


def test_layer_normalization_is_a_norm_a_factor_and_an_offset(tmp_path: Path) -> None:
    scale, bias = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    nodes = [node("LayerNormalization", ["x", "scale", "bias"], ["y"], epsilon=0.25)]
    graph = onnx_files.load(tmp_path, onnx_files.model(nodes, {"x": IMAGE}, weights={"scale": scale, "bias": bias}))
    centred = X - X.mean(-1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.25) * scale + bias
    np.testing.assert_allclose(evaluate(graph, {"x": X})["y"], wanted, rtol=1e-5, atol=1e-5)
    assert _ops(frontend.simplify(graph)) == ["layer_norm", "mul", "add"]


def _list(*items: int) -> Any:
    return np.array(items, np.int64)


def test_moves_in_a_row_are_one(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        node("Reshape", ["a", "rows"], ["b"]),
        node("Slice", ["b", "from", "to", "axis"], ["c"]),
        node("Squeeze", ["c", "axis"], ["d"]),
        node("Transpose", ["d"], ["y"], perm=[0, 2, 1]),
    ]
    lists = {"rows": _list(1, 3, 12, 4), "from": _list(1), "to": _list(2), "axis": _list(1)}
    graph = _simple(tmp_path, nodes, **lists)
    assert _ops(graph) == ["rearrange"]
    assert graph.nodes[0].attrs == (("offset", 12), ("shape", (1, 4, 12)), ("sizes", (4, 12)), ("strides", (36, 1)))


def test_moves_that_are_no_view_together_are_two(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        node("Reshape", ["a", "list"], ["b"]),
        node("Slice", ["b", "from", "to", "axis", "step"], ["y"]),
    ]
    lists = {"list": _list(1, 144), "from": _list(0), "to": _list(144), "axis": _list(1), "step": _list(5)}
    assert _ops(_simple(tmp_path, nodes, **lists)) == ["rearrange", "rearrange"]


def test_moves_that_undo_each_other_are_none(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        node("Transpose", ["a"], ["b"], perm=[0, 3, 1, 2]),
        node("Relu", ["b"], ["y"]),
    ]
    assert _ops(_simple(tmp_path, nodes)) == ["relu"]


def test_slices_of_an_image_joined_are_one_move(tmp_path: Path) -> None:
    """The first layer of YOLOX and YOLOv5: every other row and column, four times."""
    nodes, parts = [], ["a", "b", "c", "d"]
    for part, (row, column) in zip(parts, [(0, 0), (1, 0), (0, 1), (1, 1)], strict=True):
        nodes.append(node("Slice", ["x", f"s{row}", "end", "rows", "two"], [f"r{part}"]))
        nodes.append(node("Slice", [f"r{part}", f"s{column}", "end", "columns", "two"], [part]))
    nodes.append(node("Concat", parts, ["y"], axis=1))
    lists = {"s0": [0], "s1": [1], "end": [2**62], "rows": [2], "columns": [3], "two": [2]}
    graph = _simple(tmp_path, nodes, **{name: _list(*items) for name, items in lists.items()})
    assert _ops(graph) == ["rearrange"]
    assert graph.nodes[0].integers("strides") == (1, 6, 12, 2)


def test_slices_joined_in_another_order_stay_a_concat(tmp_path: Path) -> None:
    nodes = [node("Slice", ["x", f"s{i}", f"e{i}", "rows"], [f"p{i}"]) for i in range(3)]
    nodes.append(node("Concat", ["p0", "p2", "p1"], ["y"], axis=1))
    bounds = {f"s{i}": _list(2 * i) for i in range(3)} | {f"e{i}": _list(2 * i + 2) for i in range(3)}
    assert _ops(_simple(tmp_path, nodes, rows=_list(2), **bounds)) == ["rearrange"] * 3 + ["concat"]


def test_a_transpose_goes_before_the_concat_of_moved_values(tmp_path: Path) -> None:
    nodes = [
        node("Reshape", ["x", "list"], ["a"]),
        node("Relu", ["x"], ["r"]),
        node("Reshape", ["r", "list"], ["b"]),
        node("Concat", ["a", "b"], ["c"], axis=2),
        node("Transpose", ["c"], ["y"], perm=[0, 2, 1]),
    ]
    graph = _simple(tmp_path, nodes, list=_list(1, 4, 36))
    assert sorted(_ops(graph)) == ["concat", "rearrange", "rearrange", "relu"]
    assert graph.nodes[-1].op == "concat" and graph.nodes[-1].integer("axis") == 1


def test_stages_are_reported_in_order_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Add", ["a", "c"], ["b"]), node("Relu", ["b"], ["y"])]
    graph = onnx_files.load(tmp_path, onnx_files.model(nodes, {"x": IMAGE}, weights={"w": W, "c": np.float32(1)}))
    seen: list[tuple[str, int]] = []
    simple = frontend.simplify(graph, lambda name, after: seen.append((name, len(after.nodes))))
    assert seen == [("fold", 3), ("batch-norm", 3), ("activations", 3), ("bias", 2), ("fold-again", 2), ("moves", 2)]
    assert [name for name, _ in seen] == [name for name, _ in simplifier.STAGES]
    assert frontend.simplify(simple) == simple
