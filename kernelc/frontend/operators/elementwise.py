"""ONNX operators that work element by element."""

from __future__ import annotations

import numpy as np

from kernelc.frontend.operators.registry import Handler, NodeImport, operator
from kernelc.frontend.tensors import dtype_of
from kernelc.graph import NUMPY_TYPES
from kernelc.media.ops import FLOATS

_UNARY = {
    "Relu": ("relu", 6),
    "Sigmoid": ("sigmoid", 6),
    "Tanh": ("tanh", 6),
    "HardSwish": ("hard_swish", 14),
    "Identity": ("identity", 1),
    "Sqrt": ("sqrt", 6),
}
_BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}


def _unary(op: str) -> Handler:
    return lambda node: node.emit(op, node.required(1))


def _binary(op: str) -> Handler:
    return lambda node: node.emit(op, node.required(2))


for _name, (_op, _since) in _UNARY.items():
    operator(_name, _since)(_unary(_op))
for _name, _op in _BINARY.items():
    operator(_name, 7)(_binary(_op))


@operator("Pow", 7)
def power(node: NodeImport) -> str:
    """An exponent of 1/2 as a root, one of 1, 2 or 3 as products; others would need a logarithm and are refused."""
    value, exponent = node.required(2)
    known = node.value_of(exponent)
    number = float(known.reshape(())) if known is not None and known.size == 1 else None
    if number not in (0.5, 1.0, 2.0, 3.0) or not node.tensor(value).dtype.startswith("f"):
        raise node.site.unsupported("only floats to the power of a constant 0.5, 1, 2 or 3 are supported")
    if known is not None and known.ndim > len(node.tensor(value).shape):
        raise node.site.unsupported("the exponent adds dimensions")
    if number == 0.5:
        return node.emit("sqrt", [value])
    result = value
    for _ in range(int(number) - 1):
        result = node.emit("mul", [result, value])
    return node.emit("identity", [value]) if result == value else result


@operator("LeakyRelu", 6)
def leaky_relu(node: NodeImport) -> str:
    """By default alpha is 0.01, as float32."""
    return node.emit("leaky_relu", node.required(1), {"alpha": node.attributes.real("alpha", float(np.float32(0.01)))})


@operator("PRelu", 7)
def prelu_7(node: NodeImport) -> str:
    """Floats only; the slope is broadcast to the input, and never the other way round."""
    value, slope = node.required(2)
    if node.tensor(value).dtype not in FLOATS:
        raise node.site.invalid(f"its input is of type {node.tensor(value).dtype}; integers came with operator set 9")
    return node.emit("prelu", [value, slope])


@operator("PRelu", 9)
def prelu_9(node: NodeImport) -> str:
    """Integers of 32 and 64 bits too."""
    value, slope = node.required(2)
    if node.tensor(value).dtype not in FLOATS | {"i32", "i64", "u32", "u64"}:
        raise node.site.invalid(f"its input is of type {node.tensor(value).dtype}; the operator does not take that")
    return node.emit("prelu", [value, slope])


@operator("HardSigmoid", 6)
def hard_sigmoid(node: NodeImport) -> str:
    """Defaults alpha 0.2, beta 0.5, as float32."""
    alpha = node.attributes.real("alpha", float(np.float32(0.2)))
    return node.emit("hard_sigmoid", node.required(1), {"alpha": alpha, "beta": node.attributes.real("beta", 0.5)})


@operator("Clip", 6)
def clip_6(node: NodeImport) -> str:
    """Bounds are attributes; an absent one is the largest float32, as the operator's definition says."""
    largest = float(np.finfo(np.float32).max)
    bounds = {"min": node.attributes.real("min", -largest), "max": node.attributes.real("max", largest)}
    return node.emit("clip", node.required(1), bounds)


@operator("Clip", 11)
def clip_11(node: NodeImport) -> str:
    """Bounds are optional scalar inputs; an absent one is the type's own limit."""
    value, *bounds = node.operands(1, 3)
    assert value is not None
    dtype = NUMPY_TYPES[node.tensor(value).dtype]
    limits = np.finfo(dtype.str) if dtype.kind == "f" else np.iinfo(dtype.str)
    present = [
        bound if bound is not None else node.constant(np.array(limit, dtype), node.tensor(value).dtype)
        for bound, limit in zip(bounds, (limits.min, limits.max), strict=True)
    ]
    low, high = (node.value_of(bound) for bound in present)
    if low is None or high is None or node.tensor(value).dtype not in FLOATS:
        return node.emit("clamp", [value, *present])
    for bound in present:
        if node.tensor(bound).dtype != node.tensor(value).dtype or node.tensor(bound).shape not in ((), (1,)):
            raise node.site.invalid("a bound must be a scalar of the element type of the input")
    return node.emit("clip", [value], {"min": float(low.reshape(())), "max": float(high.reshape(()))})


@operator("Cast", 6)
def cast(node: NodeImport) -> str:
    """`saturate` (19) and `round_mode` (24) concern 8-bit floats only."""
    target = dtype_of(node.attributes.integer("to"), f"the result of {node.site}")
    if node.site.opset >= 19:
        node.attributes.ignore("saturate")
    if node.site.opset >= 24:
        node.attributes.ignore("round_mode")
    return node.emit("cast", node.required(1), {"to": target})


@operator("Dropout", 7)
def dropout_7(node: NodeImport) -> str:
    """Inference: the input itself."""
    node.attributes.ignore("ratio")
    return node.emit("identity", node.required(1))


@operator("Dropout", 12)
def dropout_12(node: NodeImport) -> str:
    """Inference: the input itself; a training mode that may be true is refused."""
    value, _, training = node.operands(1, 3)
    node.attributes.ignore("seed")
    if training is not None:
        flag = node.value_of(training)
        if flag is None or flag.any():
            raise node.site.unsupported("training_mode is not the constant false")
    assert value is not None
    return node.emit("identity", [value])
