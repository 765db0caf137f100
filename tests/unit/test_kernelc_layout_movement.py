"""Moves between images by channel, row and column: which keep each element's place, and which are none."""

from __future__ import annotations

from collections.abc import Sequence

from kernelc.layout.movement import Digit, Movement, movement
from kernelc.media import views
from kernelc.media.views import View
from tests.support.backend_graphs import Maker


def moved(before: Sequence[int], view: View | None, after: Sequence[int]) -> Movement | None:
    assert view is not None
    make = Maker()
    attrs = {"sizes": view.sizes, "strides": view.strides, "offset": view.offset, "shape": tuple(after)}
    graph = make.finish(make.node("rearrange", make.input(*before), **attrs))
    return movement(graph, graph.nodes[0])


def transposed(before: Sequence[int], split: Sequence[int], order: Sequence[int]) -> View | None:
    return views.transposed(views.whole(before), split, order)


def test_an_image_of_one_row_is_a_sequence_in_place() -> None:
    found = moved((1, 20, 1, 9), transposed((1, 20, 1, 9), (1, 20, 9), (0, 2, 1)), (1, 9, 20))
    assert found is not None and found.is_straight
    back = moved((1, 9, 20), transposed((1, 9, 20), (1, 9, 20), (0, 2, 1)), (1, 20, 1, 9))
    assert back is not None and back.is_straight


def test_rows_of_an_image_become_digits_of_a_sequence() -> None:
    found = moved((1, 20, 4, 9), transposed((1, 20, 4, 9), (1, 20, 36), (0, 2, 1)), (1, 36, 20))
    assert found == Movement(((Digit(20, (1, 0, 0)),), (), (Digit(4, (0, 1, 0)), Digit(9, (0, 0, 1)))), (0, 0, 0))
    assert not found.is_straight


def test_heads_are_every_fifth_channel() -> None:
    heads = transposed((1, 7, 10), (7, 2, 5), (1, 0, 2))
    found = moved((1, 7, 10), heads, (1, 2, 7, 5))
    assert found == Movement(((Digit(2, (5, 0, 0)),), (Digit(7, (0, 0, 1)),), (Digit(5, (1, 0, 0)),)), (0, 0, 0))


def test_a_mirrored_row_begins_at_its_end() -> None:
    shape = (1, 2, 3, 8)
    view = views.sliced(views.whole(shape), shape, [range(1), range(2), range(3), range(7, -1, -1)])
    found = moved(shape, view, shape)
    assert found is not None
    assert (found.origin, found.axes[2]) == ((0, 0, 7), (Digit(8, (0, 0, -1)),))


def test_a_move_across_the_end_of_a_row_is_none() -> None:
    assert moved((1, 2, 3, 8), View((6, 8), (8, 1)), (1, 6, 1, 8)) is not None
    assert moved((1, 2, 3, 8), View((4, 8), (8, 1), 4), (1, 4, 1, 8)) is None
    assert moved((1, 2, 3, 8), View((2, 2, 12), (24, 12, 1)), (1, 2, 2, 12)) is None


def test_depth_to_space_takes_numbers_of_so_many_rows_in_turn() -> None:
    by_depth = moved((1, 12, 3, 5), transposed((1, 12, 3, 5), (1, 3, 2, 2, 3, 5), (0, 1, 4, 2, 5, 3)), (1, 3, 6, 10))
    by_rows = moved((1, 12, 3, 5), transposed((1, 12, 3, 5), (1, 2, 2, 3, 3, 5), (0, 3, 4, 1, 5, 2)), (1, 3, 6, 10))
    for found, step in ((by_depth, 1), (by_rows, 3)):
        assert found is not None
        assert found.axes[2] == (Digit(5, (0, 0, 1)), Digit(2, (step, 0, 0)))
        assert (found.interleaved, found.mixes_channels) == (2, True)


def test_vectors_run_along_rows_that_stay_rows_and_not_along_others() -> None:
    shape = (1, 4, 3, 8)
    kept = views.sliced(views.whole(shape), shape, [range(1), range(1, 3), range(3), range(2, 8)])
    found = moved(shape, kept, (1, 2, 3, 6))
    assert found is not None and (found.interleaved, found.mixes_channels) == (1, False)
    turned = moved(shape, transposed(shape, shape, (0, 1, 3, 2)), (1, 4, 8, 3))
    assert turned is not None and (turned.interleaved, turned.mixes_channels) == (0, False)
    mirrored = views.sliced(views.whole(shape), shape, [range(1), range(4), range(3), range(7, -1, -1)])
    found = moved(shape, mirrored, shape)
    assert found is not None and found.interleaved == 0
    many = moved((1, 81, 1, 5), transposed((1, 81, 1, 5), (1, 1, 9, 9, 1, 5), (0, 1, 4, 2, 5, 3)), (1, 1, 9, 45))
    assert many is not None and many.interleaved == 0
