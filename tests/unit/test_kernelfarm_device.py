"""media.hdr and media.idx: written as the C structs say, read back, and refused when malformed."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kernelfarm import device, digest, golden
from kernelfarm.device import Blob, BlobKind, DeviceIndex, IndexEntry, PayloadHeader, Variant
from kernelfarm.errors import Code, FarmError
from tests.support import device as support
from toolchains import zig

KERNELS = Blob(BlobKind.KERNELS, digest.of_bytes(b"kernels"), 7)
WEIGHTS = Blob(BlobKind.WEIGHTS, digest.of_bytes(b"weights!"), 8)
HEADER = PayloadHeader("x86-64-v4", 62, (Variant(0x3FFFF, 400, 0, 1),), (KERNELS, WEIGHTS))
INDEX = DeviceIndex((IndexEntry(digest.of_bytes(b"a"), 184), IndexEntry(digest.of_bytes(b"b"), 184)))


def code_of(read: type[PayloadHeader] | type[DeviceIndex], data: bytes) -> tuple[Code, str]:
    with pytest.raises(FarmError) as caught:
        read.from_bytes(data)
    return caught.value.code, caught.value.why


def test_a_header_is_written_field_by_field() -> None:
    data = HEADER.to_bytes()

    assert data[:4] == b"KFHD"
    assert struct.unpack_from("<7I", data, 4) == (1, 184, 62, 1, 0 << 24 | 1 << 12 | 0, 1, 2)
    assert data[32:64] == b"x86-64-v4" + bytes(23)
    assert struct.unpack_from("<Q4I", data, 64) == (0x3FFFF, 400, 0, 1, 0)
    assert struct.unpack_from("<2IQ", data, 88) == (1, 0, 7)
    assert data[104:136].hex() == digest.hex_of(KERNELS.digest)
    assert len(data) == 184


def test_an_index_is_written_field_by_field() -> None:
    data = INDEX.to_bytes()

    assert data[:4] == b"KFIX"
    assert struct.unpack_from("<3I", data, 4) == (1, 96, 2)
    assert data[16:48].hex() == digest.hex_of(digest.of_bytes(b"a"))
    assert struct.unpack_from("<Q", data, 48) == (184,)
    assert len(data) == 96


def test_what_was_written_is_read_back() -> None:
    without_weights = replace(HEADER, variants=(Variant(0, 1, 0, None),), blobs=(KERNELS,), ir_version="2.4095.7")

    assert PayloadHeader.from_bytes(HEADER.to_bytes()) == HEADER
    assert PayloadHeader.from_bytes(without_weights.to_bytes()) == without_weights
    assert DeviceIndex.from_bytes(INDEX.to_bytes()) == INDEX


def test_golden_vectors_are_named_once() -> None:
    vectors = Blob(BlobKind.GOLDEN, digest.of_bytes(b"golden"), 6)
    header = replace(HEADER, blobs=(*HEADER.blobs, vectors))

    assert PayloadHeader.from_bytes(header.to_bytes()) == header
    with pytest.raises(FarmError) as caught:
        replace(header, blobs=(*header.blobs, vectors)).to_bytes()
    assert (caught.value.code, caught.value.why) == (Code.DEVICE_FILE_INVALID, "golden vectors twice")


def test_no_change_of_a_byte_is_read_as_the_same_header() -> None:
    data = HEADER.to_bytes()
    for place in range(len(data)):
        other = data[:place] + bytes([data[place] ^ 0x21]) + data[place + 1 :]
        try:
            assert PayloadHeader.from_bytes(other).to_bytes() == other
        except FarmError as refused:
            assert refused.code is Code.DEVICE_FILE_INVALID


@pytest.mark.parametrize("length", [0, 15, 63, 64, 183])
def test_a_cut_header_is_refused(length: int) -> None:
    assert code_of(PayloadHeader, HEADER.to_bytes()[:length])[0] is Code.DEVICE_FILE_INVALID


@pytest.mark.parametrize(
    ("place", "new", "why"),
    [
        (0, b"XFHD", "not a payload header"),
        (4, b"\2", "format version 2, known is 1"),
        (24, b"\0", "number of variants out of range"),
        (28, b"\xff", "number of blobs out of range"),
        (32, b"\0", "target name"),
        (41, b"\0X", "target name"),
        (76, b"\1", "variant without kernels"),
        (80, b"\0", "variant with wrong weights"),
        (84, b"\1", "reserved field in use"),
        (88, b"\4", "blob of unknown kind 4"),
        (92, b"\1", "reserved field in use"),
        (96, bytes(8), "size of a blob out of range"),
    ],
)
def test_a_malformed_header_is_refused_with_the_reason(place: int, new: bytes, why: str) -> None:
    data = HEADER.to_bytes()

    code, said = code_of(PayloadHeader, data[:place] + new + data[place + len(new) :])

    assert code is Code.DEVICE_FILE_INVALID
    assert why in said


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "shorter than its header"),
        (b"X" + INDEX.to_bytes()[1:], "not an index"),
        (INDEX.to_bytes()[:-1], "its size does not fit"),
        (INDEX.to_bytes() + b"\0", "its size does not fit"),
        (b"KFIX" + struct.pack("<3I", 1, 16, 0), "number of payloads out of range"),
        (b"KFIX" + struct.pack("<3I", 1, 56, 1) + bytes(40), "size of a payload header out of range"),
    ],
)
def test_a_malformed_index_is_refused_with_the_reason(data: bytes, why: str) -> None:
    code, said = code_of(DeviceIndex, data)

    assert code is Code.DEVICE_FILE_INVALID
    assert why in said


@pytest.mark.parametrize("target", ["", "a" * 32, "X86", "a b", "ä"])
def test_a_target_name_that_the_device_cannot_hold_is_not_written(target: str) -> None:
    with pytest.raises(FarmError) as caught:
        replace(HEADER, target=target).to_bytes()
    assert caught.value.code is Code.DEVICE_FILE_INVALID


@pytest.mark.parametrize("version", ["1", "1.2", "1.2.3.4", "01.2.3", "256.0.0", "1.4096.0", "1.0.-1", "v1.0.0"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(FarmError) as caught:
        device.pack_version(version)
    assert caught.value.code is Code.DEVICE_FILE_INVALID


def agreement(sizes: dict[str, int]) -> str:
    """A C file that compiles only when the headers say the same as Python."""
    lines = ['#include "kf_abi.h"', '#include "kf_format.h"']
    lines += [f'_Static_assert(sizeof(struct {name}) == {size}, "{name}");' for name, size in sorted(sizes.items())]
    lines += [
        f'_Static_assert(KF_FORMAT_VERSION == {device.FORMAT_VERSION}, "format");',
        f'_Static_assert(KF_ABI_VERSION == {device.ABI_VERSION}, "abi");',
        f'_Static_assert(KF_IR_VERSION == {device.pack_version(device.IR_VERSION)}, "ir");',
        f'_Static_assert(KF_BLOB_KERNELS == {BlobKind.KERNELS}, "kernels");',
        f'_Static_assert(KF_BLOB_WEIGHTS == {BlobKind.WEIGHTS}, "weights");',
        f'_Static_assert(KF_BLOB_GOLDEN == {BlobKind.GOLDEN}, "golden");',
    ]
    return "\n".join(lines) + "\n"


def compile_agreement(folder: Path, sizes: dict[str, int]) -> None:
    (folder / "agree.c").write_text(agreement(sizes), encoding="ascii")
    zig.compile_c(folder / "agree.c", folder / "agree.o", support.TARGET, includes=(str(support.RUNTIME / "include"),))


def test_python_and_c_agree_on_every_struct_and_number(tmp_path: Path) -> None:
    compile_agreement(tmp_path, device.SIZES | golden.SIZES)


def test_a_disagreement_with_c_would_be_seen(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        compile_agreement(tmp_path, {**device.SIZES, "kf_blob": 40})
    assert caught.value.code is Code.TOOL_FAILED
    assert "kf_blob" in caught.value.why
