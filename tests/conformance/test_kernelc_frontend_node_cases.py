"""ONNX's own node cases for the supported operators: exactly the listed ones pass, before and after simplification."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from kernelc import frontend
from kernelc.frontend import operators
from kernelc.numerics.reference import evaluate
from kernelfarm.errors import FarmError

LISTED_OPERANDS = ("Pow", "ReduceMean", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Unsqueeze", "Upsample")
"""The cases feed exponents, shapes, axes and scales as graph inputs; here they are constants, as in real models."""
TOLERANCE = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-3}
"""Relative; 1e-5 for the others. That case has its expected values rounded to four digits."""

PASS_LIST = Path(__file__).with_name("node_cases_passed.txt").read_text(encoding="ascii").splitlines()
"""Written out, one name a line, sorted."""


def _cases() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    supported = set(operators.supported())
    for case in cases:
        if {node.op_type for node in case.model.graph.node} <= supported:
            yield case


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _passes(case: Any, path: Path) -> bool:
    graph = case.model.graph
    values, expected = case.data_sets[0]
    inputs = {info.name: _array(value) for info, value in zip(graph.input, values, strict=True)}
    for node in graph.node:
        for name in node.input[1:] if node.op_type in LISTED_OPERANDS else ():
            if name in inputs:
                graph.initializer.append(numpy_helper.from_array(inputs.pop(name), name))
    path.write_bytes(case.model.SerializeToString())
    try:
        loaded = frontend.load(path, {})
    except FarmError:
        return False
    wanted = {info.name: _array(value) for info, value in zip(graph.output, expected, strict=True)}
    results = [evaluate(loaded, inputs), evaluate(frontend.simplify(loaded), inputs)]
    return all(_close(result[name], wanted[name], case.name) for result in results for name in wanted)


def _close(given: Any, wanted: Any, name: str) -> bool:
    same_type = given.dtype == wanted.dtype and given.shape == wanted.shape
    return same_type and np.allclose(given, wanted, rtol=TOLERANCE.get(name, 1e-5), atol=1e-6, equal_nan=True)


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("node_cases")
    return [case.name for case in _cases() if _passes(case, folder / "model.onnx")]


def test_exactly_the_listed_node_cases_of_supported_operators_pass(passed: list[str]) -> None:
    assert sorted(passed) == sorted(PASS_LIST)


def test_every_supported_operator_has_a_passing_case() -> None:
    families = {"Conv": "basic_conv", "MaxPool": "maxpool_2d", "AveragePool": "averagepool_2d"}
    families |= {"BatchNormalization": "batchnorm", "ReduceMean": "reduce_mean"}
    wanted = {name: families.get(name, name.lower()) for name in operators.supported()}
    del wanted[
        "LayerNormalization"
    ]  # every case reads the mean too; tests/unit/test_kernelc_frontend_simplify.py has one
    missing = [name for name, family in wanted.items() if not any(n.startswith(f"test_{family}") for n in PASS_LIST)]
    assert missing == []
    assert len(PASS_LIST) == 309
