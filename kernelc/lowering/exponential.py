"""exp in plain f32 arithmetic: no libm, the same bits on every CPU of a target.

Method: Cody and Waite, "Software Manual for the Elementary Functions" (1980): x = n ln 2 + r with |r| <= ln 2 / 2, a
polynomial for exp(r), and n added to the exponent. ln 2 is split in two so that n times the first part is exact. The
polynomial is the one of the Cephes library's expf (relative error under 2e-7 on the interval).
"""

from __future__ import annotations

from typing import Protocol

LOWEST, HIGHEST = -87.0, 88.0
"""Arguments are clamped to this range: results stay normal numbers; below it exp is under 2e-38 anyway."""

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
ROUNDING = 12582912.0
"""1.5 * 2**23: adding it rounds to an integer, which then sits in the low bits of the sum."""
COEFFICIENTS = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
MAX_RELATIVE_ERROR = 2.5e-7
"""Measured against float64 over the whole range; see the test."""


class _Writer(Protocol):
    def scalar(self, value: float) -> str: ...


class Lines(Protocol):
    """The body of a generic under way: `kernelc.lowering.steps.Body`."""

    @property
    def writer(self) -> _Writer: ...

    def define(self, text: str) -> str: ...
    def op(self, name: str, left: str, right: str, flags: str = ...) -> str: ...
    def at_least(self, value: str, bound: float) -> str: ...
    def at_most(self, value: str, bound: float) -> str: ...


def exponential(body: Lines, value: str) -> str:
    """The name of exp(value), for an f32 name in a generic's body. NaN gives NaN."""
    constant = body.writer.scalar
    bounded = body.at_most(body.at_least(value, LOWEST), HIGHEST)
    magic = constant(ROUNDING)
    shifted = body.op("addf", body.op("mulf", bounded, constant(LOG2_E)), magic)
    whole = body.op("subf", shifted, magic, "")
    rest = body.op("subf", bounded, body.op("mulf", whole, constant(LN2_HIGH)))
    rest = body.op("subf", rest, body.op("mulf", whole, constant(LN2_LOW)))
    power = constant(COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        power = body.op("addf", body.op("mulf", power, rest), constant(coefficient))
    power = body.op("addf", body.op("mulf", power, body.op("mulf", rest, rest, "")), rest)
    power = body.op("addf", power, constant(1.0), "")
    bits = body.define(f"arith.bitcast {power} : f32 to i32")
    exponent = body.define(f"arith.bitcast {shifted} : f32 to i32")
    places = body.define("arith.constant 23 : i32")
    raised = body.define(f"arith.shli {exponent}, {places} : i32")
    total = body.define(f"arith.addi {bits}, {raised} : i32")
    result = body.define(f"arith.bitcast {total} : i32 to f32")
    unordered = body.define(f"arith.cmpf uno, {value}, {value} : f32")
    return body.define(f"arith.select {unordered}, {value}, {result} : f32")
