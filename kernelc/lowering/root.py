"""The square root in plain f32 arithmetic, for the machines that have no instruction for it: the same bits on all.

Method: a first guess of 1 / sqrt(x) from the bits of x (Lomont, "Fast inverse square root", 2003, whose constant it
is), then Newton's steps y * (3/2 - x/2 * y * y), each of which squares the relative error: 1.8e-3, 4.7e-6, 3e-11.
"""

from __future__ import annotations

from kernelc.lowering.exponential import Lines

GUESS = 0x5F375A86
STEPS = 3
MAX_RELATIVE_ERROR = 3e-7
"""Of either function, measured against float64 over all exponents; see the test."""


def inverse_root(body: Lines, value: str) -> str:
    """The name of 1 / sqrt(value), for an f32 name in a generic's body; of 0 it is a finite number over 1e19.

    Below 0 and for NaN, infinity and what is under the least normal number, the result means nothing.
    """
    constant = body.writer.scalar
    bits = body.define(f"arith.bitcast {value} : f32 to i32")
    one, guess = body.define("arith.constant 1 : i32"), body.define(f"arith.constant {GUESS} : i32")
    half = body.define(f"arith.shrui {bits}, {one} : i32")
    result = body.define(f"arith.subi {guess}, {half} : i32")
    result = body.define(f"arith.bitcast {result} : i32 to f32")
    small = body.op("mulf", value, constant(0.5), "")
    for _ in range(STEPS):  # x/2 times y first: y squared overflows where x is tiny
        share = body.op("mulf", body.op("mulf", small, result, ""), result)
        result = body.op("mulf", result, body.op("subf", constant(1.5), share), "")
    return result


def root(body: Lines, value: str) -> str:
    """The name of sqrt(value): 0 and infinity are their own roots, NaN and numbers below 0 give NaN."""
    constant = body.writer.scalar
    found = body.op("mulf", value, inverse_root(body, value), "")
    large = body.define(f"arith.cmpf oeq, {value}, {constant(float('inf'))} : f32")
    found = body.define(f"arith.select {large}, {value}, {found} : f32")
    inside = body.define(f"arith.cmpf oge, {value}, {constant(0.0)} : f32")
    return body.define(f"arith.select {inside}, {found}, {constant(float('nan'))} : f32")
