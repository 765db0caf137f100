"""golden.bin: written as kf_format.h says, read back, refused when malformed."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from kernelfarm.errors import Code, FarmError
from kernelfarm.golden import Case, Golden

ONE, TWO = struct.pack("<3f", 1, 2, 3), struct.pack("<3f", 4, 5, 6)
VECTORS = Golden((16, 8), (12,), (Case((7, 8), (ONE,)), Case((9, 10), (TWO,))))


def fault(data: bytes) -> str:
    with pytest.raises(FarmError) as caught:
        Golden.from_bytes(data)
    assert caught.value.code is Code.DEVICE_FILE_INVALID
    return caught.value.why


def test_vectors_are_written_field_by_field() -> None:
    data = VECTORS.to_bytes()

    assert data[:4] == b"KFGV"
    assert struct.unpack_from("<IQ4I", data, 4) == (1, 120, 2, 2, 1, 0)
    assert struct.unpack_from("<2f", data, 32) == tuple(struct.unpack("<2f", struct.pack("<2f", 1e-4, 1e-3)))
    assert struct.unpack_from("<3Q", data, 40) == (16, 8, 12)
    assert struct.unpack_from("<4Q", data, 64) == (7, 8, 9, 10)
    assert struct.unpack_from("<6f", data, 96) == (1, 2, 3, 4, 5, 6)
    assert len(data) == 120


def test_what_was_written_is_read_back() -> None:
    data = VECTORS.to_bytes()
    found = Golden.from_bytes(data)

    assert (found.inputs, found.outputs, found.cases) == ((16, 8), (12,), VECTORS.cases)
    assert found.to_bytes() == data


def test_no_change_of_a_byte_is_read_as_the_same_vectors() -> None:
    data = VECTORS.to_bytes()
    for place in range(len(data)):
        other = data[:place] + bytes([data[place] ^ 0x21]) + data[place + 1 :]
        try:
            assert Golden.from_bytes(other).to_bytes() == other
        except FarmError as refused:
            assert refused.code is Code.DEVICE_FILE_INVALID


@pytest.mark.parametrize("length", [0, 39, 40, 95, 119])
def test_a_cut_file_is_refused(length: int) -> None:
    assert fault(VECTORS.to_bytes()[:length])


@pytest.mark.parametrize(
    ("place", "new", "why"),
    [
        (0, b"X", "not golden vectors"),
        (4, b"\2", "format version 2, known is 1"),
        (8, b"\1", "its size does not fit its tables"),
        (16, bytes(4), "number of cases out of range"),
        (24, bytes(4), "number of tensors out of range"),
        (28, b"\1", "reserved field in use"),
        (32, struct.pack("<f", float("nan")), "a tolerance out of range"),
        (40, bytes(8), "size of a tensor out of range"),
        (40, struct.pack("<Q", 14), "size of a tensor out of range"),
        (56, struct.pack("<Q", 8), "its size does not fit its tensors"),
    ],
)
def test_malformed_vectors_are_refused_with_the_reason(place: int, new: bytes, why: str) -> None:
    data = VECTORS.to_bytes()

    assert fault(data[:place] + new + data[place + len(new) :]) == why


@pytest.mark.parametrize(
    "wrong",
    [
        replace(VECTORS, cases=()),
        replace(VECTORS, outputs=()),
        replace(VECTORS, inputs=(16,)),
        replace(VECTORS, relative=1.0),
        replace(VECTORS, cases=(Case((7, 1 << 64), (ONE,)),)),
    ],
)
def test_what_no_device_would_take_is_not_written(wrong: Golden) -> None:
    with pytest.raises(FarmError) as caught:
        wrong.to_bytes()
    assert caught.value.code is Code.DEVICE_FILE_INVALID


def test_vectors_fit_a_config_of_the_same_tensors_only() -> None:
    config = {"inputs": [{"shape": [2, 2]}, {"shape": [2]}], "outputs": [{"shape": [3]}]}

    VECTORS.require_fits(config)
    with pytest.raises(FarmError) as caught:
        VECTORS.require_fits(config | {"outputs": [{"shape": [4]}]})
    assert caught.value.why == "its outputs have 12 bytes, those of the model 16"
