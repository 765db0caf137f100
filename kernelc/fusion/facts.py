"""What a constraint may ask of a matched operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelc.fusion.constraint import Fact, Faulty, Kind
from kernelc.graph import Graph, Node, Tensor, channel_axis, spread
from kernelc.media.ops import ELEMENTWISE, OPS, AttrKind

COMMON: Mapping[str, Kind] = {
    "op": "text",
    "dtype": "text",
    "input_shape": "list",
    "output_shape": "list",
    "rank": "number",
    "channels": "number",
    "operand": "text",
    "operand_shape": "list",
    "constant": "flag",
    "value": "number",
    "swapped": "flag",
}
"""Facts of every operation beside its attributes.

`input_shape`: of the value that it works on. Of its other operand, where it has one: `operand` is the spread ("none",
"scalar", "channel" for one number per channel, "whole" for the result's shape, else "other"), `operand_shape` the
shape, `constant` whether it (or every other operand) is a constant, `value` the number where it is a constant of one
element, `swapped` whether it comes first. `channels` and `rank` are the result's.
"""

_KINDS: Mapping[AttrKind, Kind] = {"int": "number", "real": "number", "text": "text", "ints": "list"}


def kind_of(ops: Sequence[str], fact: str) -> Kind:
    """Kind of a fact of an operation that is one of `ops`; raises `Faulty` where one of them does not have it."""
    if fact in COMMON:
        return COMMON[fact]
    kinds: set[Kind] = set()
    for op in ops:
        if op not in OPS:
            kinds.add("any")
            continue
        found = next((_KINDS[attr.kind] for attr in OPS[op].attrs if attr.name == fact), None)
        if found is None:
            own = sorted([*COMMON, *(attr.name for attr in OPS[op].attrs)])
            raise Faulty(f"{op} has no fact {fact!r}; it has {', '.join(own)}")
        kinds.add(found)
    return kinds.pop() if len(kinds) == 1 else "any"


def facts_of(graph: Graph, node: Node, value: str) -> Mapping[str, Fact]:
    """The facts of a node that works on `value`."""
    result = graph.result(node)
    others = [name for name in node.operands if name != value]
    first = graph.tensors[others[0]] if others else None
    weight = graph.weights.get(others[0]) if others else None
    return {
        **dict(node.attrs),
        "op": node.op,
        "dtype": result.dtype,
        "input_shape": graph.tensors[value].shape,
        "output_shape": result.shape,
        "rank": len(result.shape),
        "channels": _size(result, channel_axis(len(result.shape))),
        "operand": "none" if first is None else spread(first.shape, result.shape),
        "operand_shape": None if first is None else first.shape,
        "constant": bool(others) and all(name in graph.weights for name in others),
        "value": weight.array.reshape(-1).tolist()[0] if weight is not None and weight.array.size == 1 else None,
        "swapped": bool(others) and node.operands[0] != value,
    }


def worked_on(graph: Graph, node: Node) -> str:
    """What the first node of a chain works on: of an element-wise one the operand of the result's shape."""
    whole = [
        name
        for name in node.operands
        if name not in graph.weights and graph.tensors[name].shape == graph.result(node).shape
    ]
    return whole[0] if node.op in ELEMENTWISE and whole else node.operands[0]


def _size(tensor: Tensor, index: int) -> int | None:
    size = tensor.shape[index] if len(tensor.shape) > index else None
    return size if isinstance(size, int) else None
