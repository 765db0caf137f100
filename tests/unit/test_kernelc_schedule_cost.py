"""Tiles: balanced covers, the register cliff, and choices by cost."""

from __future__ import annotations

import pytest

from kernelc.lowering.cut import Cut
from kernelc.schedule.cost import (
    ContractionTile,
    Machine,
    Tail,
    contraction_cut,
    contraction_tile,
    depthwise_columns,
    fits,
    narrowed,
)
from kernelc.schedule.sequence import Reduction, sequence
from kernelc.schedule.split import Run, balanced, chunks, powers

AVX512 = Machine(lanes=16, registers=32, l2_bytes=1 << 20)
AVX2 = Machine(lanes=8, registers=16, l2_bytes=1 << 18)


def test_balanced_splits_differ_by_one() -> None:
    assert balanced(13, 6) == (Run(0, 1, 5), Run(5, 2, 4))
    assert balanced(12, 6) == (Run(0, 2, 6),)
    assert balanced(3, 16) == (Run(0, 1, 3),)


@pytest.mark.parametrize("extent", range(1, 60))
@pytest.mark.parametrize("largest", [1, 2, 5, 16])
def test_balanced_splits_cover_everything_once(extent: int, largest: int) -> None:
    covered = [start for run in balanced(extent, largest) for start in range(run.start, run.end)]

    assert covered == list(range(extent))
    assert all(run.size <= largest for run in balanced(extent, largest))


def test_the_last_of_powers_reaches_back_rather_than_be_narrow() -> None:
    assert powers(53, 64) == (Run(0, 1, 32), Run(32, 1, 16), Run(37, 1, 16))
    assert powers(160, 64) == (Run(0, 2, 64), Run(128, 1, 32))
    assert powers(9, 64) == (Run(0, 1, 8), Run(1, 1, 8))
    assert powers(16, 16) == (Run(0, 1, 16),)


@pytest.mark.parametrize("extent", range(1, 90))
def test_powers_cover_everything_and_compute_at_most_one_tile_twice(extent: int) -> None:
    for largest in (4, 16, 64):
        runs = powers(extent, largest)
        covered = [index for run in runs for index in range(run.start, run.end)]
        assert set(covered) == {*range(extent)}
        assert len(covered) - extent < runs[-1].size
        assert all(run.size & (run.size - 1) == 0 and run.size <= largest for run in runs)


def test_chunks_prefer_whole_vectors() -> None:
    assert chunks(75, 32, 16) == (Run(0, 2, 32), Run(64, 1, 11))
    assert chunks(63, 32, 16) == (Run(0, 1, 32), Run(32, 1, 16), Run(48, 1, 15))
    assert chunks(5, 32, 16) == (Run(0, 1, 5),)


@pytest.mark.parametrize("extent", range(1, 80))
def test_chunks_cover_everything_once(extent: int) -> None:
    covered = [index for run in chunks(extent, 32, 8) for index in range(run.start, run.end)]

    assert covered == list(range(extent))


@pytest.mark.parametrize(
    ("machine", "blocks", "columns", "inside"),
    [
        (AVX512, 4, 6, True), (AVX512, 4, 7, False), (AVX512, 1, 16, True), (AVX512, 2, 11, False),
        (AVX2, 4, 3, True), (AVX2, 3, 4, False), (AVX2, 2, 6, False), (AVX2, 2, 5, True),
        (AVX2, 1, 14, True), (AVX2, 1, 15, False),
    ],
)  # fmt: skip
def test_the_register_cliff_is_where_it_was_measured(machine: Machine, blocks: int, columns: int, inside: bool) -> None:
    assert fits(machine, blocks, columns) is inside


def test_a_large_convolution_gets_a_large_tile() -> None:
    tile = contraction_tile(AVX512, steps=576, exits=9, blocks=4, images=[(56, 56)])

    assert tile == ContractionTile(blocks=4, columns=6, height=56, width=56)


