"""A model as this compiler takes it, for another runtime: inputs of the sizes asked for, defaults of inputs constant.

A runtime holds every model to its declared sizes, and an input with a default keeps it from folding constants. The
compiler takes a given shape in place of a declared one and every default as a constant, and so must what it is compared
with. For the children of `farm` only: it parses a foreign file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError


def redeclared(model: Path, shapes: Mapping[str, Sequence[int]]) -> bytes | None:
    """The model's bytes with these sizes of its inputs; None where the file will do. External data stays put.

    A file that is no model will do as well: the other runtime is to say what it thinks of it.
    """
    try:
        proto = onnx.load(model, load_external_data=False)
    except DecodeError:
        return None
    graph = proto.graph
    weights = {tensor.name for tensor in graph.initializer}
    defaulted = [info for info in graph.input if info.name in weights]
    replaced = [info for info in graph.input if info.name in shapes and _differs(info, shapes[info.name])]
    if not defaulted and not replaced:
        return None
    for info in defaulted:
        graph.input.remove(info)
    for info in replaced:
        for dim, size in zip(info.type.tensor_type.shape.dim, shapes[info.name], strict=True):
            dim.dim_value = size
    if replaced:  # sizes inside the graph were those of the declared input
        del graph.value_info[:]
        for info in graph.output:
            for dim in info.type.tensor_type.shape.dim:
                dim.Clear()
    return bytes(proto.SerializeToString())


def _differs(info: Any, shape: Sequence[int]) -> bool:
    dims = info.type.tensor_type.shape.dim
    return len(dims) == len(shape) and any(
        dim.HasField("dim_value") and dim.dim_value not in (-1, size) for dim, size in zip(dims, shape, strict=True)
    )
