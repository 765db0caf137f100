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
