"""What a kernel does is counted from its text: the counts are those of the arithmetic, whatever the tiles."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kernelc.layout.buffer import Buffer
from kernelc.layout.movement import Digit, Movement, straight
from kernelc.layout.window import Taps
from kernelc.lowering import cast, contraction, depthwise, elementwise, rearrange, text
from kernelc.lowering.kernel import Kernel
from kernelc.lowering.steps import Step
from kernelc.schedule.cost import Tail
from kernelc.schedule.work import Counter, Task, Work


def counted(kernel: Kernel, kind: str) -> int:
    """Numbers (vectors times lanes) that the steps of a kind work on."""
    return sum(
        count * task.blocks * task.columns * task.lanes for task, count in kernel.work.tasks if task.kind == kind
    )


def pointwise(blocks: int, columns: int, tail: Tail | None = None, channels: int = 32) -> Kernel:
    x, y = Buffer(24, 6, 10, 16), Buffer(channels, 6, 10, 16)
    taps = Taps(1, 1, 1, 1, 1, 1, 0, 0, 6, 6)
    return contraction.lower(contraction.Contraction(x, y, taps, True, (), blocks, columns, tail))


@pytest.mark.parametrize("tile", [(1, 1), (1, 7), (2, 3), (2, 10)])
def test_a_convolution_multiplies_as_often_as_its_flop_says_in_any_tile(tile: tuple[int, int]):
    kernel = pointwise(*tile)

    assert 2 * counted(kernel, "reduce") == kernel.flop == 2 * 32 * 24 * 60
    assert counted(kernel, "store") == 32 * 60


def test_lanes_that_hold_no_channel_are_work_too():
    whole, cut = pointwise(2, 4, channels=24), pointwise(1, 4, Tail(8, 4), channels=24)

    assert counted(whole, "reduce") == 32 * 24 * 60
    assert counted(cut, "reduce") == 24 * 24 * 60


@pytest.mark.parametrize(("tile", "columns"), [((1, 8), 8 + 8 + 8), ((3, 16), 16 + 16), ((5, 32), 16 + 16)])
def test_channels_that_lie_apart_are_multiplied_by_vectors_of_columns_some_twice(tile: tuple[int, int], columns: int):
    x, y = Buffer(24, 6, 21, 1, 1, 1), Buffer(5, 6, 21, 1)
    taps = Taps(3, 3, 1, 1, 1, 1, 1, 1, 6, 6)

    kernel = contraction.lower(contraction.Contraction(x, y, taps, False, (), *tile))

    assert counted(kernel, "reduce") == (3 * 6 - 2) * 3 * 24 * 5 * columns
    assert counted(kernel, "store") == 5 * 6 * columns
    shapes = {
        kind: {(task.blocks, task.columns, task.lanes) for task, _ in kernel.work.tasks if task.kind == kind}
        for kind in ("reduce", "tile")
    }
    assert shapes["reduce"] == shapes["tile"]
    assert max(shapes["tile"])[:2] == (1, tile[0])


def test_a_loop_over_kernel_rows_turns_less_often_at_the_border():
    # 3x3 with a row of padding above and below, columns in the halo: of 3 * 8 kernel rows two lie outside
    x, y = Buffer(16, 8, 10, 16, 1, 1), Buffer(16, 8, 10, 16)
    taps = Taps(3, 3, 1, 1, 1, 1, 1, 1, 8, 8)

    dense = contraction.lower(contraction.Contraction(x, y, taps, False, (), 1, 5))
    each = depthwise.lower(depthwise.Depthwise(x, y, taps, False, (), 5))

    assert counted(dense, "reduce") == (3 * 8 - 2) * 3 * 10 * 16 * 16
    assert counted(each, "multiply") == (3 * 8 - 2) * 3 * 10 * 16
    assert counted(each, "load") == (3 * 8 - 2) * 3 * (10 + 2) * 16  # pixels, and for both tiles of a row the weights


def test_operands_are_bytes_the_written_one_last():
    kernel = pointwise(2, 3)

    assert kernel.work.operands == (4 * 32 * 60, 4 * 32 * 24, 4 * 32, 4 * 32 * 60)
    assert (kernel.work.read, kernel.work.written) == (4 * 32 * (60 + 24 + 1), 4 * 32 * 60)


def test_a_stream_reads_and_writes_each_number_once_and_divides_where_it_says_so():
    x = Buffer(32, 4, 9, 16)
    kernel = elementwise.lower(elementwise.Elementwise(x, x, (Step("div", (3.0,)), Step("relu")), 4))

    assert (counted(kernel, "load"), counted(kernel, "store")) == (32 * 36, 32 * 36)
    assert (counted(kernel, "divide"), counted(kernel, "arithmetic")) == (32 * 36, 2 * 32 * 36)  # compare and select


def test_rows_that_become_columns_are_counted_as_such():
    kernel = cast.lower(cast.Cast(Buffer(16, 2, 16, 1), Buffer(16, 2, 16, 16), 16))

    assert counted(kernel, "transpose") == 16 * 2 * 16
    assert counted(kernel, "load") == counted(kernel, "store") == 16 * 2 * 16


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (1, 16), (16, 1)])
def test_a_cast_loads_and_stores_each_number_once(before: int, after: int):
    kernel = cast.lower(cast.Cast(Buffer(16, 2, 16, before), Buffer(16, 2, 16, after), 16))

    assert [counted(kernel, kind) for kind in ("load", "store", "transpose")] == [16 * 2 * 16] * 3


@pytest.mark.parametrize(("before", "after"), [(8, 16), (16, 8)])
def test_a_cast_between_blocks_loads_and_stores_each_number_once(before: int, after: int):
    x, y = Buffer(16, 2, 5, before), Buffer(16, 2, 5, after)

    kernel = rearrange.lower(rearrange.Rearrange(x, y, straight(16, 2, 5), 16))

    assert counted(kernel, "load") == counted(kernel, "store") == 16 * 2 * 5


def test_rows_in_turn_are_loaded_and_stored_by_whole_vectors():
    columns = (Digit(21, (0, 0, 1)), Digit(2, (1, 0, 0)))
    spread = Movement(((Digit(3, (4, 0, 0)),), (Digit(2, (0, 1, 0)), Digit(2, (2, 0, 0))), columns), (0, 0, 0))

    kernel = rearrange.lower(rearrange.Rearrange(Buffer(12, 2, 21, 1), Buffer(3, 4, 42, 1), spread, 16))

    assert counted(kernel, "load") == counted(kernel, "store") == 12 * 2 * (16 + 16)
    assert {task.lanes for task, _ in kernel.work.tasks if task.kind in ("load", "store")} == {16}


def test_a_loop_of_unknown_bounds_must_say_how_often_it_turns():
    writer = text.Writer()
    start = writer.empty((4,))

    with pytest.raises(ValueError, match="how often"):
        writer.loop("%low", 4, 1, start, lambda _, value: value)
    writer.loop("%low", 4, 1, start, lambda _, value: value, turns=Fraction(5, 2))
    writer.loop(0, 7, 2, start, lambda _, value: value)

    assert writer.work.work(((4,),)) == Work(((Task("turn"), 6),), (16,))  # 2.5 + 4, to the even neighbour


def test_work_survives_its_json():
    counter = Counter()
    counter.times *= 3
    counter.add(Task("reduce", 4, 6, 16), 5)
    counter.add(Task("load", lanes=16))
    work = counter.work(((2, 3), (4,)))

    assert dict(work.tasks) == {Task("reduce", 4, 6, 16): 15, Task("load", lanes=16): 3}
    assert Work.from_json(work.to_json()) == work
