"""Any row of transposes, slices and reshapes that is a view reads the elements that NumPy's moves read, in order."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernelc.media import views

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def reshaped(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with a dimension split in two, or two neighbours joined."""
    axis = draw(st.integers(0, len(shape) - 1))
    if draw(st.booleans()) and axis + 1 < len(shape):
        return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    first = draw(st.sampled_from([size for size in range(1, shape[axis] + 1) if shape[axis] % size == 0]))
    return (*shape[:axis], first, shape[axis] // first, *shape[axis + 1 :])


@given(st.data())
def test_a_view_of_a_view_is_what_numpy_reads(data: st.DataObject) -> None:
    shape = tuple(data.draw(SIZES))
    expected = np.arange(prod(shape)).reshape(shape)
    view = views.whole(shape)
    for _ in range(data.draw(st.integers(1, 5))):
        kind = data.draw(st.sampled_from(["reshape", "transpose", "slice"]))
        if kind == "reshape":
            expected = expected.reshape(data.draw(st.composite(reshaped)(expected.shape)))
            continue
        if kind == "transpose":
            order = data.draw(st.permutations(range(expected.ndim)))
            found, moved = views.transposed(view, expected.shape, order), expected.transpose(order)
        else:
            axis, step = data.draw(st.integers(0, expected.ndim - 1)), data.draw(st.sampled_from([1, 2, -1]))
            taken = [range(size) for size in expected.shape]
            taken[axis] = taken[axis][data.draw(st.integers(0, expected.shape[axis] - 1)) :: step]
            found, moved = views.sliced(view, expected.shape, taken), expected[np.ix_(*taken)]
        if found is None:
            break
        view, expected = found, moved
    places = np.array(view.offset)
    for size, stride in view.factors:
        places = places[..., None] + stride * np.arange(size)
    assert places.reshape(-1).tolist() == expected.reshape(-1).tolist()
    assert view.bounds == (expected.min(), expected.max())
