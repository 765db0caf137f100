"""Layer normalisation that exporters spell out, recognised as one operation."""

from __future__ import annotations

from kernelc.frontend.rewrite import Rebuild
from kernelc.graph import Node


def layer_norm(build: Rebuild, node: Node, _: Node) -> str | None:
    """(x - mean) / sqrt(mean of the squares of x - mean, plus epsilon), over the last dimension, is layer_norm(x)."""
    root = build.producer(node.inputs[1], "sqrt") if node.op == "div" else None
    raised = None if root is None else build.producer(root.inputs[0], "add")
    epsilon = None if raised is None else build.scalar(raised.inputs[1])
    if raised is None or epsilon is None or not epsilon >= 0:
        return None
    centred = node.inputs[0]
    square, difference = _mean_of(build, raised.inputs[0]), build.producer(centred, "sub")
    product = None if square is None else build.producer(square, "mul")
    if product is None or product.inputs != (centred, centred) or difference is None:
        return None
    value, mean = difference.inputs
    same_shape = build.tensor(raised.outputs[0]).shape == build.tensor(raised.inputs[0]).shape
    if _mean_of(build, mean) != value or not same_shape:  # an epsilon may add dimensions
        return None
    return build.emit("layer_norm", [value], {"epsilon": epsilon})


def _mean_of(build: Rebuild, name: str) -> str | None:
    """x where the value is the mean of x over its last dimension, which stays as 1."""
    mean = build.producer(name, "reduce_mean")
    if mean is None or not mean.integer("keep_dims"):
        return None
    last = len(build.tensor(mean.inputs[0]).shape) - 1
    return mean.inputs[0] if mean.integers("axes") == (last,) else None


RULES = (layer_norm,)
