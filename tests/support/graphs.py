"""Small ONNX graphs that tests make themselves: quick to compile, and each operator class of the first light occurs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, external_data_helper, helper, numpy_helper

OPSET = 13
Weights = dict[str, npt.NDArray[Any]]


def save(
    path: Path, nodes: Sequence[Any], shape: Sequence[int | str], out_shape: Sequence[int | str], weights: Weights
) -> Path:
    """Write a graph with input `x` and output `y`, float32; the file's bytes depend on the arguments alone."""
    graph = helper.make_graph(
        list(nodes),
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(out_shape))],
        [numpy_helper.from_array(value, name) for name, value in sorted(weights.items())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def relu(path: Path, *, channels: int = 3, side: int = 8) -> Path:
    """The smallest graph: y = max(x, 0)."""
    shape = [1, channels, side, side]
    return save(path, [helper.make_node("Relu", ["x"], ["y"])], shape, shape, {})


def tiny(path: Path, *, side: int | str = 8, seed: int = 1, alpha: float = 0.2) -> Path:
    """Conv, BatchNorm, hard-swish, depthwise conv, squeeze-and-excite gate, matmul, softmax; 5 classes.

    `side` may be a name: the model is then of dynamic size and needs `--shape`. `alpha` is that of one operator.
    """
    draw = np.random.Generator(np.random.PCG64(seed))

    def normal(*shape: int, scale: float = 0.3) -> npt.NDArray[np.float32]:
        return (scale * draw.standard_normal(shape)).astype(np.float32)

    weights: Weights = {
        "stem": normal(16, 3, 3, 3),
        "gamma": 1 + normal(16, scale=0.1),
        "beta": normal(16),
        "mean": normal(16),
        "variance": 1 + np.abs(normal(16)),
        "depthwise": normal(16, 1, 3, 3),
        "squeeze": normal(4, 16, 1, 1),
        "squeeze_bias": normal(4),
        "excite": normal(16, 4, 1, 1),
        "excite_bias": normal(16),
        "project": normal(24, 16, 1, 1),
        "head": normal(24, 5),
        "head_bias": normal(5),
        "flat": np.array([1, 24], np.int64),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "stem"], ["c0"], strides=[2, 2], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("BatchNormalization", ["c0", "gamma", "beta", "mean", "variance"], ["b0"], epsilon=1e-5),
        *_hard_swish("b0", "h0", weights),
        node("Conv", ["h0", "depthwise"], ["d0"], pads=[1, 1, 1, 1], kernel_shape=[3, 3], group=16),
        node("Relu", ["d0"], ["d1"]),
        node("GlobalAveragePool", ["d1"], ["g0"]),
        node("Conv", ["g0", "squeeze", "squeeze_bias"], ["g1"], kernel_shape=[1, 1]),
        node("Relu", ["g1"], ["g2"]),
        node("Conv", ["g2", "excite", "excite_bias"], ["g3"], kernel_shape=[1, 1]),
        node("HardSigmoid", ["g3"], ["g4"], alpha=alpha, beta=0.5),
        node("Mul", ["d1", "g4"], ["s0"]),
        node("Add", ["s0", "h0"], ["s1"]),
        node("Conv", ["s1", "project"], ["p0"], kernel_shape=[1, 1]),
        node("GlobalAveragePool", ["p0"], ["p1"]),
        node("Reshape", ["p1", "flat"], ["p2"]),
        node("MatMul", ["p2", "head"], ["m0"]),
        node("Add", ["m0", "head_bias"], ["m1"]),
        node("Softmax", ["m1"], ["y"], axis=1),
    ]
    return save(path, nodes, [1, 3, side, side], [1, 5], weights)


def _hard_swish(before: str, after: str, weights: Weights) -> list[Any]:
    """x * clip(x + 3, 0, 6) / 6, spelled as exporters spell it."""
    weights |= {name: np.array(value, np.float32) for name, value in (("three", 3), ("zero", 0), ("six", 6))}
    node = helper.make_node
    return [
        node("Add", [before, "three"], [f"{after}_a"]),
        node("Clip", [f"{after}_a", "zero", "six"], [f"{after}_c"]),
        node("Mul", [before, f"{after}_c"], [f"{after}_m"]),
        node("Div", [f"{after}_m", "six"], [after]),
    ]


def unknown_operator(path: Path) -> Path:
    """A graph whose second node, `mystery`, is of an operator that no opset has."""
    shape = [1, 16, 4, 4]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relux", ["a"], ["y"], name="mystery")]
    return save(path, nodes, shape, shape, {})


def self_gated(path: Path) -> Path:
    """A convolution and x * gate(x), with a gate that makes no activation of a name of its own of it."""
    weight = np.random.Generator(np.random.PCG64(3)).standard_normal((8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("HardSigmoid", ["c"], ["s"], alpha=0.25, beta=0.375),
        helper.make_node("Mul", ["c", "s"], ["y"]),
    ]
    return save(path, nodes, [1, 3, 9, 11], [1, 8, 9, 11], {"w": weight})


def external(path: Path, location: str) -> Path:
    """A 1x1 convolution whose weight lies in the file `location`, which is not written."""
    weight = numpy_helper.from_array(np.ones((16, 16, 1, 1), np.float32), "w")
    external_data_helper.set_external_data(weight, location)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    shape = [1, 16, 4, 4]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[1, 1])],
        "external",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path
