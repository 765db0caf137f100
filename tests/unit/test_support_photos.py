"""The photographs that detectors are tried with are real ones, read exactly."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tests.support import photos
from tests.support.models import PackagedModel


@pytest.mark.parametrize(
    ("photo", "shape", "wanted"),
    [
        (photos.SCENES[0], (512, 512, 3), "a8c429c18afa7b0f"),
        (photos.PAGES[0], (191, 384, 1), "667bfd85aab58052"),
    ],
)
def test_a_photograph_is_read_as_other_readers_do(photo: PackagedModel, shape: tuple[int, ...], wanted: str) -> None:
    pixels = photos._read(photo)

    assert pixels.shape == shape
    assert hashlib.sha256(pixels.tobytes()).hexdigest()[:16] == wanted  # of Pillow's pixels


def test_it_is_cut_from_the_middle_and_scaled() -> None:
    whole = photos._read(photos.SCENES[0])

    np.testing.assert_array_equal(photos.scene(0, 512, 512)[0].transpose(1, 2, 0), whole)
    assert photos.scene(0, 160, 320).shape == (1, 3, 160, 320)
    np.testing.assert_array_equal(photos.page(2, 64, 64)[0], photos.page(0, 64, 64)[0, :, ::-1, ::-1])
