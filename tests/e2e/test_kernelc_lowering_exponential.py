"""The compiler's own exp and tanh against float64, over their whole ranges."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kernelc import fusion
from kernelc.layout.arena import Arena
from kernelc.layout.assign import assign
from kernelc.layout.segments import weights_file
from kernelc.lowering.exponential import (
    HIGHEST,
    LOWEST,
    MAX_RELATIVE_ERROR,
    TANH_MAX_ULP,
    exponential,
    hyperbolic_tangent,
)
from kernelc.lowering.groups import Lowered
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.operands import PortOperand
from kernelc.lowering.program import Program
from kernelc.lowering.steps import Body
from kernelc.lowering.text import Value, Writer
from tests.support import high_precision
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import Compiled, targets
from toolchains import target

ROWS, LANES = 12500, 16


Function = Callable[[Body, str], str]


def kernel_of(function: Function) -> Kernel:
    """y = function(x) over rows of 16 numbers; one part."""
    writer = Writer()
    x, out = Value("%x", (ROWS, LANES)), Value("%out", (ROWS, LANES))

    def row(index: str, current: Value) -> Value:
        body = Body(writer)
        result = function(body, "%a0")
        source = writer.slice(x, [index, 0], (1, LANES), [1])
        before = writer.slice(current, [index, 0], (1, LANES), [1])
        done = writer.generic("o", [(source, "o")], before, "o", body.lines, result)
        return writer.insert(done, current, [index, 0], (1, LANES))

    result = writer.loop("%begin", ROWS, 1, out, row, Fraction(ROWS))
    return kernel(writer, [x], out, result, set(), parts=1, tile="1", flop=0)


def program_of(function: Function) -> Program:
    """The kernel as a program from [1, ROWS * LANES] to the same."""
    make = Maker()
    graph = make.finish(make.node("relu", make.input(1, ROWS * LANES)))
    groups = tuple(fusion.group(graph).groups)
    layout = assign(graph, groups, {"t0": LANES, "t1": LANES}, LANES)
    op = Lowered("one", "one", kernel_of(function), (PortOperand("input", 0), PortOperand("output", 0)))
    return Program(graph, groups, layout, (op,), Arena({}, 0), weights_file([]))


def answers(function: Function, values: npt.NDArray[np.float32], name: str, folder: Path) -> npt.NDArray[np.float32]:
    padded = np.resize(values, (1, ROWS * LANES))
    return Compiled(program_of(function), target.load(name), folder).run([padded])[0][0, : values.size]


@pytest.mark.parametrize("name", targets())
def test_relative_error_over_the_whole_range(name: str, tmp_path: Path) -> None:
    values = np.linspace(LOWEST, HIGHEST, ROWS * LANES).astype(np.float32)

    found = answers(exponential, values, name, tmp_path).astype(np.float64)

    error = np.abs(found / np.exp(values.astype(np.float64)) - 1)
    assert error.max() < MAX_RELATIVE_ERROR


@pytest.mark.parametrize("name", targets())
def test_special_values(name: str, tmp_path: Path) -> None:
    values = np.array([0.0, -0.0, np.nan, -np.inf, np.inf, -1000.0], np.float32)

    zero, minus_zero, nan, lowest, highest, far_below = answers(exponential, values, name, tmp_path).tolist()

    assert (zero, minus_zero) == (1.0, 1.0)
    assert np.isnan(nan)
    assert 0 < lowest == far_below < 2e-38
    assert 1.6e38 < highest < np.inf


def tangents() -> npt.NDArray[np.float32]:
    """Numbers of either sign and every size, most of them where tanh bends."""
    count = ROWS * LANES // 2
    bits = np.concatenate([np.linspace(1, 0x7F7FFFFF, count // 4), np.linspace(0x39000000, 0x41200000, count)])
    sizes = np.resize(bits.astype(np.uint32).view(np.float32), count * 2)
    return np.where(np.arange(sizes.size) % 2, sizes, -sizes)


def check_tangents(values: npt.NDArray[np.float32], found: npt.NDArray[np.float32]) -> None:
    """All within the bound, those with the largest error by 60 digits; odd, and never beyond 1."""
    usual = np.abs(values) >= np.finfo(np.float32).tiny  # machines may take smaller numbers for zero
    values, found = values[usual], found[usual]
    unit = np.spacing(np.abs(np.tanh(values.astype(np.float64)).astype(np.float32))).astype(np.float64)
    error = np.abs(found - np.tanh(values.astype(np.float64))) / unit
    assert error.max() <= TANH_MAX_ULP
    worst = np.argsort(error)[-50:]
    exact = np.abs(found[worst] - high_precision.tanh(values[worst])) / unit[worst]
    assert 1 < exact.max() <= TANH_MAX_ULP
    assert np.abs(found).max() == 1


@pytest.mark.parametrize("name", targets())
def test_tanh_is_within_its_bound_of_units_in_the_last_place(name: str, tmp_path: Path) -> None:
    values = tangents()

    found = answers(hyperbolic_tangent, values, name, tmp_path)

    check_tangents(values, found)


@pytest.mark.parametrize("name", targets())
def test_tanh_is_odd_and_keeps_the_smallest_numbers(name: str, tmp_path: Path) -> None:
    values = np.abs(tangents())
    small = np.array([0.0, 1e-45, 1e-42, 1.1e-38, 2e-30], np.float32)

    above, below = (answers(hyperbolic_tangent, sign * values, name, tmp_path / str(sign)) for sign in (1, -1))
    kept = answers(hyperbolic_tangent, small, name, tmp_path / "small")

    assert above.tobytes() == (-below).tobytes()
    assert kept.tobytes() == small.tobytes()
