"""Symbolic sizes: every rewriting keeps the value, equal expressions print alike, and what prints is read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelc import symbols
from kernelc.symbols import Dim, symbol

S0, S1 = symbol("s0"), symbol("s1")
SIZES = st.fixed_dictionaries({"s0": st.integers(1, 50), "s1": st.integers(1, 50)})


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> tuple[Dim, Callable[[dict[str, int]], int]]:
    """A size and the function that computes it by plain arithmetic."""
    kind = draw(st.sampled_from(["symbol", "number", "add", "subtract", "multiply", "floor", "ceiling"]))
    if depth == 0 or kind == "symbol":
        name = draw(st.sampled_from(["s0", "s1"]))
        return symbol(name), lambda sizes: sizes[name]
    if kind == "number":
        number = draw(st.integers(-9, 9))
        return number, lambda _: number
    left, left_value = draw(expressions(depth - 1))
    if kind in ("floor", "ceiling"):
        divisor = draw(st.integers(1, 8))
        if kind == "floor":
            return symbols.floor_divide(left, divisor), lambda sizes: left_value(sizes) // divisor
        return symbols.ceil_divide(left, divisor), lambda sizes: -(-left_value(sizes) // divisor)
    right, right_value = draw(expressions(depth - 1))
    apply: dict[str, tuple[Any, Callable[[int, int], int]]] = {
        "add": (symbols.add, lambda a, b: a + b),
        "subtract": (symbols.subtract, lambda a, b: a - b),
        "multiply": (symbols.multiply, lambda a, b: a * b),
    }
    combine, plain = apply[kind]
    return combine(left, right), lambda sizes: plain(left_value(sizes), right_value(sizes))


@given(expressions(), SIZES)
def test_an_expression_has_the_value_of_plain_arithmetic(
    expression: tuple[Dim, Callable[[dict[str, int]], int]], sizes: dict[str, int]
) -> None:
    size, value = expression
    assert symbols.substitute(size, sizes) == value(sizes)


@given(expressions())
def test_an_expression_is_read_back_from_its_text(expression: tuple[Dim, Any]) -> None:
    assert symbols.parse(str(expression[0])) == expression[0]


@given(expressions(3), expressions(3), expressions(3))
def test_sums_and_products_have_one_form_in_any_order(one: Any, two: Any, three: Any) -> None:
    a, b, c = one[0], two[0], three[0]
    add, multiply = symbols.add, symbols.multiply
    assert add(add(a, b), c) == add(c, add(b, a))
    assert multiply(a, b) == multiply(b, a)
    assert symbols.subtract(add(a, b), b) == a


@given(expressions(3), st.integers(1, 9))
def test_a_common_factor_is_divided_out_exactly(expression: tuple[Dim, Any], factor: int) -> None:
    size = expression[0]
    assert symbols.exact_divide(symbols.multiply(size, factor), factor) == size
    assert symbols.exact_divide(symbols.multiply(size, S0), S0) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (symbols.floor_divide(symbols.add(symbols.multiply(S0, 4), 7), 4), "s0 + 1"),
        (symbols.floor_divide(symbols.floor_divide(S0, 2), 3), "(s0 floordiv 6)"),
        (symbols.floor_divide(symbols.add(symbols.floor_divide(symbols.add(S0, 1), 2), 1), 2), "((s0 + 3) floordiv 4)"),
        (symbols.floor_divide(symbols.add(symbols.multiply(S0, 2), 1), 4), "(s0 floordiv 2)"),
        (symbols.subtract(S0, S0), "0"),
        (symbols.add(symbols.multiply(S1, -2), symbols.multiply(S0, S1)), "s0*s1 - 2*s1"),
    ],
)
def test_sizes_print_in_lowest_terms(size: Dim, text: str) -> None:
    assert str(size) == text


@pytest.mark.parametrize(
    "text", ["", "s0 +", "s0 s1", "(s0", "s0)", "floordiv", "(s0 floordiv s1)", "s0 % 2", "1.5", "+"]
)
def test_other_text_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|parenthes|divisor|unexpected"):
        symbols.parse(text)
