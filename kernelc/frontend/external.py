"""Lists where a model says that its external data lies: `python -I -m kernelc.frontend.external MODEL`.

A child process of its own, because it decodes a foreign file. Each location is a line of standard output, as JSON;
the last line is {"external": how many}. A file that is no model has none: the compile says what is wrong with it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError


def locations(model: onnx.ModelProto) -> tuple[str, ...]:
    """The locations of all external tensors, each once, sorted: of graphs, subgraphs, functions, training graphs."""
    found = {
        entry.value
        for tensor in _tensors(model)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location" and isinstance(entry.value, str)  # bytes are no UTF-8: the compile refuses them
    }
    return tuple(sorted(found))


def _tensors(model: onnx.ModelProto) -> Iterator[Any]:
    graphs: list[Any] = [model.graph]
    for info in model.training_info:
        graphs += [info.initialization, info.algorithm]
    nodes: list[Any] = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            graphs += [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def main(path: Path) -> None:
    """Print the locations of the model in the file `path`."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
        found = locations(model)
    except DecodeError:
        found = ()
    for location in found:
        sys.stdout.write(json.dumps(location) + "\n")
    sys.stdout.write(json.dumps({"external": len(found)}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
