"""exp and tanh in plain f32 arithmetic: no libm, the same bits on every CPU of a target.

Method: Cody and Waite, "Software Manual for the Elementary Functions" (1980): x = n ln 2 + r with |r| <= ln 2 / 2, a
polynomial for exp(r), and n added to the exponent. ln 2 is split in two so that n times the first part is exact. The
polynomial is the one of the Cephes library's expf (relative error under 2e-7 on the interval).

tanh(x) is m / (m + 2) with m = exp(2x) - 1, as in the FDLIBM library, for |x| and the sign of x put back. m is 2^n
times exp(r) - 1, which is what the polynomial gives before its 1 is added, and 2^n - 1: near 0 nothing cancels, and
denormal numbers stay.
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
TANH_FLAT = 20.0
"""From here on tanh is 1: it differs by less than half a unit from 9.02 on, and m + 2 rounds to m from 17 on."""
TANH_MAX_ULP = 3.0
"""Largest error of tanh in units in the last place, measured against a correctly rounded one; see the test."""
_SIGN, _REST = -(2**31), 2**31 - 1
_ONE_BITS = 0x3F800000


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
    bounded = body.at_most(body.at_least(value, LOWEST), HIGHEST)
    power, shifted = _less_one(body, bounded)
    power = body.op("addf", power, body.writer.scalar(1.0), "")
    bits = body.define(f"arith.bitcast {power} : f32 to i32")
    exponent = body.define(f"arith.bitcast {shifted} : f32 to i32")
    places = body.define("arith.constant 23 : i32")
    raised = body.define(f"arith.shli {exponent}, {places} : i32")
    total = body.define(f"arith.addi {bits}, {raised} : i32")
    result = body.define(f"arith.bitcast {total} : i32 to f32")
    unordered = body.define(f"arith.cmpf uno, {value}, {value} : f32")
    return body.define(f"arith.select {unordered}, {value}, {result} : f32")


def hyperbolic_tangent(body: Lines, value: str) -> str:
    """The name of tanh(value), for an f32 name in a generic's body. NaN gives NaN, -0 gives -0."""
    constant = body.writer.scalar
    bits = body.define(f"arith.bitcast {value} : f32 to i32")
    sign = body.define(f"arith.andi {bits}, {_whole(body, _SIGN)} : i32")
    size = body.define(f"arith.andi {bits}, {_whole(body, _REST)} : i32")
    size = body.define(f"arith.bitcast {size} : i32 to f32")
    bounded = body.at_most(size, TANH_FLAT)
    part, shifted = _less_one(body, body.op("addf", bounded, bounded, ""))
    exponent = body.define(f"arith.bitcast {shifted} : f32 to i32")
    raised = body.define(f"arith.shli {exponent}, {_whole(body, 23)} : i32")
    scale = body.define(f"arith.addi {raised}, {_whole(body, _ONE_BITS)} : i32")
    scale = body.define(f"arith.bitcast {scale} : i32 to f32")
    less_one = body.op("addf", body.op("mulf", part, scale), body.op("subf", scale, constant(1.0), ""))
    result = body.op("divf", less_one, body.op("addf", less_one, constant(2.0), ""), "")
    bits = body.define(f"arith.bitcast {result} : f32 to i32")
    bits = body.define(f"arith.ori {bits}, {sign} : i32")
    return body.define(f"arith.bitcast {bits} : i32 to f32")


def _whole(body: Lines, value: int) -> str:
    return body.define(f"arith.constant {value} : i32")


def _less_one(body: Lines, bounded: str) -> tuple[str, str]:
    """exp(r) - 1 where `bounded` is n ln 2 + r, and n + `ROUNDING`. NaN gives NaN, but no whole n."""
    constant = body.writer.scalar
    magic = constant(ROUNDING)
    shifted = body.op("addf", body.op("mulf", bounded, constant(LOG2_E)), magic)
    whole = body.op("subf", shifted, magic, "")
    rest = body.op("subf", bounded, body.op("mulf", whole, constant(LN2_HIGH)))
    rest = body.op("subf", rest, body.op("mulf", whole, constant(LN2_LOW)))
    power = constant(COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        power = body.op("addf", body.op("mulf", power, rest), constant(coefficient))
    return body.op("addf", body.op("mulf", power, body.op("mulf", rest, rest, "")), rest), shifted
