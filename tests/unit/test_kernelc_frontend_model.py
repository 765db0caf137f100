"""The real text-direction model through import, simplification and fusion."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from kernelc import frontend, fusion, media
from kernelc.graph import Graph
from kernelc.numerics.reference import evaluate
from tests.support import models

SHAPE = (1, 3, 48, 192)


@pytest.fixture(scope="module")
def path() -> Path:
    return models.fetch("text-direction")


@pytest.fixture(scope="module")
def graph(path: Path) -> Graph:
    return frontend.load(path, {"": SHAPE})


@pytest.fixture(scope="module")
def simple(graph: Graph) -> Graph:
    return frontend.simplify(graph)


def test_what_is_left_are_the_operations_that_the_backend_lowers(simple: Graph) -> None:
    assert Counter(node.op for node in simple.nodes) == {
        "conv": 53,
        "hard_swish": 18,
        "relu": 15,
        "global_average_pool": 10,
        "hard_sigmoid": 9,
        "mul": 9,
        "add": 7,
        "matmul": 1,
        "max_pool": 1,
        "reshape": 1,
        "softmax": 1,
    }
    assert all(len(node.inputs) == 3 for node in simple.nodes if node.op in ("conv", "matmul"))


def test_its_groups_are_those_of_the_anchors(simple: Graph) -> None:
    groups = fusion.group(simple).groups
    assert Counter(group.anchor.op for group in groups) == {
        "conv": 53,
        "global_average_pool": 10,
        "mul": 9,
        "matmul": 1,
        "max_pool": 1,
        "reshape": 1,
        "softmax": 1,
    }
    assert Counter(tuple(node.op for node in group.epilogue) for group in groups) == {
        ("hard_swish",): 18,
        ("relu",): 15,
        ("hard_sigmoid",): 9,
        ("add",): 7,
        (): 27,
    }


def test_the_reference_agrees_with_onnxruntime_on_ten_inputs(path: Path, graph: Graph, simple: Graph) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = graph.outputs[0].name
    for seed in range(10):
        image = np.random.Generator(np.random.PCG64(seed)).standard_normal(SHAPE).astype(np.float32)
        wanted = session.run(None, {"x": image})[0]
        np.testing.assert_allclose(evaluate(graph, {"x": image})[name], wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(evaluate(simple, {"x": image})[name], wanted, rtol=1e-5, atol=1e-5)


def test_the_text_of_both_forms_round_trips(graph: Graph, simple: Graph) -> None:
    for form in (graph, simple):
        text = media.to_text(form)
        again = media.parse(text, form.weight_bytes())
        assert again == form
        assert media.to_text(again) == text


PROGRAM = """
import sys
import numpy as np
from pathlib import Path
from kernelc import frontend, fusion, media
from kernelc.numerics.reference import evaluate
from kernelfarm.digest import of_bytes
simple = frontend.simplify(frontend.load(Path(sys.argv[1]), {"": (1, 3, 48, 192)}))
image = (np.arange(27648, dtype=np.float32).reshape(1, 3, 48, 192) % 251 - 125) / 64
print(of_bytes(media.to_text(simple).encode()), of_bytes(fusion.to_text(fusion.group(simple)).encode()))
print(sorted((key, of_bytes(value.tobytes())) for key, value in evaluate(simple, {"x": image}).items()))
"""


def _digests(path: Path, **environment: str) -> str:
    command = [sys.executable, "-c", PROGRAM, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return done.stdout


def test_texts_groups_and_reference_are_the_same_bits_without_the_cpus_vector_features(path: Path) -> None:
    info = np.show_config("dicts")["SIMD Extensions"]
    found = " ".join(info.get("found", []))
    assert found, "NumPy reports no dispatched CPU feature: this machine cannot show the difference"
    assert _digests(path, PYTHONHASHSEED="1") == _digests(path, PYTHONHASHSEED="2", NPY_DISABLE_CPU_FEATURES=found)
