"""Constant arithmetic: the bits that every CPU must give, and what is refused because CPUs differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelc.graph import Node
from kernelc.numerics import exact
from kernelc.numerics.exact import NotExact


def _apply(op: str, *operands: Any, **attrs: Any) -> np.ndarray:
    return exact.apply(Node(op, "n", (), (), tuple(sorted(attrs.items()))), [np.asarray(item) for item in operands])


def test_every_made_nan_is_the_positive_quiet_one() -> None:
    infinity = np.float32(np.inf)
    for made in (_apply("sub", infinity, infinity), _apply("div", np.float32(0), np.float32(0))):
        assert made.tobytes() == bytes.fromhex("0000c07f")
    odd = np.frombuffer(bytes.fromhex("0100a0ff"), "<f4")  # a negative signalling NaN with a payload
    assert _apply("relu", odd).tobytes() == bytes.fromhex("0000c07f")
    assert _apply("cast", odd, to="f64").tobytes() == bytes.fromhex("000000000000f87f")


def test_float16_arithmetic_is_rounded_once() -> None:
    one, small = np.float16(1), np.float16(2**-11)  # half a unit in the last place: a tie, to even
    assert _apply("add", one, small).tobytes() == np.float16(1).tobytes()
    assert _apply("add", one, np.float16(2**-11 + 2**-21)).tobytes() == np.float16(1 + 2**-10).tobytes()


def test_subnormals_are_kept() -> None:
    smallest = np.float32(1e-45)
    assert _apply("mul", smallest, np.float32(3)).tobytes() == (3).to_bytes(4, "little")


def test_relu_and_clip_keep_nan_and_the_sign_of_zero() -> None:
    values = np.array([np.nan, -0.0, 0.0, -1.0, 1.0], np.float32)
    assert repr(_apply("relu", values).tolist()) == "[nan, -0.0, 0.0, 0.0, 1.0]"
    assert repr(_apply("clip", values, min=-0.5, max=0.5).tolist()) == "[nan, -0.0, 0.0, -0.5, 0.5]"


def test_the_upper_bound_wins_where_bounds_cross() -> None:
    assert _apply("clamp", np.array([0, 5, 9]), np.array(6), np.array([2])).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("left", "right", "quotient"),
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (6, 3, 2), (-6, 3, -2), (0, -3, 0)],
)
def test_integers_divide_toward_zero(left: int, right: int, quotient: int) -> None:
    assert _apply("div", np.int8(left), np.int8(right)).tolist() == quotient


def test_unsigned_integers_divide_and_wrap() -> None:
    assert _apply("div", np.uint8(255), np.uint8(2)).tolist() == 127
    assert _apply("add", np.array([250], np.uint8), np.array([10], np.uint8)).tolist() == [4]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (2.9, "i8", 2),
        (-2.9, "i8", -2),
        (127.9, "i8", 127),
        (-128.9, "i8", -128),
        (-0.9, "u8", 0),
        (2.0**62, "i64", 2**62),
        (-(2.0**63), "i64", -(2**63)),
        (0.1, "bool", True),
        (np.nan, "bool", True),
        (65520.0, "f16", np.inf),
        (65519.0, "f16", 65504),
    ],
)
def test_floats_convert_toward_zero_and_to_nearest(value: float, dtype: str, expected: Any) -> None:
    assert _apply("cast", np.float64(value), to=dtype).tolist() == expected


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(128.0, "i8"), (-129.0, "i8"), (-1.0, "u8"), (2.0**63, "i64"), (2.0**64, "u64"), (np.nan, "i32"), (np.inf, "i32")],
)
def test_a_float_without_an_integer_of_the_type_is_refused(value: float, dtype: str) -> None:
    with pytest.raises(NotExact):
        _apply("cast", np.float64(value), to=dtype)


@pytest.mark.parametrize(("left", "right"), [(1, 0), (-128, -1)])
def test_an_integer_quotient_that_does_not_exist_is_refused(left: int, right: int) -> None:
    with pytest.raises(NotExact):
        _apply("div", np.array([3, left], np.int8), np.array([1, right], np.int8))


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_outside_is_refused(index: int) -> None:
    with pytest.raises(NotExact):
        _apply("gather", np.arange(3), np.array([index]), axis=0)


def test_a_rearrangement_counts_in_row_major_order() -> None:
    attrs = {"sizes": (2, 3), "strides": (-1, 4), "offset": 1, "shape": (6,)}
    assert _apply("rearrange", np.arange(12).reshape(3, 4), **attrs).tolist() == [1, 5, 9, 0, 4, 8]


def test_roots_are_rounded_correctly() -> None:
    assert _apply("sqrt", np.array([2, 0, 1e-45], np.float32)).tobytes() == bytes.fromhex("f304b53f00000000f304351a")


def test_gather_and_slice_count_from_the_end() -> None:
    assert _apply("gather", np.arange(6).reshape(2, 3), np.array([[-1, 0]]), axis=1).tolist() == [[[2, 0]], [[5, 3]]]
    lists = [np.array([item]) for item in (-1, -(2**62), 1, -2)]
    assert _apply("slice", np.arange(8).reshape(2, 4), *lists).tolist() == [[3, 1], [7, 5]]