def test_one_pixel_gets_one_column() -> None:
    tile = contraction_tile(AVX512, steps=960, exits=1, blocks=80, images=[(1, 1)])

    assert (tile.blocks, tile.columns) == (6, 1)


def test_another_view_of_the_image_is_taken_where_it_is_cheaper() -> None:
    # 7 columns leave half of each tile unused; 49 pixels in one row do not
    tile = contraction_tile(AVX512, steps=960, exits=1, blocks=10, images=[(7, 7), (1, 49)])

    assert (tile.height, tile.width) == (1, 49)


def test_equal_costs_take_the_first_image() -> None:
    images = [(4, 6), (4, 6)]

    assert contraction_tile(AVX2, steps=64, exits=1, blocks=2, images=images).height == 4
    assert contraction_tile(AVX2, steps=64, exits=1, blocks=2, images=[(4, 12), (12, 4)]).width == 12


def test_a_weight_panel_stays_in_the_second_cache() -> None:
    steps = 9 * 512  # one block of 8 lanes: 147456 bytes; two do not fit 256 KiB

    assert contraction_tile(AVX2, steps=steps, exits=9, blocks=64, images=[(7, 7)]).blocks == 1


def test_depthwise_columns_are_a_measured_candidate() -> None:
    assert depthwise_columns(AVX512, taps=9, kernel_width=3, stride=1, width=112) in (7, 8, 10, 14)
    assert depthwise_columns(AVX2, taps=25, kernel_width=5, stride=1, width=96) == 8


def test_each_reduction_is_tiled_once() -> None:
    text = sequence([Reduction(3, 2), Reduction(1, 1), Reduction(3, 2)])

    assert text.count("tile_using_for") == 2
    assert "attributes {reduce_3_2}" in text
    assert "tile_sizes [0, 0, 0, 1, 1]" in text
    assert text.index("reduce_1_1") < text.index("reduce_3_2")


def test_only_matched_generics_are_vectorised() -> None:
    text = sequence([])

    assert "transform.structured.vectorize %all" in text
    assert "vectorize_children" not in text


def test_a_last_block_of_few_channels_is_cut_to_half_the_lanes_where_that_is_faster() -> None:
    machine = Machine(lanes=16, registers=32, l2_bytes=1 << 20, broadcast="memory")

    def cut(channels: int) -> ContractionTile:
        return contraction_cut(machine, steps=864, exits=9, channels=channels, images=[(80, 80)])

    assert cut(24) == ContractionTile(1, 16, 80, 80, Tail(8, 16))
    assert cut(1).tail == Tail(8, 16)
    assert cut(25).tail is None  # nine of sixteen lanes: more than half
    assert cut(32).tail is None


def test_registers_that_are_multiplied_whole_are_never_cut() -> None:
    machine = Machine(lanes=8, registers=16, l2_bytes=1 << 18)

    assert narrowed(machine, 1) == machine
    assert contraction_cut(machine, channels=9, steps=864, exits=9, images=[(80, 80)]).tail is None


def test_a_block_of_several_registers_is_cut_to_those_that_hold_channels() -> None:
    machine = Machine(lanes=4, registers=6, l2_bytes=0, split=4, ports=2)

    assert (narrowed(machine, 1).lanes, narrowed(machine, 1).split, narrowed(machine, 1).registers) == (1, 1, 24)
    assert narrowed(machine, 2).lanes == 2
    assert narrowed(machine, 3) == machine


def test_the_last_block_is_a_run_of_its_own_with_its_tile() -> None:
    cut = Cut(total=5, lanes=16, blocks=4, columns=6, tail=Tail(8, 14))

    assert cut.runs == (Run(0, 1, 4), Run(4, 1, 1))
    assert [cut.tile(run) for run in cut.runs] == [(16, 6), (8, 14)]
    assert cut.text == "4x6,1x14/8"
    assert Cut(1, 16, 1, 16, Tail(8, 16)).text == "1x16/8"
    assert Cut(5, 16, 4, 6).runs == (Run(0, 1, 3), Run(3, 1, 2))
