"""What is known of integer scalars and lists before the model runs: shapes, axes, sizes computed from shapes.

Elements may be symbolic sizes, so that Shape -> Slice -> Concat -> Reshape works on a model whose inputs are not bound.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelc.graph import Weight
from kernelc.media.call import Call, Content
from kernelc.media.rules_data import SHAPE_TYPES, slice_range
from kernelc.symbols import Dim, ShapeTooComplex, add, exact_divide, multiply, subtract

MAX_CONTENT = 64
"""Longer lists are data, not shapes."""


def content_of_weight(weight: Weight) -> Content | None:
    """The elements of an integer constant of rank 0 or 1 that is short enough to be a shape."""
    if weight.dtype not in SHAPE_TYPES or len(weight.shape) > 1 or weight.array.size > MAX_CONTENT:
        return None
    return tuple(int(item) for item in weight.array.reshape(-1).tolist())


def content_of_result(call: Call, dtype: str, shape: tuple[Dim, ...]) -> Content | None:
    """Known elements of an operation's result of this type; None where nothing is known."""
    rule = _RULES.get(call.node.op)
    if rule is None or dtype not in SHAPE_TYPES or len(shape) > 1:
        return None
    if call.node.op != "shape" and any(content is None for content in call.contents):
        return None
    try:
        content = rule(call)
    except ShapeTooComplex:
        return None
    if content is None or len(content) > MAX_CONTENT:
        return None
    low, high = (-(2**31), 2**31) if dtype == "i32" else (-(2**63), 2**63)
    return content if all(not isinstance(item, int) or low <= item < high for item in content) else None


def _operand(call: Call, index: int = 0) -> Content:
    content = call.contents[index]
    assert content is not None, "content_of_result asks only where all are known"
    return content


def _shape(call: Call) -> Content | None:
    return call.shape()[call.node.integer("start") : call.node.integer("end")]


def _same(call: Call) -> Content | None:
    return _operand(call)


def _concat(call: Call) -> Content | None:
    return tuple(item for index in range(len(call.contents)) for item in _operand(call, index))


def _slice(call: Call) -> Content | None:
    items = _operand(call)
    starts, ends, _, steps = (call.numbers(index, "a slice bound") for index in range(1, 5))
    if len(starts) != 1:
        return items if not starts else None
    return tuple(items[index] for index in slice_range(len(items), starts[0], ends[0], steps[0]))


def _gather(call: Call) -> Content | None:
    items, indices = _operand(call), _operand(call, 1)
    if len(call.shape()) != 1:
        return None
    places = [index for index in indices if isinstance(index, int)]
    return tuple(items[place] for place in places) if len(places) == len(indices) else None


def _pairwise(apply: Callable[[Dim, Dim], Dim | None]) -> Callable[[Call], Content | None]:
    def rule(call: Call) -> Content | None:
        left, right = _operand(call), _operand(call, 1)
        length = max(len(left), len(right))
        if {len(left), len(right)} - {1, length}:
            return None
        pairs = zip(
            left * length if len(left) == 1 else left, right * length if len(right) == 1 else right, strict=True
        )
        items = [apply(one, other) for one, other in pairs]
        known = tuple(item for item in items if item is not None)
        return known if len(known) == len(items) else None

    return rule


def _quotient(one: Dim, other: Dim) -> Dim | None:
    if isinstance(one, int) and isinstance(other, int) and other != 0:
        quotient = abs(one) // abs(other)  # ONNX divides integers toward zero
        return quotient if (one < 0) == (other < 0) else -quotient
    return exact_divide(one, other) if other != 0 else None


_RULES: dict[str, Callable[[Call], Content | None]] = {
    **dict.fromkeys(("cast", "identity", "reshape", "dynamic_reshape", "squeeze", "unsqueeze"), _same),
    "add": _pairwise(add),
    "concat": _concat,
    "div": _pairwise(_quotient),
    "gather": _gather,
    "mul": _pairwise(multiply),
    "shape": _shape,
    "slice": _slice,
    "sub": _pairwise(subtract),
}
