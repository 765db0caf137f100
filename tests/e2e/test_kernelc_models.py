"""The real models, compiled whole: what the kernels answer beside onnxruntime, for noise and for images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farm import reference_child
from kernelc import frontend
from tests.support import models, photos
from tests.support.kernel_runs import agree, compile_graph, targets

V3, V4 = targets()
pytestmark = pytest.mark.slow


def images(model: str, side: int) -> list[np.ndarray]:
    """Ten inputs: noise, photographs and scans, in the range that the model is fed with."""
    draw = np.random.Generator(np.random.PCG64(20))
    noise = [draw.standard_normal((1, 3, side, side)).astype(np.float32) for _ in range(4)]
    seen = [photos.scene(seed, side, side) for seed in range(3)] + [photos.page(seed, side, side) for seed in range(3)]
    return noise + (seen if model == "face-detection" else [(image / 255 - 0.5) / 0.25 for image in seen])


@pytest.mark.parametrize(
    ("model", "side", "name"),
    [
        pytest.param("page-orientation", 224, *V3.values, id="page-orientation-v3"),
        pytest.param("text-detection", 160, *V3.values, id="text-detection-v3"),
        pytest.param("text-detection", 160, *V4.values, id="text-detection-v4", marks=V4.marks),
        pytest.param("face-detection", 160, *V4.values, id="face-detection-v4", marks=V4.marks),
    ],
)
def test_a_model_agrees_with_onnxruntime(model: str, side: int, name: str, tmp_path: Path) -> None:
    path = models.fetch(model)
    shape = (1, 3, side, side)
    graph = frontend.simplify(frontend.load(path, {"": shape}))
    compiled = compile_graph(graph, name, tmp_path)
    reference = reference_child.session(path, {graph.inputs[0].name: shape}, optimised=False)

    for image in images(model, side):
        found = compiled.run([image])

        expected = reference.run([port.name for port in graph.outputs], {graph.inputs[0].name: image})
        for got, wanted in zip(found, expected, strict=True):
            agree(got, wanted)
