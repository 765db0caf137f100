"""Whether two results agree: |a - b| <= ABSOLUTE + RELATIVE * |b|, and neither holds a NaN or an infinity. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelfarm.golden import ABSOLUTE, RELATIVE

__all__ = ["ABSOLUTE", "RELATIVE", "Agreement", "Array", "compare"]

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How one output compares: `index` is the place of the worst element, `ours` and `reference` its values.

    The worst element is the one that exceeds its tolerance most (a NaN before all others), else the one of the largest
    absolute error. `max_abs_error` is over all elements and is infinite when any is not finite.
    """

    output: str
    holds: bool
    max_abs_error: float
    index: tuple[int, ...]
    ours: float
    reference: float
    why: str = ""

    def describe(self) -> str:
        """One sentence that names output, index and both values."""
        if self.why:
            return f"output {self.output!r}: {self.why}"
        place = ", ".join(str(number) for number in self.index)
        return (
            f"output {self.output!r} at [{place}]: {self.ours:.9g} here, {self.reference:.9g} in the reference "
            f"(tolerance {ABSOLUTE:g} + {RELATIVE:g} * |reference|)"
        )


def compare(output: str, ours: Array, reference: Array) -> Agreement:
    """Compare two arrays of one output; another shape never agrees, nor does an empty output."""
    if ours.shape != reference.shape:
        return _refused(output, f"shape {list(ours.shape)} here, {list(reference.shape)} in the reference")
    if ours.size == 0:
        return _refused(output, "there is no element to compare")
    finite = np.isfinite(ours) & np.isfinite(reference)
    a, b = (np.where(finite, array, 0).astype(np.float64) for array in (ours, reference))
    error = np.where(finite, np.abs(a - b), np.inf)
    excess = error - (ABSOLUTE + RELATIVE * np.abs(b))
    holds = bool((excess <= 0).all())
    flat = int(np.argmax(error if holds else excess))
    index = tuple(int(number) for number in np.unravel_index(flat, error.shape))
    return Agreement(output, holds, float(error.max()), index, float(ours[index]), float(reference[index]))


def _refused(output: str, why: str) -> Agreement:
    return Agreement(output, False, float("inf"), (), float("nan"), float("nan"), why)
