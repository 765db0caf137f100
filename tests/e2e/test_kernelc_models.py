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


BYTES = ("face-detection", "object-detection")
"""Models that are fed with numbers up to 255."""


def images(model: str, height: int, width: int) -> list[np.ndarray]:
    """Ten inputs: noise, photographs and scans, in the range that the model is fed with."""
    draw = np.random.Generator(np.random.PCG64(20))
    noise = [draw.standard_normal((1, 3, height, width)).astype(np.float32) for _ in range(4)]
    seen = [make(seed, height, width) for make in (photos.scene, photos.page) for seed in range(3)]
    return noise + (seen if model in BYTES else [(image / 255 - 0.5) / 0.25 for image in seen])


@pytest.mark.parametrize(
    ("model", "name"),
    [
        pytest.param("page-orientation", *V3.values, id="page-orientation-v3"),
        pytest.param("text-detection", *V3.values, id="text-detection-v3"),
        pytest.param("text-detection", *V4.values, id="text-detection-v4", marks=V4.marks),
        pytest.param("face-detection", *V4.values, id="face-detection-v4", marks=V4.marks),
        pytest.param("text-recognition", *V3.values, id="text-recognition-v3"),
        pytest.param("super-resolution", *V3.values, id="super-resolution-v3"),
        pytest.param("object-detection", *V3.values, id="object-detection-v3"),
        *(
            pytest.param(model, *V4.values, id=f"{model}-v4", marks=[*V4.marks, pytest.mark.bar])
            for model in ("text-recognition", "super-resolution", "object-detection")
        ),
    ],
)
def test_a_model_agrees_with_onnxruntime(model: str, name: str, tmp_path: Path) -> None:
    if not models.is_at_hand(model):
        pytest.skip("../shared/models is not beside this checkout, or lacks the model")
    path = models.fetch(model)
    shape = tuple(int(size) for size in models.small_shape(model).split("x"))
    graph = frontend.simplify(frontend.load(path, {"": shape}))
    compiled = compile_graph(graph, name, tmp_path)
    reference = reference_child.session(path, {graph.inputs[0].name: shape}, optimised=False)

    for image in images(model, *shape[2:]):
        found = compiled.run([image])

        expected = reference.run([port.name for port in graph.outputs], {graph.inputs[0].name: image})
        for got, wanted in zip(found, expected, strict=True):
            agree(got, wanted)
