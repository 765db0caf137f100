"""Type rules of element-wise operations and matrix products."""

from __future__ import annotations

from kernelc.media.call import Call, Rule, Shape, broadcast, require, shape_text


def _same(call: Call) -> tuple[str, Shape]:
    return call.tensors[0].dtype, call.shape()


def _binary(call: Call) -> tuple[str, Shape]:
    left, right = call.tensors
    require(left.dtype == right.dtype, f"operands are {left.dtype} and {right.dtype}; they must be the same")
    return left.dtype, broadcast(left.shape, right.shape)


def _prelu(call: Call) -> tuple[str, Shape]:
    dtype, shape = _binary(call)
    value, slope = (tensor.shape for tensor in call.tensors)
    require(shape == value, f"a slope of shape {shape_text(slope)} does not spread over {shape_text(value)}")
    return dtype, shape


def _clip(call: Call) -> tuple[str, Shape]:
    require(call.node.real("min") == call.node.real("min"), "min is not a number")
    require(call.node.real("max") == call.node.real("max"), "max is not a number")
    return _same(call)


def _clamp(call: Call) -> tuple[str, Shape]:
    value, *bounds = call.tensors
    for name, bound in zip(("lo", "hi"), bounds, strict=True):
        require(bound.dtype == value.dtype, f"{name} is {bound.dtype}; it must be {value.dtype} like x")
        require(bound.shape in ((), (1,)), f"{name} must be a scalar, not {shape_text(bound.shape)}")
    return _same(call)


def _cast(call: Call) -> tuple[str, Shape]:
    return str(call.node.attr("to")), call.shape()


def _softmax(call: Call) -> tuple[str, Shape]:
    axis, rank = call.node.integer("axis"), len(call.shape())
    require(axis < rank, f"axis {axis} is outside rank {rank}")
    return _same(call)


def _layer_norm(call: Call) -> tuple[str, Shape]:
    require(bool(call.shape()), "x must have a dimension at least")
    require(call.node.real("epsilon") >= 0, "epsilon must not be negative")
    return _same(call)


def _matmul(call: Call) -> tuple[str, Shape]:
    left, right, *bias = call.tensors
    require(all(t.dtype == left.dtype for t in call.tensors), "operands must have the same element type")
    require(bool(left.shape) and bool(right.shape), "operands must have a dimension at least")
    rows = left.shape if len(left.shape) > 1 else (1, *left.shape)
    columns = right.shape if len(right.shape) > 1 else (*right.shape, 1)
    require(
        rows[-1] == columns[-2], f"inner sizes differ: x is {shape_text(left.shape)}, y is {shape_text(right.shape)}"
    )
    result = broadcast(rows[:-2], columns[:-2])
    result += (rows[-2],) if len(left.shape) > 1 else ()
    result += (columns[-1],) if len(right.shape) > 1 else ()
    for tensor in bias:
        require(
            tensor.shape == result[-1:] != (), f"b is {shape_text(tensor.shape)}; it must be {shape_text(result[-1:])}"
        )
    return left.dtype, result


def _batch_norm(call: Call) -> tuple[str, Shape]:
    value = call.tensors[0]
    require(len(value.shape) >= 2, "x must have a channel dimension")
    for name, tensor in zip(("scale", "bias", "mean", "var"), call.tensors[1:], strict=True):
        require(tensor.dtype == value.dtype, f"{name} is {tensor.dtype}; it must be {value.dtype} like x")
        wanted = (value.shape[1],)
        require(tensor.shape == wanted, f"{name} is {shape_text(tensor.shape)}; it must be {shape_text(wanted)}")
    require(call.node.real("epsilon") >= 0, "epsilon must not be negative")
    return _same(call)


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            *("identity", "layout_cast", "relu", "leaky_relu", "sigmoid", "tanh", "silu", "sqrt", "hard_sigmoid"),
            "hard_swish",
        ),
        _same,
    ),
    **dict.fromkeys(("add", "sub", "mul", "div"), _binary),
    "batch_norm": _batch_norm,
    "cast": _cast,
    "clamp": _clamp,
    "clip": _clip,
    "layer_norm": _layer_norm,
    "matmul": _matmul,
    "prelu": _prelu,
    "softmax": _softmax,
}
