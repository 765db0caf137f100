"""The arena plan, and the weights file with its packings."""

from __future__ import annotations

import numpy as np
import pytest

from kernelc.graph import Weight, weight_of
from kernelc.layout.arena import Lifetime, plan
from kernelc.layout.packing import Packing, packed
from kernelc.layout.segments import Use, weights_file


def numbers(*shape: int) -> Weight:
    return weight_of(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "f32")


def unpacked(weight: Weight, packing: Packing) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.frombuffer(packed(weight, packing), np.float32)


def test_values_that_never_live_together_share_memory() -> None:
    arena = plan([Lifetime("a", 100, 0, 1), Lifetime("b", 100, 1, 2), Lifetime("c", 100, 2, 3)])

    assert arena.offsets == {"a": 0, "b": 128, "c": 0}
    assert arena.bytes == 256


def test_a_value_takes_the_tightest_gap() -> None:
    # big and mid leave gaps of 128 and 64 bytes around them at step 1; small fits both
    lifetimes = [
        Lifetime("base", 1024, 0, 3),
        Lifetime("wide", 512, 0, 0),
        Lifetime("top", 256, 0, 3),
        Lifetime("half", 384, 2, 3),
        Lifetime("small", 64, 2, 3),
    ]

    arena = plan(lifetimes)

    assert arena.offsets == {"base": 0, "wide": 1024, "half": 1024, "top": 1536, "small": 1408}
    assert arena.bytes == 1792


def test_the_plan_does_not_depend_on_the_order_of_its_input() -> None:
    lifetimes = [Lifetime(name, 64 * size, size % 3, size % 3 + 2) for size, name in enumerate("abcdefg", 1)]

    assert plan(lifetimes) == plan(lifetimes[::-1])


def test_an_empty_plan_needs_no_memory() -> None:
    assert plan([]).bytes == 0


def test_dense_packing_puts_output_lanes_last_and_fills_with_zeros() -> None:
    weight = numbers(3, 2, 1, 2)  # [O, I, KH, KW]

    values = unpacked(weight, Packing("dense", lanes=4, channels=3)).reshape(1, 1, 2, 2, 4)

    # [block][kernel row][kernel column][input channel][lane]; w[o, i, 0, k] = 4 o + 2 i + k
    assert values[0, 0, 1, 0].tolist() == [1, 5, 9, 0]
    assert values[0, 0, 0, 1].tolist() == [2, 6, 10, 0]


def test_matrix_packing_is_the_dense_one_of_the_transpose() -> None:
    weight = numbers(2, 3)  # [K, N]

    values = unpacked(weight, Packing("matrix", lanes=4, channels=3)).reshape(1, 1, 1, 2, 4)

    assert values[0, 0, 0].tolist() == [[0, 1, 2, 0], [3, 4, 5, 0]]


def test_depthwise_packing_puts_channels_last() -> None:
    values = unpacked(numbers(5, 1, 1, 2), Packing("depthwise", lanes=4, channels=5)).reshape(2, 1, 2, 4)

    assert values[0, 0].tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert values[1, 0].tolist() == [[8, 0, 0, 0], [9, 0, 0, 0]]


def test_blocked_packing_of_an_image() -> None:
    values = unpacked(numbers(1, 2, 1, 3), Packing("blocked", lanes=4, channels=2, height=1, width=3))

    assert values.reshape(1, 1, 3, 4)[0, 0].tolist() == [[0, 3, 0, 0], [1, 4, 0, 0], [2, 5, 0, 0]]


def test_equal_weights_in_equal_packings_share_a_segment() -> None:
    first, same = numbers(3, 2, 1, 1), numbers(3, 2, 1, 1)
    dense, blocked = Packing("dense", 16, 3), Packing("blocked", 16, 6)
    uses = [Use(first, dense), Use(same, dense), Use(numbers(6), blocked)]

    file = weights_file(uses)

    assert [(segment.offset, segment.bytes) for segment in file.segments.values()] == [(0, 128), (128, 64)]
    assert len(file.data) == 192


def test_equal_bytes_of_another_shape_are_another_segment() -> None:
    # the packing moves [8, 2] and [8, 1, 1, 2] differently though their bytes and channels agree
    one, other = numbers(8, 2, 1, 1), numbers(8, 1, 1, 2)
    packing = Packing("dense", 8, 8)
    assert one.digest == other.digest

    file = weights_file([Use(one, packing), Use(other, packing)])

    assert len(file.segments) == 2


def test_a_file_without_weights_is_not_empty() -> None:
    assert weights_file([]).data == bytes(64)


def test_an_unknown_packing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no packing"):
        packed(numbers(2), Packing("spiral", 16, 2))
