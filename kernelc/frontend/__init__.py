"""The ONNX importer and the simplifications that make its graph ready for fusion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from kernelc.graph import Graph

__all__ = ["Observer", "load", "simplify"]

Observer = Callable[[str, Graph], None]
"""Called with the name of each stage and the graph after it."""


def load(path: Path, shapes: Mapping[str, tuple[int, ...]], *, allow_symbolic: bool = False) -> Graph:
    """The model in the ONNX file `path` as a typed graph, nothing simplified yet.

    `shapes` binds the open sizes of inputs, by the input's name; the name "" stands for the only (open) input. With
    `allow_symbolic` sizes may stay open: they become symbols s0, s1, ...

    Raises `FarmError`: MODEL_INVALID, MODEL_TRUNCATED, MODEL_NOT_A_FILE, MODEL_TOO_LARGE, OPSET_UNSUPPORTED,
    OPERATOR_UNKNOWN, OPERATOR_FORM_UNSUPPORTED, GRAPH_INVALID, DTYPE_UNSUPPORTED, TENSOR_INVALID, EXTERNAL_MISSING,
    EXTERNAL_OUTSIDE, SHAPE_MISSING, SHAPE_MISMATCH, SHAPE_NOT_INFERRED, or an ENVIRONMENT code of the file system.
    """
    from kernelc.frontend.importer import import_model  # here: kernelc.frontend.external needs none of it
    from kernelc.frontend.read import read_model

    return import_model(read_model(path), path.parent, shapes, allow_symbolic=allow_symbolic)


def simplify(graph: Graph, observe: Observer | None = None) -> Graph:
    """The graph with constants folded and operations in the forms that the backend lowers.

    See `kernelc.frontend.simplifier`.
    """
    from kernelc.frontend.simplifier import run

    return run(graph, observe)
