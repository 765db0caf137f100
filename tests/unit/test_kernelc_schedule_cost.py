"""Tiles: balanced covers, the register cliff, and choices by cost."""

from __future__ import annotations

import pytest

from kernelc.schedule.cost import ContractionTile, Machine, contraction_tile, depthwise_columns, fits
from kernelc.schedule.sequence import Reduction, sequence
from kernelc.schedule.split import Run, balanced, chunks

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
