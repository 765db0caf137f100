"""The model files that runtimes get: one of static shapes, and one with constants folded too.

    python -m benchmarks.peers.fold MODEL FIXED FOLDED NAME=1x3x224x224...

A child of the benchmark: it parses a model. Folding is onnxruntime's basic level, which leaves ONNX's own operators;
arithmetic on shapes is gone afterwards. IREE and TVM refuse that, or compute at run time what they need not.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnxruntime as ort

from farm.redeclared import redeclared


def main(arguments: list[str]) -> None:
    """Write both files."""
    model, fixed, folded = (Path(word) for word in arguments[:3])
    told = (word.rpartition("=") for word in arguments[3:])
    shapes = {name: [int(size) for size in dims.split("x")] for name, _, dims in told}
    static = _static(onnx.load_from_string(redeclared(model, shapes) or model.read_bytes()), shapes)
    fixed.write_bytes(static.SerializeToString(deterministic=True))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    options.log_severity_level = 3
    ort.InferenceSession(str(fixed), options, providers=["CPUExecutionProvider"])
    proto = onnx.shape_inference.infer_shapes(onnx.load(folded), data_prop=True)
    used = {node.domain for node in proto.graph.node}
    for domain in [one for one in proto.opset_import if one.domain not in used]:
        proto.opset_import.remove(domain)
    folded.write_bytes(proto.SerializeToString(deterministic=True))


def _static(proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """With these sizes in place of symbols, and what follows from them for every tensor inside."""
    graph = proto.graph
    for info in graph.input:
        for dim, size in zip(info.type.tensor_type.shape.dim, shapes[info.name], strict=True):
            dim.dim_value = size
    del graph.value_info[:]
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(proto, data_prop=True)


if __name__ == "__main__":
    main(sys.argv[1:])
