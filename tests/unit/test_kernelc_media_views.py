"""Views: moves of elements as sizes and strides, beside what NumPy does with the numbers of the elements."""

from __future__ import annotations

import numpy as np
import pytest

from kernelc.media import views
from kernelc.media.views import View


def elements(view: View | None) -> list[int]:
    """Numbers of the elements that a view reads, in order."""
    assert view is not None
    places = np.array(view.offset)
    for size, stride in view.factors:
        places = places[..., None] + stride * np.arange(size)
    return [int(place) for place in places.reshape(-1)]


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape)


def test_a_whole_value_is_one_index() -> None:
    assert views.whole((2, 3, 4)) == View((24,), (1,))
    assert views.whole((2, 3, 4)).is_whole(24)
    assert views.whole((1, 1)) == View((), ())


def test_neighbours_that_count_on_are_joined_and_ones_left_out() -> None:
    assert views.view_of([(2, 12), (1, 99), (3, 4), (4, 1)], 5) == View((24,), (1,), 5)
    assert views.view_of([(3, 1), (2, 12)], 0) == View((3, 2), (1, 12))


def test_bounds_are_the_least_and_the_largest_element() -> None:
    assert View((3, 4), (-10, 2), 20).bounds == (0, 26)


def test_an_index_is_cut_where_sizes_divide() -> None:
    assert views.cut(View((24,), (1,)), (2, 3, 4)) == [[(2, 12)], [(3, 4)], [(4, 1)]]
    assert views.cut(View((4, 6), (1, 4)), (2, 12)) == [[(2, 2)], [(2, 1), (6, 4)]]
    assert views.cut(View((4, 6), (1, 4)), (1, 3, 8)) is None


def test_a_transpose_of_a_transpose_is_the_whole() -> None:
    once = views.transposed(views.whole((2, 3, 4)), (2, 3, 4), (2, 0, 1))
    assert elements(once) == numbered(2, 3, 4).transpose(2, 0, 1).reshape(-1).tolist()
    assert once is not None
    again = views.transposed(once, (4, 2, 3), (1, 2, 0))
    assert again is not None and again.is_whole(24)


def test_a_reshape_between_transposes_goes_along() -> None:
    split = views.transposed(views.whole((40, 360)), (40, 3, 8, 15), (1, 2, 0, 3))
    assert elements(split) == numbered(40, 3, 8, 15).transpose(1, 2, 0, 3).reshape(-1).tolist()


@pytest.mark.parametrize("taken", [slice(1, 4), slice(None, None, 2), slice(None, None, -1), slice(3, 0, -2)])
def test_a_slice_of_one_index(taken: slice) -> None:
    view = views.sliced(views.whole((3, 5, 2)), (3, 5, 2), [range(3), range(5)[taken], range(2)])
    assert elements(view) == numbered(3, 5, 2)[:, taken].reshape(-1).tolist()


def test_a_slice_of_two_indices_that_do_not_count_on_is_no_view() -> None:
    view = views.transposed(views.whole((2, 3, 4)), (2, 3, 4), (1, 0, 2))
    assert view is not None
    assert views.sliced(view, (24,), [range(0, 24, 5)]) is None
    assert views.sliced(view, (24,), [range(24)]) == view


def test_slices_that_follow_each_other_are_one_view() -> None:
    shape, parts = (1, 3, 4, 6), [(0, 0), (1, 0), (0, 1), (1, 1)]
    taken = [
        views.sliced(views.whole(shape), shape, [range(1), range(3), range(row, 4, 2), range(column, 6, 2)])
        for row, column in parts
    ]
    found = views.joined([view for view in taken if view is not None], (1, 3, 2, 3), 1)
    wanted = np.concatenate([numbered(*shape)[:, :, row::2, column::2] for row, column in parts], 1)
    assert elements(found) == wanted.reshape(-1).tolist()


@pytest.mark.parametrize("offsets", [[0, 6, 13], [0, 6, 6, 13], [0, 1, 10, 12]])
def test_views_that_follow_no_rule_are_not_one(offsets: list[int]) -> None:
    assert views.joined([View((2, 2), (30, 3), offset) for offset in offsets], (2, 2), 0) is None


def test_views_of_different_steps_are_not_one() -> None:
    assert views.joined([View((2, 2), (30, 3), 0), View((2, 2), (30, 2), 1)], (2, 2), 0) is None
