"""Numbers on every machine: the compiler's exp and tanh over their ranges, NaN, and bits that only move."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kernelc.lowering.exponential import HIGHEST, LOWEST, MAX_RELATIVE_ERROR, exponential, hyperbolic_tangent
from tests.e2e.test_kernelc_lowering_exponential import LANES, ROWS, check_tangents, program_of, tangents
from tests.e2e.test_kernelc_lowering_operators import SPECIAL, check_special, special_activations
from tests.support import emulated, emulated_kernels
from tests.support.backend_graphs import Maker
from toolchains.target import Target


@pytest.fixture(params=emulated.NAMES)
def goal(request: pytest.FixtureRequest) -> Target:
    return emulated.load(request.param)


def test_exp_is_right_over_its_range_and_at_special_values(goal: Target, tmp_path: Path) -> None:
    special = np.array([0.0, -0.0, np.nan, -np.inf, np.inf, -1000.0], np.float32)
    values = np.linspace(LOWEST, HIGHEST, ROWS * LANES).astype(np.float32)
    built = emulated_kernels.of_program(program_of(exponential), goal, tmp_path)

    (found,) = built.run([values])
    zero, minus_zero, nan, lowest, highest, far_below = exp_of(built, special)

    error = np.abs(found[0].astype(np.float64) / np.exp(values.astype(np.float64)) - 1)
    assert error.max() < MAX_RELATIVE_ERROR
    assert (zero, minus_zero) == (1.0, 1.0)
    assert np.isnan(nan)
    assert 0 < lowest == far_below < 2e-38
    assert 1.6e38 < highest < np.inf


def test_tanh_is_within_its_bound_of_units_in_the_last_place(goal: Target, tmp_path: Path) -> None:
    values = tangents()

    (found,) = emulated_kernels.of_program(program_of(hyperbolic_tangent), goal, tmp_path).run([values])

    check_tangents(values, found[0])


def test_special_values_of_leaky_relu_prelu_and_tanh(goal: Target, tmp_path: Path) -> None:
    value = np.resize(SPECIAL, (1, 18, 1, SPECIAL.size))

    found = emulated_kernels.build(special_activations(), goal, tmp_path).run([value])

    check_special(found, flushes=goal.machine == "armv7")


def exp_of(built: emulated_kernels.Built, values: npt.NDArray[np.float32]) -> list[float]:
    (found,) = built.run([np.resize(values, ROWS * LANES)])
    numbers: list[float] = found[0, : values.size].tolist()
    return numbers


def test_nan_stays_nan(goal: Target, tmp_path: Path) -> None:
    make = Maker()
    x = make.input(1, 20, 2, 3)
    graph = make.finish(*[make.node(op, x) for op in ("relu", "hard_swish", "sigmoid", "tanh")])
    value = np.ones((1, 20, 2, 3), np.float32)
    value[0, 17, 1, 2] = np.nan

    for found in emulated_kernels.build(graph, goal, tmp_path).run([value]):
        assert np.isnan(found[0, 17, 1, 2])
        assert np.isnan(found).sum() == 1


def test_a_layout_cast_moves_bits_unchanged_where_denormal_numbers_become_zero_too(
    goal: Target, tmp_path: Path
) -> None:
    make = Maker()
    graph = make.finish(make.input(1, 5, 3, 21), make.input(1, 37))
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-42, 3.5], np.float32)
    values = [np.resize(special, (1, 5, 3, 21)), np.resize(special, (1, 37))]

    found = emulated_kernels.build(graph, goal, tmp_path).run(values)

    assert [got.tobytes() for got in found] == [value.tobytes() for value in values]
