"""The other real models on every machine, at small shapes: hardened, and beside onnxruntime; minutes each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farm import reference_child
from kernelc import frontend
from tests.support import emulated, emulated_kernels, models
from tests.support.kernel_runs import agree
from toolchains import gate

pytestmark = [pytest.mark.slow, pytest.mark.bar]


@pytest.mark.parametrize("name", emulated.NAMES)
@pytest.mark.parametrize("model", ["super-resolution", "object-detection", "text-recognition"])
def test_a_model_is_hardened_and_agrees_with_onnxruntime(model: str, name: str, tmp_path: Path) -> None:
    if not models.is_at_hand(model):
        pytest.skip("../shared/models is not beside this checkout, or lacks the model")
    path, goal = models.fetch(model), emulated.load(name)
    shape = tuple(int(size) for size in models.small_shape(model).split("x"))
    graph = frontend.simplify(frontend.load(path, {"": shape}))
    image = np.random.Generator(np.random.PCG64(11)).standard_normal(shape).astype(np.float32)
    built = emulated_kernels.build(graph, goal, tmp_path)

    gate.require(goal, gate.inspect(built.library, built.program.kernels, wide=built.program.layout.wide))
    found = built.run([image])

    reference = reference_child.session(path, {graph.inputs[0].name: shape}, optimised=False)
    expected = reference.run([port.name for port in graph.outputs], {graph.inputs[0].name: image})
    for got, wanted in zip(found, expected, strict=True):
        print(f"{model} for {name}: max abs error {np.abs(got - wanted).max():.2g}")
        agree(got, wanted)
    for got, again in zip(found, built.run([image], partitions=5), strict=True):
        assert got.tobytes() == again.tobytes()
