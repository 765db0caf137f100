"""The classes of kernels that are reported and priced together, by their operator and the form of their weights."""

from __future__ import annotations

from collections.abc import Sequence

POINTWISE, WINDOWED, DEPTHWISE, GEMM, TRANSPOSED = "conv 1x1", "conv kxk", "depthwise", "gemm", "transposed"
PRODUCT, POOL, AVERAGE, SOFTMAX, NORM = "product", "pool", "global average", "softmax", "norm"
RESIZE, MOVE, CAST, ELEMENTWISE = "resize", "move", "cast", "elementwise"
CLASSES = (
    *(WINDOWED, POINTWISE, GEMM, DEPTHWISE, TRANSPOSED, PRODUCT, POOL, AVERAGE, SOFTMAX, NORM, RESIZE, ELEMENTWISE),
    *(MOVE, CAST),
)
"""All of them, those that multiply most first."""

_BY_KIND = {
    "conv_transpose": TRANSPOSED,
    "max_pool": POOL,
    "average_pool": POOL,
    "global_average_pool": AVERAGE,
    "softmax": SOFTMAX,
    "layer_norm": NORM,
    "resize": RESIZE,
    "layout_cast": CAST,
    "concat": MOVE,
    "rearrange": MOVE,
    "reshape": MOVE,
}


def class_of(kind: str, operands: Sequence[tuple[int, ...]]) -> str:
    """The class of a kernel of the operator `kind` with `operands` of these shapes; what is not listed is elementwise.

    Packed weights of a dense kernel are [block][kernel row][kernel column][input channel][lane], of a depthwise one
    [block][kernel row][kernel column][lane].
    """
    weights = operands[1]
    if kind == "conv":
        if len(weights) == 4:
            return DEPTHWISE
        return POINTWISE if weights[1:3] == (1, 1) else WINDOWED
    if kind == "matmul":
        return GEMM if len(weights) == 5 else PRODUCT
    return _BY_KIND.get(kind, ELEMENTWISE)
