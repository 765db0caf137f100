"""onnxruntime as a benchmark's server: all optimisations, inputs and outputs bound to memory of ours."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import serving
from serving import Load, Loaded

PROFILED = 12
"""Runs that the time of a node is the best of."""


def load(wanted: Load) -> Loaded:
    """A session over the model."""
    import onnxruntime as ort

    running = ort.InferenceSession(str(wanted.model), _options(wanted.threads), providers=["CPUExecutionProvider"])
    outputs = {name: np.full(shape, np.nan, np.float32) for name, shape in wanted.outputs.items()}
    binding = _bound(running, wanted, outputs)
    return Loaded(
        str(ort.__version__),
        lambda: running.run_with_iobinding(binding),
        lambda: list(outputs.values()),
        {"nodes": lambda _: {"nodes": _nodes(wanted)}},
    )


def _options(threads: int) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return options


def _bound(running: Any, wanted: Load, outputs: Mapping[str, Any]) -> Any:
    binding = running.io_binding()
    for name, array in wanted.inputs.items():
        binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    return binding


def _nodes(wanted: Load) -> list[dict[str, Any]]:
    """Of each node that runs: operator, shapes of what it reads, and microseconds, the best of several runs."""
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        options = _options(wanted.threads)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        running = ort.InferenceSession(str(wanted.model), options, providers=["CPUExecutionProvider"])
        outputs = {name: np.empty(shape, np.float32) for name, shape in wanted.outputs.items()}
        binding = _bound(running, wanted, outputs)
        for _ in range(PROFILED):
            running.run_with_iobinding(binding)
        events = json.loads(Path(running.end_profiling()).read_bytes())
    best: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
            continue
        told = event["args"]
        shapes = [next(iter(one.values())) for one in told.get("input_type_shape", [])]
        made = [next(iter(one.values())) for one in told.get("output_type_shape", [])]
        node = {"op": told["op_name"], "shapes": shapes, "made": made, "us": event["dur"]}
        kept = best.setdefault(f"{told.get('node_index')} {event['name']}", node)
        kept["us"] = min(kept["us"], event["dur"])
    return list(best.values())


if __name__ == "__main__":
    serving.main(load)
