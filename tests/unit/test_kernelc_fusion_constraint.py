"""The language of constraints: what it means, and that it always answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelc.fusion.constraint import Fact, Faulty, Kind, parse

KINDS: dict[str, Kind] = {"n": "number", "m": "number", "t": "text", "s": "list", "f": "flag", "gone": "number"}
A: dict[str, Fact] = {"n": 3, "m": 0.5, "t": "whole", "s": (1, 8, 6), "f": True, "gone": None}
B: dict[str, Fact] = {**A, "n": 4, "s": (1, 8, 7), "f": False}


def _kind(name: str, fact: str) -> Kind:
    if name not in ("a", "b") or fact not in KINDS:
        raise Faulty(f"no {name}.{fact}")
    return KINDS[fact]


def _objection(text: str, **bound: Any) -> str | None:
    return parse(text, _kind).objection({"a": [A], "b": [B], **bound})


@pytest.mark.parametrize(
    "text",
    [
        "a.n == 3",
        "a.n != b.n",
        "a.n < b.n <= 4",
        "a.n + b.n * 2 == 11 and a.n - 1 == 2",
        "b.n / 8 == a.m and 7 // 2 == a.n and b.n % 3 == 1",
        "-a.n == -3",
        "a.s == (1, 8, 6)",
        "a.s[1] == b.s[1] and a.s[-1] != b.s[-1]",
        "a.t in ('whole', 'channel')",
        "a.t not in ['none']",
        "a.n in (1, 3)",
        "a.f and not b.f",
        "b.f or a.f",
        "a.f == True",
        "not (a.n > 3)",
        "a.m < 1e-3 or a.m > 0.4",
    ],
)
def test_it_holds(text: str) -> None:
    assert _objection(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.n == 4", "a.n is 3"),
        ("a.s == b.s", "a.s is 1x8x6, b.s is 1x8x7"),
        ("a.gone > 0", "a.gone is not known"),
        ("not a.gone > 0", "a.gone is not known"),
        ("a.n / (b.n - 4) == 1", "a.n is 3, b.n is 4"),
        ("a.s[7] == 1", "a.s is 1x8x6"),
        ("a.s[a.m] == 1", "a.m is 0.5, a.s is 1x8x6"),
        ("b.f", "b.f is False"),
    ],
)
def test_it_does_not_hold_and_says_what_was_found(text: str, found: str) -> None:
    assert _objection(text) == f'"{text}" does not hold: {found}'


def test_of_a_repeated_step_it_holds_for_all_of_an_absent_one_for_none() -> None:
    assert _objection("a.n <= 4", a=[A, B]) is None
    assert _objection("a.n == 3", a=[A, B]) == '"a.n == 3" does not hold: a.n is 4'
    assert _objection("a.n == 99", a=[]) is None


@pytest.mark.parametrize(
    "text",
    [
        "a.n",
        "a.t",
        "3",
        "a.n == 't'",
        "a.n < a.t",
        "a.t + 1 == 2",
        "not a.n",
        "a.n and a.f",
        "a.n in 3",
        "a.n[0] == 1",
        "a.n is 3",
        "lambda: 1",
        "[x for x in a.s] == a.s",
        "a.f if a.f else b.f",
        "a.n == 3; 1",
        "a.n := 3",
        "__import__",
        "a.__class__ == 1",
        "a.t.upper() == 'X'",
        "f'{a.n}' == 'x'",
        "a.s == (a.n, 1)",
        "b'x' == b'x'",
        "... == ...",
        "1j == 1",
        "99999999999999999999 == a.n",
        "*a.s",
        "a.n @ 3 == 1",
        "a.n << 99 == 1",
        "~a.n == 1",
        "a.s[0:1] == a.s",
    ],
)
def test_what_is_not_of_the_language_is_refused(text: str) -> None:
    with pytest.raises(Faulty):
        parse(text, _kind)


_WORDS = [
    "a",
    "b",
    ".",
    "n",
    "s",
    "t",
    "f",
    "gone",
    "==",
    "<",
    " in ",
    " and ",
    " not ",
    "(",
    ")",
    "[",
    "]",
    ",",
    "1",
    "-",
    "'x'",
    "*",
    "/",
    " ",
]


@given(st.lists(st.sampled_from(_WORDS), max_size=14).map("".join) | st.text(max_size=40))
def test_any_text_is_refused_or_answers(text: str) -> None:
    try:
        constraint = parse(text, _kind)
    except Faulty as fault:
        assert 0 <= fault.offset <= max(len(text), 300)
        return
    assert isinstance(constraint.objection({"a": [A], "b": [B]}), str | None)
