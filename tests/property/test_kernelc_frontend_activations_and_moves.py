"""LeakyRelu, PRelu, Tanh, DepthToSpace and Split over all their attributes: what ONNX's own reference says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from kernelc import frontend
from kernelc.numerics.reference import evaluate
from tests.support import onnx_files
from tests.support.onnx_files import node

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)
SEEDS = st.integers(0, 9)


def drawn(shape: list[int], seed: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(shape).astype(np.float32)


def check(made: Any, value: np.ndarray, opset: int, **weights: np.ndarray) -> None:
    """Before and after simplification each output is that of ONNX's reference."""
    names = list(made.output)
    model = onnx_files.model([made], {"x": value.shape}, names, weights, opset=opset)
    wanted = ReferenceEvaluator(model).run(None, {"x": value})
    with tempfile.TemporaryDirectory() as folder:
        graph = onnx_files.load(Path(folder), model)
    for form in (graph, frontend.simplify(graph)):
        found = evaluate(form, {"x": value})
        for name, expected in zip(names, wanted, strict=True):
            np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(SHAPES, SEEDS, st.sampled_from([7, 16]), st.floats(-3, 3, width=32))
def test_leaky_relu(shape: list[int], seed: int, opset: int, alpha: float) -> None:
    check(node("LeakyRelu", ["x"], ["y"], alpha=alpha), drawn(shape, seed), opset)


@settings(max_examples=60, deadline=None)
@given(st.data(), SHAPES, SEEDS, st.sampled_from([7, 9, 16]))
def test_prelu(data: st.DataObject, shape: list[int], seed: int, opset: int) -> None:
    first = data.draw(st.integers(0, len(shape)))
    slope = [size if data.draw(st.booleans()) else 1 for size in shape[first:]]
    check(node("PRelu", ["x", "slope"], ["y"]), drawn(shape, seed), opset, slope=drawn(slope, seed + 1))


@settings(max_examples=30, deadline=None)
@given(SHAPES, SEEDS, st.sampled_from([7, 13]), st.sampled_from([1e-30, 1e-3, 1, 30]))
def test_tanh(shape: list[int], seed: int, opset: int, scale: float) -> None:
    check(node("Tanh", ["x"], ["y"]), np.float32(scale) * drawn(shape, seed), opset)


@settings(max_examples=60, deadline=None)
@given(st.tuples(*[st.integers(1, 3)] * 4), st.integers(1, 4), SEEDS, st.sampled_from(["DCR", "CRD"]))
def test_depth_to_space(sizes: tuple[int, int, int, int], block: int, seed: int, mode: str) -> None:
    batch, depth, height, width = sizes
    value = drawn([batch, depth * block**2, height, width], seed)
    check(node("DepthToSpace", ["x"], ["y"], blocksize=block, mode=mode), value, 13)


@settings(max_examples=80, deadline=None)
@given(st.data(), SHAPES, SEEDS, st.sampled_from([11, 13, 18]))
def test_split(data: st.DataObject, shape: list[int], seed: int, opset: int) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(any))
    names = [f"y{number}" for number in range(len(lengths))]
    shape[axis] = sum(lengths)
    if data.draw(st.booleans()) and (opset == 18 or sum(lengths) % len(lengths) == 0):
        count: dict[str, Any] = {"num_outputs": len(lengths)} if opset == 18 else {}
        if -(-sum(lengths) // len(lengths)) * (len(lengths) - 1) <= sum(lengths):
            check(node("Split", ["x"], names, axis=axis, **count), drawn(shape, seed), opset)
    elif opset < 13:
        check(node("Split", ["x"], names, axis=axis, split=lengths), drawn(shape, seed), opset)
    else:
        check(node("Split", ["x", "split"], names, axis=axis), drawn(shape, seed), opset, split=np.array(lengths))
