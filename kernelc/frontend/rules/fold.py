"""Constant folding, and one form for each operation that can be said in several ways."""

from __future__ import annotations

from math import prod

import numpy as np

from kernelc.frontend.rewrite import Rebuild
from kernelc.graph import NUMPY_TYPES, Node
from kernelc.media.contents import content_of_result
from kernelc.media.infer import result_type
from kernelc.media.ops import FLOATS
from kernelc.numerics import exact

MAX_FOLDED_ELEMENTS = 2**24
"""Larger results are left to the device, so that a small model cannot become a huge one by folding."""
_COMMUTATIVE = ("add", "mul")
_BINARY = ("add", "mul", "sub", "div", "prelu")
_NEUTRAL = {"add": -0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}
_RESHAPES = ("dynamic_reshape", "flatten", "squeeze", "unsqueeze", "reshape")


def known_content(build: Rebuild, node: Node, old: Node) -> str | None:
    """An integer list that is known, such as the sizes of a static shape, becomes a constant."""
    call = build.call(node)
    dtype, shape = result_type(call)
    content = content_of_result(call, dtype, shape)
    numbers = [item for item in content or () if isinstance(item, int)]
    if content is None or len(numbers) != len(content):
        return None
    array = np.array(numbers, np.int64).reshape([len(numbers)] if shape else [])
    return build.replaced(build.constant(array, dtype), old)


def constant_operands(build: Rebuild, node: Node, old: Node) -> str | None:
    """An operation on constants becomes its result, where that is the same bits on every CPU."""
    weights = [build.weight(name) for name in node.inputs]
    arrays = [weight.array for weight in weights if weight is not None]
    if node.op not in exact.KERNELS or len(arrays) != len(weights):
        return None
    dtype, shape = result_type(build.call(node))
    if prod(size for size in shape if isinstance(size, int)) > MAX_FOLDED_ELEMENTS:
        return None
    try:
        return build.replaced(build.constant(exact.apply(node, arrays), dtype), old)
    except exact.NotExact:
        return None


def identity(build: Rebuild, node: Node, old: Node) -> str | None:
    """x for: identity, a cast to its own type, a reshape to its own shape, a whole slice, a concat of one, x * 1."""
    source = build.tensor(node.inputs[0])
    same = (
        node.op == "identity"
        or (node.op == "concat" and len(node.inputs) == 1)
        or (node.op == "cast" and node.attr("to") == source.dtype)
        or (node.op in _RESHAPES and result_type(build.call(node))[1] == source.shape)
        or (node.op == "transpose" and list(node.integers("permutation")) == list(range(len(source.shape))))
        or (node.op == "slice" and _whole(build, node))
        or (node.op in _NEUTRAL and _neutral(build, node))
    )
    if not same:
        return None
    return build.replaced(source.name, old)


def _whole(build: Rebuild, node: Node) -> bool:
    call = build.call(node)
    return set(call.contents[4] or ()) == {1} and result_type(call)[1] == call.shape()


def _neutral(build: Rebuild, node: Node) -> bool:
    """Whether the constant second operand changes no bit of the first (adding +0 to a float does: -0 + 0 is 0)."""
    weight = build.weight(node.inputs[1])
    if weight is None or result_type(build.call(node))[1] != build.tensor(node.inputs[0]).shape:
        return False
    neutral = np.array(_NEUTRAL[node.op], NUMPY_TYPES[weight.dtype]).tobytes()
    return weight.data == neutral * prod(weight.shape)


def static_reshape(build: Rebuild, node: Node, _: Node) -> str | None:
    """Every move that keeps the row-major order is a reshape; two of them are the second."""
    if node.op not in _RESHAPES:
        return None
    shape = result_type(build.call(node))[1]
    sizes = tuple(size for size in shape if isinstance(size, int))
    if len(sizes) != len(shape):
        return None
    before = build.producer(node.inputs[0], "reshape")
    if node.op == "reshape" and before is None:
        return None
    return build.emit("reshape", [before.inputs[0] if before is not None else node.inputs[0]], {"shape": sizes})


def clamp_to_clip(build: Rebuild, node: Node, _: Node) -> str | None:
    """A clamp of floats between constants is a clip."""
    if node.op != "clamp" or build.tensor(node.inputs[0]).dtype not in FLOATS:
        return None
    low, high = build.scalar(node.inputs[1]), build.scalar(node.inputs[2])
    if low is None or high is None or low != low or high != high:
        return None
    return build.emit("clip", [node.inputs[0]], {"min": low, "max": high})


def constant_second(build: Rebuild, node: Node, _: Node) -> str | None:
    """Of add and mul the constant is the second operand."""
    if node.op not in _COMMUTATIVE or build.weight(node.inputs[0]) is None or build.weight(node.inputs[1]) is not None:
        return None
    return build.emit(node.op, node.inputs[::-1])


def constant_shape(build: Rebuild, node: Node, _: Node) -> str | None:
    """A constant operand of a binary operation is a scalar, or has the rank of the result.

    A prelu has the shape of its first operand, which so stays.
    """
    if node.op not in _BINARY:
        return None
    result = result_type(build.call(node))[1]
    kept = node.inputs[:1] if node.op == "prelu" else ()
    operands = [*kept, *(_with_rank(build, name, len(result)) for name in node.inputs[len(kept) :])]
    if operands == list(node.inputs):
        return None
    changed = result_type(build.call(Node(node.op, node.name, tuple(operands), node.outputs)))[1]
    return build.emit(node.op, operands) if changed == result else None


def _with_rank(build: Rebuild, name: str, rank: int) -> str:
    weight = build.weight(name)
    if weight is None:
        return name
    shape = () if weight.array.size == 1 else (1,) * (rank - len(weight.shape)) + weight.shape
    return name if shape == weight.shape else build.constant(weight.array.reshape(shape), weight.dtype)


def explicit_pads(build: Rebuild, node: Node, _: Node) -> str | None:
    """A max pool with ceil_mode is one with larger pads at the end: padding never wins."""
    if node.op != "max_pool" or not node.integer("ceil_mode"):
        return None
    source, shape = build.tensor(node.inputs[0]), result_type(build.call(node))[1]
    if not source.is_static:
        return None
    pads = list(node.integers("pads"))
    for axis in range(2):
        count, size = shape[2 + axis], source.static_shape[2 + axis]
        assert isinstance(count, int)
        reach = node.integers("dilations")[axis] * (node.integers("kernel")[axis] - 1) + 1
        pads[2 + axis] = max((count - 1) * node.integers("strides")[axis] + reach - size - pads[axis], 0)
    return build.emit("max_pool", node.inputs, dict(node.attrs) | {"pads": tuple(pads), "ceil_mode": 0})


RULES = (
    constant_operands,
    known_content,
    identity,
    static_reshape,
    clamp_to_clip,
    constant_second,
    constant_shape,
    explicit_pads,
)
