"""The exponential and the hyperbolic tangent in software: close to right, and the same bits everywhere."""

from __future__ import annotations

import math

import numpy as np

from kernelc.numerics.software import exp, tanh
from kernelfarm.digest import of_bytes
from tests.support.high_precision import tanh as exact_tanh

GRID = np.arange(-48_000, 46_000, dtype=np.float64) / 64  # exact numbers from -750 to 718.7


def test_it_is_within_two_units_in_the_last_place() -> None:
    values = GRID[(GRID > -708) & (GRID < 709)][::7]
    wanted = np.array([math.exp(value) for value in values.tolist()])
    assert float(np.max(np.abs(exp(values) - wanted) / np.spacing(wanted))) <= 2.0


def test_small_results_lose_precision_gradually_and_large_ones_overflow() -> None:
    assert exp(np.array([-745.0])).tolist() == [5e-324]
    assert exp(np.array([-746.0, -1e308, -np.inf])).tolist() == [0.0, 0.0, 0.0]
    assert exp(np.array([709.5]))[0] < np.inf
    assert exp(np.array([710.0, 1e308, np.inf])).tolist() == [np.inf] * 3
    assert np.isnan(exp(np.array([np.nan]))).all()
    assert exp(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]


def test_its_bits_are_these_on_every_machine() -> None:
    assert of_bytes(exp(GRID).tobytes()) == "sha256:c3cc61a9b835d3e5dcadedb7020156d286f10f5045eb16ffc2b85aa0442cff2a"


TANH_GRID = np.concatenate([np.arange(-23 * 64, 23 * 64) / 64, 2.0 ** np.arange(-1070, 3) * 1.375])


def test_the_tangent_is_within_three_units_in_the_last_place_down_to_the_smallest_numbers() -> None:
    wanted = exact_tanh(TANH_GRID)
    assert float(np.max(np.abs(tanh(TANH_GRID) - wanted) / np.spacing(np.abs(wanted)))) <= 3.0


def test_the_tangent_of_special_values() -> None:
    found = tanh(np.array([0.0, -0.0, np.inf, -np.inf, 1e308, -25.0, 5e-324])).tolist()
    assert found == [0.0, 0.0, 1.0, -1.0, 1.0, -1.0, 5e-324]
    assert math.copysign(1, found[1]) == -1
    assert np.isnan(tanh(np.array([np.nan]))).all()


def test_the_bits_of_the_tangent_are_these_on_every_machine() -> None:
    found = of_bytes(tanh(TANH_GRID).tobytes())
    assert found == "sha256:78813352fd2671cdcf16a0b0b0d86fe22601172bd581cb53619bbd74462bd9d0"
