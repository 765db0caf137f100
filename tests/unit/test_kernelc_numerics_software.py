"""The exponential in software: close to the library's, and the same bits everywhere."""

from __future__ import annotations

import math

import numpy as np

from kernelc.numerics.software import exp
from kernelfarm.digest import of_bytes

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
