"""A whole real model on every machine: the text-direction classifier, against the dialect's own float64 reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelc import frontend
from kernelc.numerics import reference
from tests.support import emulated, emulated_kernels, models
from tests.support.kernel_runs import agree
from toolchains import gate

SHAPE = (1, 3, 48, 192)


@pytest.mark.parametrize("name", emulated.NAMES)
def test_text_direction_is_hardened_and_right(name: str, tmp_path: Path) -> None:
    goal = emulated.load(name)
    graph = frontend.simplify(frontend.load(models.fetch("text-direction"), {"": SHAPE}), lambda *_: None)
    image = np.random.Generator(np.random.PCG64(11)).standard_normal(SHAPE).astype(np.float32)
    built = emulated_kernels.build(graph, goal, tmp_path)

    report = gate.require(goal, gate.inspect(built.library, built.program.kernels))
    (found,) = built.run([image])

    expected = reference.evaluate(graph, {graph.inputs[0].name: image})[graph.outputs[0].name]
    agree(found, expected)
    assert found.shape == (1, 2)
    assert report.entries == len(built.program.kernels)
    assert found.tobytes() == built.run([image], partitions=5)[0].tobytes()
    assert found.tobytes() == built.run([image], threads=3)[0].tobytes()
