"""What the kernels of each operator can read and write: the hard constraints of the choice of layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelc.graph import Graph, Group
from kernelc.layout.geometry import image

PLAIN = frozenset({
    "add", "clip", "concat", "conv", "div", "hard_sigmoid", "hard_swish", "leaky_relu", "matmul", "mul", "prelu",
    "rearrange", "relu", "reshape", "sigmoid", "silu", "sqrt", "sub", "tanh",
})  # fmt: skip
"""Operators with a kernel for channels that lie apart: vectors are columns of a row.

No pooling: columns at the border have windows of their own there, and are computed one by one."""


FEW = 8
"""Channels that a dense kernel may write apart. Measured with AVX-512: it takes a sixth (3 of 16) to two thirds of the
time of one block; of more channels it takes no less, and up to three times as much where the image is large."""


@dataclass(frozen=True, slots=True)
class Form:
    """Lanes of what a group's anchor reads, and of its result, which are those of all that its epilogue reads."""

    read: int
    written: int


def forms(graph: Graph, group: Group, read: Sequence[int], written: Sequence[int], shortest: int) -> tuple[Form, ...]:
    """All forms of a group of which kernels can be made, for the candidates of its first operand and its result.

    `shortest`: columns of a row that a kernel for channels apart needs to fill a vector.
    """
    free = is_free(graph, group)
    pairs = [Form(one, other) for other in written for one in read if free or one == other]
    return tuple(form for form in pairs if _has_kernel(graph, group, form, shortest))


def is_free(graph: Graph, group: Group) -> bool:
    """Whether the anchor's kernel may write other lanes than it reads."""
    node = group.anchor
    if node.op in ("conv", "conv_transpose"):
        return node.integer("group") == 1
    return node.op in ("rearrange", "reshape") or (node.op == "matmul" and node.inputs[1] in graph.weights)


def _has_kernel(graph: Graph, group: Group, form: Form, shortest: int) -> bool:
    if form.written > 1:
        return form.read > 1 or is_free(graph, group)
    node = group.anchor
    if node.op not in PLAIN:
        return False
    if node.op in ("rearrange", "reshape"):
        return True
    if image(graph.result(node))[2] < shortest:
        return False
    if form.read != 1 or (node.attr("strides") is not None and node.integers("strides")[1] != 1):
        return False
    return not is_free(graph, group) or image(graph.result(node))[0] <= FEW


def wanted(graph: Graph, group: Group, form: Form) -> Mapping[str, frozenset[int]]:
    """The lanes in which a form reads each value, weights left out."""
    found: dict[str, set[int]] = {}
    for number, node in enumerate(group.nodes):
        for name in node.operands:
            if name in group.inputs and name not in graph.weights:
                found.setdefault(name, set()).add(form.written if number else form.read)
    return {name: frozenset(lanes) for name, lanes in found.items()}
