"""The few numeric methods of the performance model's fit: weights that are not negative, ranks, errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SWEEPS = 20_000


def weights(features: Array, measured: Array, prior: Array, pull: float) -> Array:
    """Weights w >= 0 that make features @ w near `measured` by relative error, near `prior` where that says nothing.

    Minimises sum((features @ w / measured - 1)^2) + pull * sum((w / prior - 1)^2) by coordinate descent, which for this
    convex form ends at the minimum. `features` is [samples, features].
    """
    scaled = features / measured[:, None] * prior
    gram, wanted = scaled.T @ scaled + pull * np.eye(len(prior)), scaled.sum(axis=0) + pull
    found = np.ones(len(prior))
    for _ in range(SWEEPS):
        before = found.copy()
        for one in range(len(prior)):
            found[one] = max(0.0, found[one] + (wanted[one] - gram[one] @ found) / gram[one, one])
        if np.abs(found - before).max() < 1e-9:
            break
    result: Array = found * prior
    return result


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Rank correlation; equal values share their mean rank. NaN where one side has a single value."""
    if len(set(left)) == 1 or len(set(right)) == 1:
        return math.nan
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: Sequence[float]) -> Array:
    array = np.asarray(values, np.float64)
    order = np.sort(array)
    result: Array = (np.searchsorted(order, array, "left") + np.searchsorted(order, array, "right")) / 2
    return result


def median_error(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Median of |predicted / measured - 1|."""
    return float(np.median(np.abs(np.asarray(predicted) / np.asarray(measured) - 1)))
