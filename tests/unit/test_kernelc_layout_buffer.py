"""The blocked layout: extents, halos, and which layout each value of a graph gets."""

from __future__ import annotations

import pytest

from kernelc import fusion
from kernelc.graph import Graph
from kernelc.layout.assign import Layout
from kernelc.layout.buffer import Buffer
from kernelc.layout.geometry import image, is_alias
from kernelc.layout.optimise import lay_out
from kernelc.layout.window import Taps
from kernelc.lowering.pool import segments
from kernelc.schedule.cost import Machine
from kernelfarm.errors import Code, FarmError
from tests.support.backend_graphs import Maker


def layout_of(graph: Graph, lanes: int = 16) -> Layout:
    return lay_out(graph, fusion.group(graph).groups, Machine(lanes, 32, 1 << 20))[1]


def test_buffer_of_odd_channels_has_a_partial_block_and_halo_columns() -> None:
    buffer = Buffer(channels=20, height=5, width=7, lanes=16, left=1, right=2)

    assert buffer.shape == (2, 5, 10, 16)
    assert buffer.bytes == 2 * 5 * 10 * 16 * 4


def test_buffer_with_a_halo_cannot_be_seen_with_other_rows() -> None:
    assert Buffer(16, 4, 6, 16).reshaped(3, 8).shape == (1, 3, 8, 16)
    with pytest.raises(ValueError, match="cannot be seen as"):
        Buffer(16, 4, 6, 16, left=1).reshaped(3, 8)


def test_taps_count_the_pairs_inside_the_image() -> None:
    # 3 x 3 over 4 x 4 with pads of 1: a corner has 4 taps inside, an edge 6, the middle 9
    taps = Taps(3, 3, 1, 1, 1, 1, top=1, left=1, rows=4, outputs=4)

    assert taps.pairs(width=4, outputs=4) == 4 * 4 + 8 * 6 + 4 * 9
    assert not taps.always_inside


WINDOWS = [
    # taps, stride, dilation, left pad, right pad, width
    (3, 1, 1, 1, 1, 8), (3, 2, 1, 1, 0, 7), (5, 3, 2, 4, 3, 9),
    (4, 1, 3, 9, 9, 2), (2, 1, 5, 3, 3, 1), (7, 2, 1, 6, 6, 3),
]  # fmt: skip


@pytest.mark.parametrize(("taps", "stride", "dilation", "left", "right", "width"), WINDOWS)
def test_pairs_and_segments_say_what_each_tap_meets(
    taps: int, stride: int, dilation: int, left: int, right: int, width: int
) -> None:
    outputs = (width + left + right - (taps - 1) * dilation - 1) // stride + 1
    window = Taps(1, taps, 1, stride, 1, dilation, top=0, left=left, rows=1, outputs=1)
    inside = [
        [tap for tap in range(taps) if 0 <= column * stride - left + tap * dilation < width]
        for column in range(outputs)
    ]

    assert window.pairs(width, outputs) == sum(map(len, inside))
    found = [list(range(s.first, s.last)) for s in segments(window, width, outputs) for _ in range(s.start, s.end)]
    assert found == inside


def test_a_window_over_a_huge_image_is_described_at_once() -> None:
    window = Taps(1, 3, 1, 1, 1, 1, top=0, left=1, rows=1, outputs=1)

    assert window.pairs(10**12, 10**12) == 3 * 10**12 - 2
    assert [(s.start, s.end) for s in segments(window, 10**12, 10**12)] == [
        (0, 1), (1, 10**12 - 1), (10**12 - 1, 10**12)
    ]  # fmt: skip


def test_taps_without_pads_stay_inside() -> None:
    assert Taps(3, 3, 2, 2, 1, 1, top=0, left=0, rows=7, outputs=3).always_inside
    assert not Taps(3, 3, 2, 2, 1, 1, top=0, left=0, rows=6, outputs=3).always_inside


@pytest.mark.parametrize(
    ("stride", "dilation", "left", "width", "outputs", "right"),
    [(1, 1, 1, 8, 8, 1), (2, 1, 1, 8, 4, 0), (2, 1, 1, 7, 4, 1), (1, 2, 2, 8, 8, 2), (1, 1, 0, 8, 6, 0)],
)
def test_right_halo_is_what_the_last_column_reads(
    stride: int, dilation: int, left: int, width: int, outputs: int, right: int
) -> None:
    taps = Taps(3, 3, 1, stride, 1, dilation, top=0, left=left, rows=9, outputs=7)

    assert taps.right(width, outputs) == right


def test_halo_of_a_value_is_the_widest_of_its_readers() -> None:
    make = Maker()
    x = make.input(1, 16, 6, 9)
    y = make.node("relu", x)
    first, second = make.conv(y, 16, 3, pads=(1, 1, 1, 1)), make.conv(y, 8, 5, pads=(2, 2, 2, 3))
    graph = make.finish(first, second)

    buffers = layout_of(graph).buffers

    value = graph.nodes[0].outputs[0]
    assert (buffers[value].left, buffers[value].right) == (2, 3)
    assert not buffers["t0"].has_halo


