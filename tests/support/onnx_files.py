"""ONNX files with any inputs, outputs and operator set, for the tests of the importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

from kernelc import frontend
from kernelc.frontend.scrub import rewrite
from kernelc.frontend.scrub.secrets import Secrets
from kernelc.graph import Graph

Array = npt.NDArray[Any]
Sizes = Sequence[int | str]
node = helper.make_node


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sizes],
    outputs: Sequence[str] = ("y",),
    weights: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
    dtype: npt.DTypeLike = np.float32,
) -> ModelProto:
    """A model whose inputs are of element type `dtype`; outputs have no declared shape."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, element, list(sizes)) for name, sizes in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def save(folder: Path, content: ModelProto | bytes, name: str = "model.onnx") -> Path:
    """Write a model, or bytes that are none."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString(deterministic=True))
    return path


def scrub(path: Path) -> Path:
    """Scrub a model's file in place, without a word of a user's."""
    made = rewrite.scrub(onnx.load_model(path, load_external_data=False), Secrets())
    path.write_bytes(made.model.SerializeToString(deterministic=True))
    return path


def load(
    folder: Path, content: ModelProto | bytes, shapes: Mapping[str, tuple[int, ...]] | None = None, **options: bool
) -> Graph:
    """The graph of a model, through a file."""
    return frontend.load(save(folder, content), shapes or {}, **options)
