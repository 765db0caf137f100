"""The child of `farm.reference`: the one module that imports onnxruntime and reads ONNX's tensor files.

Usage: python -I -m farm.reference_child FOLDER. FOLDER/request.json says what to do, arrays go through .npy files:
    {"do": "run", "model": PATH, "inputs": [name...], "outputs": [name...], "cases": N}: in-CASE-INDEX to out-CASE-INDEX
    {"do": "read", "files": {PATH of a .pb: NAME of the .npy, ...}}
Any exception ends the process; the parent reports its last line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from farm.redeclared import redeclared

Array = npt.NDArray[np.float32]
VERSION = str(ort.__version__)


def session(model: Path, shapes: Mapping[str, Sequence[int]], *, optimised: bool, threads: int = 1) -> Any:
    """An onnxruntime session on `threads` of the CPU; without optimisations it is the most trustworthy reference.

    It takes inputs of these `shapes`, also where the model declares others (`farm.redeclared`).
    With one the thread that calls it does all the work, so its CPU time is the time of the inference.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(model.parent))
    content = redeclared(model, shapes)
    return ort.InferenceSession(str(model) if content is None else content, options, providers=["CPUExecutionProvider"])


def bind(running: Any, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Any:
    """An IO binding of `running` over these arrays: a run copies nothing in or out."""
    binding = running.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    return binding


def _run(request: Mapping[str, Any], folder: Path) -> None:
    running = None
    for case in range(request["cases"]):
        feeds = {name: np.load(folder / f"in-{case}-{index}.npy") for index, name in enumerate(request["inputs"])}
        if running is None:
            shapes = {name: array.shape for name, array in feeds.items()}
            running = session(Path(request["model"]), shapes, optimised=False)
        for index, array in enumerate(running.run(request["outputs"], feeds)):
            np.save(folder / f"out-{case}-{index}.npy", np.asarray(array), allow_pickle=False)


def _read(files: Mapping[str, str], folder: Path) -> None:
    import onnx
    from onnx import numpy_helper

    for path, name in sorted(files.items()):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(Path(path).read_bytes())
        np.save(folder / name, numpy_helper.to_array(tensor), allow_pickle=False)


def main(arguments: Sequence[str]) -> None:
    """Do what the request in the folder says."""
    folder = Path(arguments[0])
    request = json.loads((folder / "request.json").read_bytes())
    if request["do"] == "read":
        _read(request["files"], folder)
    else:
        _run(request, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
