"""ONNX operators that reduce over dimensions."""

from __future__ import annotations

from kernelc.frontend.operators.registry import NodeImport, operator


@operator("ReduceMean", 1)
def reduce_mean_1(node: NodeImport) -> str:
    """Axes are an attribute, by default all dimensions; negative ones came with operator set 11."""
    (value,) = node.required(1)
    rank = len(node.tensor(value).shape)
    axes = node.attributes.integers("axes", tuple(range(rank)))
    return _mean(node, value, tuple(node.axis(axis, rank, negative=node.site.opset >= 11) for axis in axes))


@operator("ReduceMean", 18)
def reduce_mean_18(node: NodeImport) -> str:
    """Axes are an optional input; without axes it is over all dimensions, or none where `noop_with_empty_axes`."""
    value, given = node.operands(1, 2)
    assert value is not None
    rank = len(node.tensor(value).shape)
    none_is_none = node.attributes.integer("noop_with_empty_axes", 0)
    axes = () if given is None else node.integers_of(given, "axes")
    if not axes and not none_is_none:
        axes = tuple(range(rank))
    return _mean(node, value, tuple(node.axis(axis, rank) for axis in axes))


def _mean(node: NodeImport, value: str, axes: tuple[int, ...]) -> str:
    keep = node.attributes.integer("keepdims", 1)
    if not axes:
        return node.emit("identity", [value])
    return node.emit("reduce_mean", [value], {"axes": tuple(sorted(axes)), "keep_dims": 1 if keep else 0})
