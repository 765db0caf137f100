"""The rule |a - b| <= 1e-4 + 1e-3 |b| and what it says when it does not hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from farm.agreement import compare


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_equal_outputs_agree_with_error_zero():
    found = compare("y", array(1, 2, 3), array(1, 2, 3))

    assert found.holds
    assert found.max_abs_error == 0.0


@pytest.mark.parametrize(
    ("ours", "reference", "holds"),
    [
        (0.0001, 0.0, True),  # the absolute part alone (float32 of 1e-4 lies below 1e-4)
        (0.000101, 0.0, False),
        (1000.9, 1000.0, True),  # 0.9 <= 0.0001 + 1.0
        (1001.2, 1000.0, False),
        (-1000.9, -1000.0, True),
        (1000.0, -1000.0, False),
    ],
)
def test_tolerance_is_absolute_plus_relative_to_the_reference(ours: float, reference: float, holds: bool):
    assert compare("y", array(ours), array(reference)).holds is holds


def test_the_tolerance_is_relative_to_the_reference_and_not_to_our_value():
    # 0.1001 off at 100: allowed 0.1001 with the reference 100.1001, not with the reference 100
    assert compare("y", array(100.0), array(100.1)).holds
    assert not compare("y", array(100.1002), array(100.0)).holds


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_never_agrees_even_with_itself(bad: float):
    found = compare("y", array(1, bad), array(1, bad))

    assert not found.holds
    assert found.index == (1,)
    assert found.max_abs_error == math.inf


def test_the_worst_element_is_named_with_both_values():
    ours = np.zeros((1, 2, 3), np.float32)
    ours[0, 1, 2] = 0.5
    ours[0, 0, 1] = 0.25

    found = compare("save_infer_model/scale_0", ours, np.zeros((1, 2, 3), np.float32))

    assert (found.index, found.ours, found.reference) == ((0, 1, 2), 0.5, 0.0)
    assert found.describe() == (
        "output 'save_infer_model/scale_0' at [0, 1, 2]: 0.5 here, 0 in the reference "
        "(tolerance 0.0001 + 0.001 * |reference|)"
    )


def test_the_worst_is_by_tolerance_and_not_by_size_of_the_error():
    # 0.9 at 1000 is allowed, 0.01 at 0 is not
    found = compare("y", array(1000.9, 0.01), array(1000.0, 0.0))

    assert found.index == (1,)
    assert found.max_abs_error == pytest.approx(0.9, abs=1e-3)


def test_another_shape_or_an_empty_output_never_agrees():
    assert compare("y", array(1, 2), array(1, 2, 3)).describe() == "output 'y': shape [2] here, [3] in the reference"
    assert not compare("y", array(), array()).holds
