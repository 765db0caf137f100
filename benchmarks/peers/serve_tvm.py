"""Apache TVM as a benchmark's server: Relax with its own passes for this processor, without tuning.

Without tuning its convolutions are plain loops; a tuned one would be another measurement (hours for each model).
"""

from __future__ import annotations

import numpy as np
import serving
from serving import Array, Load, Loaded


def load(wanted: Load) -> Loaded:
    """The model in Relax's virtual machine. TVM_NUM_THREADS of the environment is the number of threads."""
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    shapes = {name: list(array.shape) for name, array in wanted.inputs.items()}
    module = from_onnx(onnx.load(wanted.model), shape_dict=shapes, keep_params_in_input=False)
    processor = tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": processor, "num-cores": wanted.threads})
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    given = [tvm.runtime.tensor(array) for array in wanted.inputs.values()]
    function = machine["main"]
    answered: list[object] = [None]

    def run() -> None:
        answered[0] = function(*given)

    def outputs() -> list[Array]:
        found = answered[0]
        several = [found] if hasattr(found, "numpy") else list(found)  # type: ignore[call-overload]
        return [np.asarray(one.numpy()) for one in several]

    return Loaded(str(tvm.__version__), run, outputs)


if __name__ == "__main__":
    serving.main(load)
