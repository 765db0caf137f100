"""Functions to far more digits than a float64 has, rounded once."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DIGITS = 60
_SMALL = Decimal("1e-8")
"""Below it three terms of the series are right to 48 digits."""


def tanh(values: NDArray[Any]) -> NDArray[np.float64]:
    """The hyperbolic tangent of each finite number, to the nearest float64."""
    with localcontext() as context:
        context.prec = _DIGITS
        return np.array([float(_tanh(Decimal(float(value)))) for value in values.reshape(-1)]).reshape(values.shape)


def _tanh(value: Decimal) -> Decimal:
    if abs(value) < _SMALL:
        return value - value**3 / 3 + 2 * value**5 / 15
    power = (2 * value).exp()
    return (power - 1) / (power + 1)
