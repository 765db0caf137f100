"""Shapes given by `--shape`: put in, checked, asked for where they are missing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kernelc.frontend.binding import Declared, bind, replaced
from kernelc.symbols import symbol
from kernelfarm.errors import Code, FarmError, Status

IMAGE = Declared("image", "f32", ("batch", 3, "?", "?"))
MASK = Declared("mask", "f32", ("batch", 1))
FIXED = Declared("scale", "f32", (1, 4))


def _error(inputs: list[Declared], shapes: Mapping[str, tuple[int, ...]]) -> FarmError:
    with pytest.raises(FarmError) as caught:
        bind(inputs, shapes)
    assert caught.value.status is Status.USAGE
    return caught.value


def test_given_shapes_are_put_in_and_static_ones_stay() -> None:
    bound = bind([IMAGE, MASK, FIXED], {"image": (2, 3, 8, 9), "mask": (2, 1)})
    assert bound == ((2, 3, 8, 9), (2, 1), (1, 4))


def test_a_given_shape_replaces_sizes_that_the_model_fixes_and_that_is_told() -> None:
    bound = bind([IMAGE, MASK, FIXED], {"image": (2, 4, 8, 9), "scale": (2, 4)})
    assert bound == ((2, 4, 8, 9), (2, 1), (2, 4))
    told = 'input "image" is declared ?x3x?x? and given as 2x4x8x9, input "scale" is declared 1x4 and given as 2x4'
    assert replaced([IMAGE, MASK, FIXED], bound) == told


def test_open_sizes_that_are_given_replace_nothing() -> None:
    assert replaced([IMAGE, FIXED], ((2, 3, 8, 9), (1, 4))) == ""


def test_a_size_bound_by_one_input_holds_for_another_of_the_same_name() -> None:
    assert bind([IMAGE, MASK], {"image": (2, 3, 8, 9)}) == ((2, 3, 8, 9), (2, 1))


def test_a_shape_without_a_name_is_that_of_the_only_open_input() -> None:
    assert bind([FIXED, IMAGE], {"": (1, 3, 8, 9)}) == ((1, 4), (1, 3, 8, 9))
    assert bind([FIXED], {"": (1, 4)}) == ((1, 4),)


def test_open_sizes_become_symbols_in_order_and_equal_names_one_symbol() -> None:
    s0, s1, s2 = symbol("s0"), symbol("s1"), symbol("s2")
    assert bind([IMAGE, MASK], {}, allow_symbolic=True) == ((s0, 3, s1, s2), (s0, 1))


def test_a_missing_shape_says_the_option_to_give() -> None:
    error = _error([IMAGE], {})
    assert error.code is Code.SHAPE_MISSING
    assert error.detail == {"input": "image", "declared": "?x3x?x?", "option": "--shape image=?x3x?x?"}
    assert "--shape image=?x3x?x?" in error.next_step


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"imagee": (1, 3, 8, 8)}, 'it has the inputs "image", "mask"'),
        ({"image": (1, 3, 8)}, "it has 3 sizes; the model declares ?x3x?x? (4 sizes)"),
        ({"image": (1, 3, 0, 8)}, "size 2 is 0; it must be 1 at least"),
        ({"image": (1, 3, 8, -8)}, "size 3 is -8; it must be 1 at least"),
        ({"image": (1, 3, 8, 8), "mask": (2, 1)}, 'equals one of input "image", which is 1'),
        ({"": (1, 3, 8, 8)}, 'the model has the inputs "image", "mask"'),
    ],
)
def test_a_shape_that_does_not_fit_says_what_is_expected(shapes: dict[str, tuple[int, ...]], expected: str) -> None:
    error = _error([IMAGE, MASK], shapes)
    assert error.code is Code.SHAPE_MISMATCH
    assert expected in error.why


@pytest.mark.parametrize("inputs", [[FIXED], [IMAGE], [FIXED, IMAGE]])
def test_a_shape_by_name_and_one_without_for_the_same_input_are_given_twice(inputs: list[Declared]) -> None:
    error = _error(inputs, {inputs[-1].name: (1, 3, 8, 8), "": (1, 3, 9, 9)})

    assert error.code is Code.SHAPE_MISMATCH
    assert error.what == f'the shape of input "{inputs[-1].name}" is given twice'


def test_a_wrong_name_gets_the_nearest_one() -> None:
    assert _error([IMAGE, MASK], {"imagee": (1, 3, 8, 8)}).next_step == 'Did you mean "image"?'
