"""Operations over the image in the form that the backend has: means as pooling, resizes that change nothing as none."""

from __future__ import annotations

import numpy as np

from kernelc.frontend.rewrite import Rebuild
from kernelc.graph import Node
from kernelc.media.infer import result_type
from kernelc.numerics.resampling import tables


def mean_to_pool(build: Rebuild, node: Node, _: Node) -> str | None:
    """The mean over height and width of an image is a global average pool, reshaped where the dimensions go."""
    source = build.tensor(node.inputs[0])
    if node.op != "reduce_mean" or len(source.shape) != 4 or node.integers("axes") != (2, 3):
        return None
    pooled = build.emit("global_average_pool", node.inputs)
    return pooled if node.integer("keep_dims") else build.emit("squeeze", [pooled], {"axes": (2, 3)})


def idle_resize(build: Rebuild, node: Node, old: Node) -> str | None:
    """A resize that takes each element where it is is none."""
    if node.op != "resize":
        return None
    source = build.tensor(node.inputs[0])
    _, shape = result_type(build.call(node))
    if not source.is_static or source.shape != shape:
        return None
    sizes = source.static_shape[2:]
    for table in tables(node, sizes, sizes):
        taken = (table.weights * (table.indices == np.arange(len(table.indices))[:, None])).max(axis=1)
        if table.outside.any() or (taken != 1).any() or (np.count_nonzero(table.weights, axis=1) != 1).any():
            return None
    return build.replaced(source.name, old)


RULES = (mean_to_pool, idle_resize)
