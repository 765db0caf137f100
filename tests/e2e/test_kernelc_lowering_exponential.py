"""The compiler's own exp against float64, over its whole range."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kernelc import fusion
from kernelc.layout.arena import Arena
from kernelc.layout.assign import assign
from kernelc.layout.segments import weights_file
from kernelc.lowering.exponential import HIGHEST, LOWEST, MAX_RELATIVE_ERROR, exponential
from kernelc.lowering.groups import Lowered
from kernelc.lowering.kernel import Kernel, kernel
from kernelc.lowering.operands import PortOperand
from kernelc.lowering.program import Program
from kernelc.lowering.steps import Body
from kernelc.lowering.text import Value, Writer
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import Compiled, targets
from toolchains import target

ROWS, LANES = 12500, 16


def exp_kernel() -> Kernel:
    """y = exp(x) over rows of 16 numbers; one part."""
    writer = Writer()
    x, out = Value("%x", (ROWS, LANES)), Value("%out", (ROWS, LANES))

    def row(index: str, current: Value) -> Value:
        body = Body(writer)
        result = exponential(body, "%a0")
        source = writer.slice(x, [index, 0], (1, LANES), [1])
        before = writer.slice(current, [index, 0], (1, LANES), [1])
        done = writer.generic("o", [(source, "o")], before, "o", body.lines, result)
        return writer.insert(done, current, [index, 0], (1, LANES))

    result = writer.loop("%begin", ROWS, 1, out, row, Fraction(ROWS))
    return kernel(writer, [x], out, result, set(), parts=1, tile="1", flop=0)


def exp_program() -> Program:
    """The kernel as a program from [1, ROWS * LANES] to the same."""
    make = Maker()
    graph = make.finish(make.node("relu", make.input(1, ROWS * LANES)))
    groups = tuple(fusion.group(graph).groups)
    layout = assign(graph, groups, {"t0": LANES, "t1": LANES}, LANES)
    op = Lowered("exp", "exp", exp_kernel(), (PortOperand("input", 0), PortOperand("output", 0)))
    return Program(graph, groups, layout, (op,), Arena({}, 0), weights_file([]))


def exp_of(values: npt.NDArray[np.float32], name: str, folder: Path) -> npt.NDArray[np.float32]:
    padded = np.resize(values, (1, ROWS * LANES))
    return Compiled(exp_program(), target.load(name), folder).run([padded])[0][0, : values.size]


@pytest.mark.parametrize("name", targets())
def test_relative_error_over_the_whole_range(name: str, tmp_path: Path) -> None:
    values = np.linspace(LOWEST, HIGHEST, ROWS * LANES).astype(np.float32)

    found = exp_of(values, name, tmp_path).astype(np.float64)

    error = np.abs(found / np.exp(values.astype(np.float64)) - 1)
    assert error.max() < MAX_RELATIVE_ERROR


@pytest.mark.parametrize("name", targets())
def test_special_values(name: str, tmp_path: Path) -> None:
    values = np.array([0.0, -0.0, np.nan, -np.inf, np.inf, -1000.0], np.float32)

    zero, minus_zero, nan, lowest, highest, far_below = exp_of(values, name, tmp_path).tolist()

    assert (zero, minus_zero) == (1.0, 1.0)
    assert np.isnan(nan)
    assert 0 < lowest == far_below < 2e-38
    assert 1.6e38 < highest < np.inf
