"""Every class of operator on small odd shapes, on every machine, however its work is cut.

The cases of a class are one graph: one object, one bundle. Tensors of the caller lie four bytes off any alignment, the
arena holds NaN from an earlier inference, and guards lie around what kernels may write.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kernelc.graph import Graph
from tests.e2e import test_kernelc_lowering_images as images
from tests.e2e import test_kernelc_lowering_operators as operators
from tests.e2e import test_kernelc_lowering_sequences as sequences
from tests.support import emulated, emulated_kernels, plain_numpy
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import agree
from toolchains import gate, target
from toolchains.target import Target

CASES = {**operators.CASES, **images.CASES, **sequences.CASES}
GROUPS = {
    "dense": ("conv",),
    "depthwise": ("depthwise",),
    "transposed": ("transposed",),
    "pools": ("matmul", "classifier", "global", "max", "average", "softmax"),
    "images": ("nearest", "linear", "concat"),
    "sequences": ("sequence", "rows", "values"),
    "moves": ("move",),
}
"""First words of the names of cases that are compiled together; all others are the group "elements"."""
CUTS = (3, 1000)
"""Ranges per operation: uneven ones, and more than most have parts."""


def cases_of(group: str) -> list[str]:
    """Names of the cases of a group."""
    words = {word: name for name, firsts in GROUPS.items() for word in firsts}
    return [name for name in CASES if words.get(name.split("-")[0], "elements") == group]


def graph_of(cases: Sequence[str]) -> tuple[Graph, list[str]]:
    """One graph of several cases, and the case of each of its outputs."""
    make = Maker(seed=5)
    outputs: list[str] = []
    names: list[str] = []
    for name in cases:
        results = CASES[name](make)
        outputs += results
        names += [name] * len(results)
    return make.finish(*outputs), names


def inputs_of(graph: Graph) -> list[np.ndarray]:
    draw = np.random.Generator(np.random.PCG64(7))
    shapes = [graph.tensors[port.tensor].static_shape for port in graph.inputs]
    return [draw.standard_normal(shape).astype(np.float32) for shape in shapes]


def check(cases: Sequence[str], goal: Target, folder: Path) -> None:
    graph, names = graph_of(cases)
    inputs = inputs_of(graph)
    built = emulated_kernels.build(graph, goal, folder)

    found = built.run(inputs)

    for name, got, wanted in zip(names, found, plain_numpy.evaluate(graph, list(inputs)), strict=True):
        try:
            agree(got, wanted)
        except AssertionError as fault:
            raise AssertionError(f"{name} for {goal.name}: {fault}") from fault
    for partitions in CUTS:
        for name, got, again in zip(names, found, built.run(inputs, partitions), strict=True):
            assert got.tobytes() == again.tobytes(), f"{name} depends on how it is cut into {partitions}"


@pytest.mark.parametrize("name", ["x86-64-v4", "aarch64"])
@pytest.mark.parametrize("case", ["conv-1x1-padded", "conv-kernel-taller-than-image", "identity-of-input"])
def test_a_model_too_small_for_whole_registers_passes_the_gate(case: str, name: str, tmp_path: Path) -> None:
    goal = target.load(name)
    built = emulated_kernels.build(graph_of([case])[0], goal, tmp_path)

    gate.require(goal, gate.inspect(built.library, wide=built.program.layout.wide))


@pytest.mark.parametrize("name", ["x86-64-v4", "x86-64-v3"])
def test_few_channels_and_short_rows_pass_the_gate_too(name: str, tmp_path: Path) -> None:
    """Of 4 channels side by side, or of rows of 5, a vector would fill a quarter."""
    goal = target.load(name)
    make = Maker()
    results = []
    for channels, width in ((4, 40), (4, 5), (2, 7), (3, 9), (12, 3)):
        x = make.conv(make.input(1, 24, 6, width), channels, 3, pads=(1, 1, 1, 1))
        results.append(make.node("hard_swish", make.node("add", x, make.input(1, channels, 6, width))))
    window = {"kernel": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "ceil_mode": 0}
    results.append(make.node("average_pool", make.input(1, 2, 9, 16), **window, count_include_pad=0))
    results.append(make.node("max_pool", make.input(1, 2, 9, 16), **window))
    built = emulated_kernels.build(make.finish(*results), goal, tmp_path)

    gate.require(goal, gate.inspect(built.library, wide=built.program.layout.wide))


@pytest.mark.parametrize("name", target.names())
def test_sequences_compute_in_whole_registers(name: str, tmp_path: Path) -> None:
    goal = target.load(name)
    cases = ["sequence-layer-norm-whole-blocks", "sequence-attention", "sequence-softmax", "rows-softmax"]
    built = emulated_kernels.build(graph_of([*cases, "values-matmul", "silu", "sqrt"])[0], goal, tmp_path)

    gate.require(goal, gate.inspect(built.library, wide=built.program.layout.wide))


@pytest.mark.parametrize("name", emulated.NAMES)
@pytest.mark.parametrize("group", [*GROUPS, "elements"])
def test_operators_agree_with_numpy_however_they_are_cut(group: str, name: str, tmp_path: Path) -> None:
    check(cases_of(group), emulated.load(name), tmp_path)
