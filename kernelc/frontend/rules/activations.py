"""Activations that exporters spell out, recognised as one operation."""

from __future__ import annotations

import numpy as np

from kernelc.frontend.rewrite import Rebuild
from kernelc.graph import Node

SIXTH = float(np.float32(1 / 6))


def hard_sigmoid(build: Rebuild, node: Node, _: Node) -> str | None:
    """clip(x + 3, 0, 6) / 6 is hard_sigmoid(x, 1/6, 1/2); the division may be a product with 1/6."""
    source = _sixth_of(build, node)
    inner = None if source is None else _raised(build, source)
    if inner is None or not _is_f32(build, inner):
        return None
    return build.emit("hard_sigmoid", [inner], {"alpha": SIXTH, "beta": 0.5})


def hard_swish(build: Rebuild, node: Node, _: Node) -> str | None:
    """x * clip(x + 3, 0, 6) / 6, divided before or after the product, is hard_swish(x)."""
    source = _sixth_of(build, node)
    product = None if source is None else build.producer(source, "mul")
    for left, right in _both_ways(product):
        if _raised(build, right) == left and _is_f32(build, left):
            return build.emit("hard_swish", [left])
    for left, right in _both_ways(node if node.op == "mul" else None):
        gate = build.producer(right, "hard_sigmoid")
        parameters = None if gate is None else (gate.real("alpha"), gate.real("beta"))
        if gate is not None and gate.inputs[0] == left and parameters == (SIXTH, 0.5) and _is_f32(build, left):
            return build.emit("hard_swish", [left])
    return None


def silu(build: Rebuild, node: Node, _: Node) -> str | None:
    """x * sigmoid(x) is silu(x)."""
    for left, right in _both_ways(node if node.op == "mul" else None):
        gate = build.producer(right, "sigmoid")
        if gate is not None and gate.inputs[0] == left:
            return build.emit("silu", [left])
    return None


def _both_ways(node: Node | None) -> tuple[tuple[str, str], ...]:
    if node is None:
        return ()
    left, right = node.inputs
    return (left, right), (right, left)


def _sixth_of(build: Rebuild, node: Node) -> str | None:
    """x where the node is x / 6 or x * (1/6)."""
    if node.op not in ("div", "mul"):
        return None
    wanted = 6.0 if node.op == "div" else SIXTH
    return node.inputs[0] if build.scalar(node.inputs[1]) == wanted else None


def _raised(build: Rebuild, name: str) -> str | None:
    """x where the value is clip(x + 3, 0, 6)."""
    clip = build.producer(name, "clip")
    if clip is None or (clip.real("min"), clip.real("max")) != (0.0, 6.0):
        return None
    addition = build.producer(clip.inputs[0], "add")
    if addition is None or build.scalar(addition.inputs[1]) != 3.0:
        return None
    same_shape = build.tensor(addition.inputs[0]).shape == build.tensor(name).shape
    return addition.inputs[0] if same_shape else None


def _is_f32(build: Rebuild, name: str) -> bool:
    """Other floats keep the spelled form: their 1/6 is another number."""
    return build.tensor(name).dtype == "f32"


RULES = (hard_swish, hard_sigmoid, silu)
