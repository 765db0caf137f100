"""OpenVINO as a benchmark's server: float32 arithmetic, one stream, inputs and outputs in memory of ours.

Left alone it computes in bfloat16 on processors that have it: that is another precision, hence the hint.
"""

from __future__ import annotations

import numpy as np
import serving
from serving import Load, Loaded


def load(wanted: Load) -> Loaded:
    """A compiled model and one request over it."""
    import openvino as ov

    core = ov.Core()
    model = core.read_model(str(wanted.model))
    model.reshape({name: list(array.shape) for name, array in wanted.inputs.items()})
    hints = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": wanted.threads,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,  # the process is pinned already
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(model, "CPU", hints).create_infer_request()
    outputs = {name: np.full(shape, np.nan, np.float32) for name, shape in wanted.outputs.items()}
    for name, array in wanted.inputs.items():
        request.set_tensor(name, ov.Tensor(array, shared_memory=True))
    for name, array in outputs.items():
        request.set_tensor(name, ov.Tensor(array, shared_memory=True))
    return Loaded(str(ov.__version__).partition("-")[0], request.infer, lambda: list(outputs.values()))


if __name__ == "__main__":
    serving.main(load)
