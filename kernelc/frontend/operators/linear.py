"""ONNX operators of matrix products, normalisation and softmax."""

from __future__ import annotations

import numpy as np

from kernelc.frontend.operators.registry import NodeImport, operator

DEFAULT_EPSILON = float(np.float32(1e-5))


@operator("MatMul", 1)
def matmul(node: NodeImport) -> str:
    """NumPy's matmul."""
    return node.emit("matmul", node.required(2))


@operator("Gemm", 7)
def gemm(node: NodeImport) -> str:
    """alpha * A' * B' + beta * C, each factor of 1 left out; C is optional from operator set 11 on."""
    left, right, added = node.operands(3 if node.site.opset < 11 else 2, 3)
    assert left is not None and right is not None
    for name in (left, right):
        if len(node.tensor(name).shape) != 2:
            raise node.site.invalid("A and B must be matrices")
    if node.attributes.integer("transA", 0):
        left = node.emit("transpose", [left], {"permutation": (1, 0)})
    if node.attributes.integer("transB", 0):
        right = node.emit("transpose", [right], {"permutation": (1, 0)})
    result = _scaled(node, node.emit("matmul", [left, right]), node.attributes.real("alpha", 1.0))
    beta = node.attributes.real("beta", 1.0)
    if added is None:
        return result
    total = node.emit("add", [result, _scaled(node, added, beta)])
    if node.tensor(total).shape != node.tensor(result).shape:
        raise node.site.invalid("C must broadcast to the shape of the product")
    return total


def _scaled(node: NodeImport, value: str, factor: float) -> str:
    if factor == 1.0:
        return value
    dtype = node.tensor(value).dtype
    if not dtype.startswith("f"):
        raise node.site.unsupported("alpha and beta must be 1 for integers")
    return node.emit("mul", [value, node.constant(np.array(factor), dtype)])


@operator("BatchNormalization", 7)
def batch_norm_7(node: NodeImport) -> str:
    """Inference; `spatial` 0 (operator sets below 9) is refused."""
    if node.site.opset < 9 and node.attributes.integer("spatial", 1) != 1:
        raise node.site.unsupported("spatial is 0")
    node.attributes.ignore("momentum")
    return node.emit("batch_norm", node.required(5), {"epsilon": node.attributes.real("epsilon", DEFAULT_EPSILON)})


@operator("BatchNormalization", 14)
def batch_norm_14(node: NodeImport) -> str:
    """Inference; training_mode is refused."""
    if node.attributes.integer("training_mode", 0):
        raise node.site.unsupported("training_mode is 1")
    return batch_norm_7(node)


@operator("LayerNormalization", 17)
def layer_norm(node: NodeImport) -> str:
    """Over the last dimension, then * scale + bias; a second or third output is refused where it is used.

    `stash_type` 1 computes in float32, which is what float32 does anyway.
    """
    value, scale, bias = node.operands(2, 3)
    assert value is not None and scale is not None
    rank = len(node.tensor(value).shape)
    if node.axis(node.attributes.integer("axis", -1), rank) != rank - 1:
        raise node.site.unsupported("it normalises more than the last dimension")
    if node.attributes.integer("stash_type", 1) != 1:
        raise node.site.unsupported("stash_type is not 1")
    result = node.emit("layer_norm", [value], {"epsilon": node.attributes.real("epsilon", DEFAULT_EPSILON)})
    result = node.emit("mul", [result, scale])
    return result if bias is None else node.emit("add", [result, bias])


@operator("Softmax", 1)
def softmax_1(node: NodeImport) -> str:
    """Over all dimensions from `axis` (default 1) on together: the operand is taken as a matrix."""
    (value,) = node.required(1)
    rank = len(node.tensor(value).shape)
    axis = node.axis(node.attributes.integer("axis", 1), rank, negative=node.site.opset >= 11)
    if axis == rank - 1:
        return node.emit("softmax", [value], {"axis": axis})
    matrix = node.emit("flatten", [value], {"axis": axis})
    result = node.emit("softmax", [matrix], {"axis": 1})
    shape = node.emit("shape", [value], {"start": 0, "end": rank})
    return node.emit("dynamic_reshape", [result, shape], {"allow_zero": 1})


@operator("Softmax", 13)
def softmax_13(node: NodeImport) -> str:
    """Over one dimension, by default the last."""
    (value,) = node.required(1)
    axis = node.axis(node.attributes.integer("axis", -1), len(node.tensor(value).shape))
    return node.emit("softmax", [value], {"axis": axis})
