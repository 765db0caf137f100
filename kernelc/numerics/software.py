"""Transcendental functions from correctly rounded operations only, so that they give the same bits on every CPU."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # the first 32 bits of ln 2: k * _LN2_HIGH is exact for |k| < 2^20
_LN2_LOW = 1.90821492927058770002e-10
_TERMS = tuple(1.0 / factorial(degree) for degree in range(14))
_LARGEST, _SMALLEST = 709.782712893384, -745.1332191019412  # beyond these exp overflows, or rounds to 0
_FLAT = 22.0
"""From here on tanh is 1: it differs by less than 2^-62."""


def exp(value: NDArray[Any]) -> NDArray[np.float64]:
    """e to the power of each element, in float64, within 2 units in the last place.

    x = k ln 2 + r with |r| <= ln 2 / 2 (Cody and Waite's two-part reduction), Taylor's series of degree 13 for r, and
    an exact scaling by 2^k in two steps, because 2^k alone may underflow.
    """
    value = np.asarray(value, np.float64)
    power, rest = _reduced(np.where((value >= _SMALLEST) & (value <= _LARGEST), value, 0.0))
    total = np.full(rest.shape, _TERMS[-1])
    for term in _TERMS[-2::-1]:
        total = total * rest + term
    half = np.trunc(power * 0.5)
    result = total * _power_of_two(half) * _power_of_two(power - half)
    result = np.where(value > _LARGEST, np.inf, np.where(value < _SMALLEST, 0.0, result))
    return np.where(np.isnan(value), np.nan, result)


def tanh(value: NDArray[Any]) -> NDArray[np.float64]:
    """The hyperbolic tangent of each element, in float64, within 3 units in the last place; tanh(-0) is -0.

    m / (m + 2) with m = exp(2 |x|) - 1, which is 2^k times exp(r) - 1, and 2^k - 1: near 0 nothing cancels.
    """
    value = np.asarray(value, np.float64)
    power, rest = _reduced(2.0 * np.where(np.abs(value) <= _FLAT, np.abs(value), 0.0))
    total = np.full(rest.shape, _TERMS[-1])
    for term in _TERMS[-2:0:-1]:
        total = total * rest + term
    scale = _power_of_two(power)
    less_one = total * rest * scale + (scale - 1.0)
    result = np.where(np.abs(value) > _FLAT, 1.0, less_one / (less_one + 2.0))
    return np.where(np.isnan(value), np.nan, np.copysign(result, value))


def _reduced(value: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Whole k and r with value = k ln 2 + r and |r| <= ln 2 / 2."""
    power = np.rint(value * _LOG2_E)
    return power, (value - power * _LN2_HIGH) - power * _LN2_LOW


def _power_of_two(exponent: NDArray[Any]) -> NDArray[np.float64]:
    """2^exponent for whole exponents in the normal range, by the bits of the format."""
    return ((exponent.astype(np.int64) + 1023) << 52).view(np.float64)
