"""Names of operations in rule files: those of the Media dialect, and what linalg and ONNX call the same things."""

from __future__ import annotations

from collections.abc import Mapping

from kernelc.fusion.capability import COMPUTING, EPILOGUE
from kernelc.media.ops import OPS

FOREIGN: Mapping[str, str] = {
    "linalg.conv_2d": "conv",
    "linalg.conv_2d_nchw_fchw": "conv",
    "linalg.depthwise_conv_2d_nchw_chw": "conv",
    "linalg.matmul": "matmul",
    "linalg.batch_norm": "batch_norm",
    "linalg.leaky_relu": "leaky_relu",
    "linalg.relu": "relu",
    "linalg.sigmoid": "sigmoid",
    "linalg.add": "add",
    "linalg.sub": "sub",
    "linalg.mul": "mul",
    "linalg.div": "div",
    "linalg.softmax": "softmax",
    "linalg.transpose": "transpose",
    "linalg.pooling_nchw_max": "max_pool",
    "onnx.Conv": "conv",
    "onnx.ConvTranspose": "conv_transpose",
    "onnx.MatMul": "matmul",
    "onnx.BatchNormalization": "batch_norm",
    "onnx.LeakyRelu": "leaky_relu",
    "onnx.PRelu": "prelu",
    "onnx.Relu": "relu",
    "onnx.Clip": "clip",
    "onnx.Sigmoid": "sigmoid",
    "onnx.Sqrt": "sqrt",
    "onnx.Tanh": "tanh",
    "onnx.Gelu": "gelu",
    "onnx.LayerNormalization": "layer_norm",
    "onnx.HardSigmoid": "hard_sigmoid",
    "onnx.HardSwish": "hard_swish",
    "onnx.Add": "add",
    "onnx.Sub": "sub",
    "onnx.Mul": "mul",
    "onnx.Div": "div",
    "onnx.Softmax": "softmax",
    "onnx.Transpose": "transpose",
    "onnx.MaxPool": "max_pool",
    "onnx.AveragePool": "average_pool",
    "onnx.GlobalAveragePool": "global_average_pool",
    "onnx.Resize": "resize",
}
"""Operation by its name elsewhere. One that the dialect lacks may be named: its rules rest until it has it."""

_LACKING = frozenset(FOREIGN.values()) - set(OPS)
"""Operations that the dialect lacks, by the names that it will have for them: canonical rules are written so."""

_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("conv", "conv_transpose"), "conv"),
    "batch_norm": "norm",
    **dict.fromkeys(("max_pool", "average_pool", "global_average_pool"), "pool"),
    **dict.fromkeys(
        ("relu", "leaky_relu", "prelu", "clip", "sigmoid", "tanh", "silu", "gelu", "hard_sigmoid", "hard_swish"), "act"
    ),
}

CLASSES: Mapping[str, tuple[str, ...]] = {
    "computing": tuple(sorted(COMPUTING)),
    "pointwise": tuple(sorted(EPILOGUE)),
    "activation": tuple(sorted(op for op in EPILOGUE if _ROLES.get(op) == "act")),
}
"""Names that stand for any one of several operations."""


def operations(name: str) -> tuple[str, ...]:
    """The Media operations of a name in a rule file, "media." before it or not; none for a name that means nothing."""
    if name in CLASSES:
        return CLASSES[name]
    own = name.removeprefix("media.")
    known = own in _LACKING or (own in OPS and OPS[own].is_node)
    op = own if known else FOREIGN.get(name)
    return () if op is None else (op,)


def default_name(ops: tuple[str, ...]) -> str:
    """What constraints call a step of these operations that has no name: its one operation, or else its role."""
    roles = {_ROLES.get(op, op) for op in ops}
    role = roles.pop() if len(roles) == 1 else "step"
    return ops[0] if len(ops) == 1 and role not in ("conv", "norm") else role
