"""A model's kernels up to their text, by the same steps as a build; with other groups where those are tried out."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm import models
from kernelc import frontend, fusion
from kernelc.graph import Graph
from kernelc.lowering.program import Program, build_program
from kernelfarm.nouns import Options
from kernelfarm.store import ContentStore
from toolchains.target import Target


def simplified(path: Path, options: Options) -> Graph:
    """The graph of a model file as fusion gets it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        store = ContentStore(folder / "store")
        taken = models.take_in(path, "model", store, scratch=folder, words=())
        store.export(taken.model.digest, folder / "model.onnx")
        given: Mapping[str, Any] = dict(taken.options(options).shapes)
        return frontend.simplify(frontend.load(folder / "model.onnx", given), lambda _name, _graph: None)


def fused(graph: Graph, wanted: Target) -> Program:
    """Under the farm's own rules."""
    found = fusion.group(graph, fusion.builtin(), on_chip_bytes=wanted.memory.on_chip_bytes)
    return build_program(graph, found.groups, wanted)


def unfused(graph: Graph, wanted: Target) -> Program:
    """One kernel for each operator; BatchNorm and constants are folded before either."""
    return build_program(graph, fusion.group(graph, ()).groups, wanted)
