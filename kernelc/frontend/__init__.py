"""The ONNX importer and the simplifications that make its graph ready for fusion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from kernelc.graph import Graph
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError

__all__ = ["Observer", "load", "require_scrubbed", "simplify"]

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
    from kernelc.frontend.importer import import_model  # here: kernelc.frontend.scrub needs none of it
    from kernelc.frontend.read import read_model

    return import_model(read_model(path), path.parent, shapes, allow_symbolic=allow_symbolic)


def require_scrubbed(path: Path) -> None:
    """Raise `FarmError` MODEL_NOT_SCRUBBED unless the rules of scrubbing leave the ONNX file as it is, byte for byte.

    That says nothing of a user's words, which are known where the model is scrubbed and nowhere else.
    """
    from kernelc.frontend.read import read_model
    from kernelc.frontend.scrub.rewrite import scrub
    from kernelc.frontend.scrub.secrets import Secrets

    again = scrub(read_model(path), Secrets()).model.SerializeToString(deterministic=True)
    if digest.of_bytes(again) != digest.of_file(path):
        raise FarmError(
            Code.MODEL_NOT_SCRUBBED,
            "the model holds more than its computation",
            "scrubbing it gives another file",
            "Compile it with `farm build`, which scrubs it first.",
        )


def simplify(graph: Graph, observe: Observer | None = None) -> Graph:
    """The graph with constants folded and operations in the forms that the backend lowers.

    See `kernelc.frontend.simplifier`.
    """
    from kernelc.frontend.simplifier import run

    return run(graph, observe)
