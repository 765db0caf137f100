"""What the backend can make one kernel of: an operation with loops of its own, then element-wise ones in place.

Each of these takes the element that the operation before it just made, so that it costs no pass over memory. A rule may
ask for less, never for more.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelc.graph import Graph, Node, spread
from kernelc.media.call import shape_text

_WINDOWS = ("max_pool", "average_pool", "global_average_pool", "resize")
COMPUTING = frozenset({"conv", "conv_transpose", "matmul", "softmax", "layer_norm", *_WINDOWS})
"""Operations with loops of their own that element-wise ones can follow."""
EPILOGUE = frozenset(
    {
        *("add", "sub", "mul", "div", "sqrt"),
        *("relu", "leaky_relu", "prelu", "clip", "sigmoid", "tanh", "silu", "hard_sigmoid", "hard_swish"),
    }
)
"""Element-wise operations that can follow; they can come first too."""


def objections(graph: Graph, before: Node, node: Node) -> Iterator[str]:
    """Why the backend cannot compute `node` in the kernel of `before`, whose result it reads; nothing where it can."""
    value = before.outputs[0]
    shape = graph.tensors[value].shape
    if before.op not in COMPUTING | EPILOGUE:
        yield f"{before.op} takes no epilogue"
    if node.op not in EPILOGUE:
        yield f"{node.op} has loops of its own"
    if node.inputs.count(value) > 1:
        yield f"it reads {value} more than once"
    if graph.result(node).shape != shape:
        yield f"it changes the shape of {value} to {shape_text(graph.result(node).shape)}"
    for name in node.inputs:
        if name != value and spread(graph.tensors[name].shape, shape) == "other":
            found = shape_text(graph.tensors[name].shape)
            yield f"its operand {name} of shape {found} is neither whole, nor per channel, nor a scalar"