def test_first_layer_reads_plain_channels() -> None:
    make = Maker()
    graph = make.finish(make.conv(make.input(1, 3, 8, 64), 8, 3, pads=(1, 1, 1, 1), strides=(2, 2)))

    buffer = layout_of(graph).buffers["t0"]

    assert buffer == Buffer(3, 8, 64, lanes=1, left=1, right=0)


def test_an_input_with_another_reader_is_blocked() -> None:
    make = Maker()
    x = make.input(1, 20, 8, 8)
    graph = make.finish(make.conv(x, 8, 3), make.node("relu", x))

    assert layout_of(graph).buffers["t0"].lanes > 1


def test_reshape_of_one_pixel_shares_memory() -> None:
    make = Maker()
    pooled = make.node("global_average_pool", make.input(1, 20, 4, 4))
    flat = make.node("reshape", pooled, shape=(1, 20))
    graph = make.finish(make.node("relu", flat))

    layout = layout_of(graph)

    assert layout.roots["t2"] == "t1"
    assert layout.buffers["t2"] == layout.buffers["t1"] == Buffer(20, 1, 1, 16)


def test_reshape_that_moves_channels_has_memory_of_its_own() -> None:
    make = Maker()
    flat = make.node("reshape", make.input(1, 2, 4, 4), shape=(1, 32))
    layout = layout_of(make.finish(make.node("relu", flat)))

    assert layout.roots["t1"] == "t1"
    assert layout.buffers["t1"] == Buffer(32, 1, 1, 16)


def test_a_sequence_is_one_row_of_pixels_and_shares_the_memory_of_such_an_image() -> None:
    make = Maker()
    image_of_one_row = make.node("relu", make.input(1, 20, 1, 9))
    attrs = {"sizes": (9, 20), "strides": (1, 9), "offset": 0, "shape": (1, 9, 20)}
    graph = make.finish(make.node("relu", make.node("rearrange", image_of_one_row, **attrs)))

    layout = layout_of(graph)

    assert layout.roots["t2"] == "t1"
    assert layout.buffers["t2"] == Buffer(20, 1, 9, 16)


def test_a_square_that_is_transposed_does_not_share_memory() -> None:
    make = Maker()
    attrs = {"sizes": (9, 9), "strides": (1, 9), "offset": 0, "shape": (1, 9, 9)}
    graph = make.finish(make.node("rearrange", make.node("relu", make.input(1, 9, 9)), **attrs))

    assert layout_of(graph).roots["t2"] == "t2"


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (2, 3, 4), (1, 2, 3, 4, 5), (3,), ()])
def test_values_of_other_ranks_or_batches_have_no_layout(shape: tuple[int, ...]) -> None:
    make = Maker()
    graph = make.finish(make.node("relu", make.input(*shape)))

    with pytest.raises(FarmError) as error:
        image(graph.tensors["t0"])

    assert error.value.code is Code.LAYOUT_INFEASIBLE
    assert error.value.detail["shape"] == list(shape)


def test_identity_shares_memory() -> None:
    make = Maker()
    x = make.input(1, 20, 3, 3)
    graph = make.finish(make.node("relu", x), make.node("identity", x))

    layout = layout_of(graph)

    assert layout.roots["t2"] == "t0"


@pytest.mark.parametrize(("batch", "detail"), [(2, {"input": "x0"}), (1, {"node": "n0_unsqueeze", "op": "unsqueeze"})])
def test_a_value_without_a_layout_is_named_by_its_input_or_node(batch: int, detail: dict[str, str]) -> None:
    make = Maker()
    x = make.input(batch, 3, 4, 4)
    graph = make.finish(make.node("relu", x if batch > 1 else make.node("unsqueeze", x, axes=(0,))))

    with pytest.raises(FarmError) as error:
        layout_of(graph)

    assert error.value.code is Code.LAYOUT_INFEASIBLE
    assert detail.items() <= error.value.detail.items()


def test_a_move_of_a_value_without_a_layout_names_that_value() -> None:
    make = Maker()
    graph = make.finish(make.node("reshape", make.input(2, 3, 4), shape=(1, 6, 4)))

    with pytest.raises(FarmError) as error:
        is_alias(graph, graph.nodes[0])

    assert error.value.code is Code.LAYOUT_INFEASIBLE
    assert error.value.detail["input"] == "x0"


def test_a_window_too_wide_to_describe_is_refused() -> None:
    make = Maker()
    far = 2**16
    x = make.input(1, 3, 4, 4)
    with pytest.raises(FarmError) as error:
        layout_of(make.finish(make.conv(x, 3, 2, dilations=(1, far), pads=(0, far, 0, far), strides=(1, far))))

    assert error.value.code is Code.OPERATOR_NOT_LOWERED
    assert error.value.detail == {"node": "n0_conv", "op": "conv"}


def test_a_value_made_too_large_by_its_padding_is_refused() -> None:
    make = Maker()
    far = 2**28
    x = make.node("relu", make.input(1, 3, 4, 4))
    with pytest.raises(FarmError) as error:
        layout_of(make.finish(make.conv(x, 3, 1, pads=(0, far, 0, far), strides=(1, far))))

    assert error.value.code is Code.MODEL_TOO_LARGE
    assert error.value.detail == {"node": "n0_relu", "op": "relu"}
