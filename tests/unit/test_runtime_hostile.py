"""Hostile bundles: every damage has its code, nothing crashes. The programs run with address checks."""

from __future__ import annotations

import os
import random
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kernelfarm import device as files
from kernelfarm import digest
from kernelfarm.device import DeviceIndex, IndexEntry
from tests.support import device
from tests.support.device import Tiny

OK, SYSTEM, NOT_FOUND, NOT_A_FILE, INDEX, HEADER, SIZE, DIGEST = 0, 4, 5, 6, 7, 8, 9, 10
ABI, IR, MACHINE, CPU, ELF, POLICY, TABLE, NOT_ADMITTED = 11, 12, 13, 14, 16, 17, 18, 19
NAMED = frozenset(range(1, 21))
TABLE_AT = 0x20000
"""File offset of the entry table in the hand-written kernel."""
FUNCTIONS, OPS, OPERANDS, TENSORS = (TABLE_AT + offset for offset in (88, 136, 184, 304))


def probe(*folders: Path, running: bool = False) -> list[int]:
    """The runtime's answer to each folder; a crash would show as a signal."""
    flags = ["--run"] if running else []
    answer = device.run(device.checked_program("probe"), *flags, *folders)
    assert answer.returncode == 0, f"died after {len(answer.stdout.split())} bundles: {answer.stderr}"
    return [int(line) for line in answer.stdout.split()]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return device.write(tmp_path / "bundle", device.tiny())


def header_at(bundle: Path) -> Path:
    return device.blob(bundle, device.tiny().header().to_bytes())


def test_the_untouched_bundle_loads_and_runs(bundle: Path) -> None:
    assert probe(bundle, running=True) == [OK]


def test_every_flip_and_every_cut_of_the_index_is_refused(bundle: Path, tmp_path: Path) -> None:
    data = (bundle / files.INDEX_NAME).read_bytes()
    folders = []
    for number, changed in enumerate(
        [*device.flips(data, range(len(data))), *(data[:n] for n in range(len(data))), data + b"\0"]
    ):
        folder = tmp_path / f"c{number}"
        folder.mkdir()
        (folder / "blobs").symlink_to(bundle / "blobs")
        (folder / files.INDEX_NAME).write_bytes(changed)
        folders.append(folder)

    codes = probe(*folders)

    assert len(codes) == 56 + 56 + 1
    assert set(codes) == {INDEX, SIZE, NOT_FOUND}


@pytest.mark.parametrize("which", ["header", "kernels", "weights"])
def test_flips_of_a_blob_are_seen_by_its_digest(bundle: Path, which: str) -> None:
    tiny = device.tiny()
    data = {"header": tiny.header().to_bytes(), "kernels": tiny.kernels, "weights": tiny.weights}[which]
    place = device.blob(bundle, data)
    for changed in device.flips(data, random.Random(1).sample(range(len(data)), 25)):
        place.write_bytes(changed)
        assert probe(bundle) == [DIGEST]


@pytest.mark.parametrize("which", ["header", "kernels", "weights"])
def test_a_cut_longer_or_missing_blob_has_its_code(bundle: Path, which: str) -> None:
    tiny = device.tiny()
    data = {"header": tiny.header().to_bytes(), "kernels": tiny.kernels, "weights": tiny.weights}[which]
    place = device.blob(bundle, data)
    for changed in (data[:-1], data + b"\0", b""):
        place.write_bytes(changed)
        assert probe(bundle) == [SIZE]
    place.unlink()
    assert probe(bundle) == [NOT_FOUND]


def test_what_is_no_file_is_not_read(bundle: Path) -> None:
    place = device.blob(bundle, device.tiny().kernels)
    place.unlink()
    place.mkdir()
    assert probe(bundle) == [NOT_A_FILE]
    place.rmdir()
    os.mkfifo(place)
    assert probe(bundle) == [NOT_A_FILE]
    place.unlink()
    place.symlink_to(place)
    assert probe(bundle) == [SYSTEM]
    assert probe(bundle / files.INDEX_NAME) == [SYSTEM]  # no folder
    assert probe(bundle.parent) == [NOT_FOUND]  # no index in it


def test_no_change_of_a_header_with_its_right_digest_crashes(tmp_path: Path) -> None:
    tiny = device.tiny()
    data = tiny.header().to_bytes()
    rng = random.Random(2)
    changes = [*device.flips(data, range(len(data))), *(data[:n] for n in range(1, len(data)))]
    changes += [data[:n] + rng.randbytes(4) + data[n + 4 :] for n in range(0, len(data) - 3, 4)]
    folders = [device.write(tmp_path / f"h{k}", tiny, header=changed) for k, changed in enumerate(changes)]

    codes = probe(*folders)

    assert set(codes) <= NAMED | {OK}
    assert {HEADER, SIZE, NOT_FOUND, CPU, ABI, MACHINE} <= set(codes)
    accepted = [changes[k] for k, code in enumerate(codes) if code == OK]
    assert all(files.PayloadHeader.from_bytes(changed) for changed in accepted)  # Python would take them too


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def header_of(kind: int, number: int = 0) -> int:
    """File offset of a program header of the hand-written kernel."""
    data = device.tiny().kernels
    places = range(64, 64 + 56 * struct.unpack_from("<H", data, 56)[0], 56)
    return [at for at in places if struct.unpack_from("<I", data, at)[0] == kind][number]


def data_end() -> int:
    """Address behind the last initialised byte of the data, rounded down to a word."""
    at = header_of(PT_LOAD, 2)
    address, size = struct.unpack_from("<QxxxxxxxxQ", device.tiny().kernels, at + 16)
    return int(address + size) & ~7


def dynamic_of(tag: int) -> int:
    """File offset of a dynamic entry of the hand-written kernel."""
    data = device.tiny().kernels
    start = struct.unpack_from("<Q", data, header_of(2) + 8)[0]
    return next(at for at in range(start, start + 400, 16) if struct.unpack_from("<Q", data, at)[0] == tag)


def relocation(number: int = 0) -> int:
    """File offset of a relocation."""
    data = device.tiny().kernels
    return int(struct.unpack_from("<Q", data, dynamic_of(7) + 8)[0]) + 24 * number


def entry(number: int = 0) -> int:
    """File offset and address of a function of the table."""
    return int(struct.unpack_from("<Q", device.tiny().kernels, relocation(number) + 16)[0])


PT_LOAD, PT_DYNAMIC, STACK, RELRO = 1, 2, 0x6474E551, 0x6474E552

DAMAGED_ELF = {
    "not ELF": (0, b"\x7fELG", ELF),
    "32-bit": (4, b"\1", ELF),
    "big-endian": (5, b"\2", ELF),
    "executable, not shared": (16, b"\2", ELF),
    "another machine": (18, b"\xb7", ELF),
    "segment table behind the end": (32, u64(1 << 40), ELF),
    "segment table wraps around": (32, u64((1 << 64) - 8), ELF),
    "no segments": (56, b"\0\0", ELF),
    "too many segments": (56, b"\xff\xff", ELF),
    "entry point outside": (24, u64(1 << 40), TABLE),
    "entry point in the code": (24, u64(0x10000), TABLE),
    "entry point misaligned": (24, u64(TABLE_AT + 4), TABLE),
}
DAMAGED_SEGMENTS = {
    "writable code": (PT_LOAD, 1, 4, u32(7), POLICY),
    "unreadable code": (PT_LOAD, 1, 4, u32(1), POLICY),
    "a second code segment": (PT_LOAD, 0, 4, u32(5), POLICY),
    "a second writable segment": (PT_LOAD, 0, 4, u32(6), POLICY),
    "no code": (PT_LOAD, 1, 4, u32(4), ELF),
    "larger in the file": (PT_LOAD, 0, 32, u64(1 << 20), ELF),
    "file offset wraps": (PT_LOAD, 0, 8, u64((1 << 64) - 65536), ELF),
    "address far away": (PT_LOAD, 1, 16, u64(1 << 40), ELF),
    "address wraps": (PT_LOAD, 1, 16, u64((1 << 64) - 65536), ELF),
    "memory size wraps": (PT_LOAD, 2, 40, u64((1 << 64) - 1), ELF),
    "two on one page": (PT_LOAD, 1, 16, u64(0), ELF),
    "address and offset apart": (PT_LOAD, 1, 16, u64(0x10010), ELF),
    "read-only with a tail": (PT_LOAD, 0, 40, u64(0x4000), ELF),
    "thread-local storage": (STACK, 0, 0, u32(7), POLICY),
    "an interpreter": (STACK, 0, 0, u32(3), POLICY),
    "executable stack": (STACK, 0, 4, u32(7), POLICY),
    "data that stays writable": (RELRO, 0, 40, u64(0x10), POLICY),
    "no sealed data": (RELRO, 0, 0, u32(0), POLICY),
    "dynamic section outside": (PT_DYNAMIC, 0, 16, u64(0x90000), ELF),
    "dynamic section in the code": (PT_DYNAMIC, 0, 16, u64(0x10000), ELF),
    "dynamic section without end": (PT_DYNAMIC, 0, 32, u64(16), ELF),
}


def codes_of(tmp_path: Path, places: dict[str, tuple[int, bytes, int]]) -> dict[str, int]:
    """The answer to each damage of the kernel object, written under its right digest."""
    folders = [
        device.write(tmp_path / f"d{k}", device.changed(device.tiny(), at, new))
        for k, (at, new, _) in enumerate(places.values())
    ]
    return dict(zip(places, probe(*folders), strict=True))


def test_a_malformed_file_has_its_code(tmp_path: Path) -> None:
    places = {**DAMAGED_ELF, "entry point at the end of the data": (24, u64(data_end() - 80), TABLE)}

    assert codes_of(tmp_path, places) == {name: code for name, (_, _, code) in places.items()}


def test_segments_that_are_never_granted_have_their_code(tmp_path: Path) -> None:
    places = {
        name: (header_of(kind, number) + field, new, code)
        for name, (kind, number, field, new, code) in DAMAGED_SEGMENTS.items()
    }

    assert codes_of(tmp_path, places) == {name: code for name, (_, _, code) in places.items()}


def test_dynamic_entries_and_relocations_that_are_never_granted_have_their_code(tmp_path: Path) -> None:
    soname = dynamic_of(0x6FFFFEF5)
    places = {
        "needs a library": (soname, u64(1), POLICY),
        "has a start function": (soname, u64(12), POLICY),
        "has a search path": (soname, u64(29), POLICY),
        "text relocations": (dynamic_of(30) + 8, u64(12), POLICY),
        "relocations outside": (dynamic_of(7) + 8, u64(1 << 40), ELF),
        "relocations in the code": (dynamic_of(7) + 8, u64(0x10000), ELF),
        "relocation table of odd size": (dynamic_of(8) + 8, u64(25), ELF),
        "endless relocations": (dynamic_of(8) + 8, u64(24 << 40), ELF),
        "relocations of another size": (dynamic_of(9) + 8, u64(16), ELF),
        "a symbol relocation": (relocation() + 8, u64(6), POLICY),
        "a relocation of the code": (relocation(), u64(0x10000), POLICY),
        "a relocation behind the data": (relocation(), u64(data_end()), POLICY),
        "a misaligned relocation": (relocation(), u64(TABLE_AT + 90), POLICY),
        "a relocation that points out": (relocation() + 16, u64(1 << 40), ELF),
        "a relocation that points before": (relocation() + 16, u64((1 << 64) - 8), ELF),
    }

    assert codes_of(tmp_path, places) == {name: code for name, (_, _, code) in places.items()}


def test_a_function_that_must_not_be_called_is_not_admitted(tmp_path: Path) -> None:
    places = {
        "in the middle of one": (relocation() + 16, u64(entry() + 16), NOT_ADMITTED),
        "in the data": (relocation() + 16, u64(TABLE_AT + 88), NOT_ADMITTED),
        "at the end of the code": (relocation() + 16, u64(0x1FFFF), NOT_ADMITTED),
        "another type in the table": (FUNCTIONS + 8, u32(251140989), NOT_ADMITTED),
        "another id before the code": (entry() - 4, u32(251140989), NOT_ADMITTED),
        "no landing pad": (entry(), b"\x90\x90\x90\x90", NOT_ADMITTED),
        "null": (relocation(), u64(TABLE_AT + 0x2E8), NOT_ADMITTED),
    }

    assert codes_of(tmp_path, places) == {name: code for name, (_, _, code) in places.items()}


def test_a_malformed_table_has_its_code(tmp_path: Path) -> None:
    places = {
        "magic": (TABLE_AT, b"X", TABLE),
        "size beyond the data": (TABLE_AT + 4, u32(1 << 20), TABLE),
        "size of nothing": (TABLE_AT + 4, u32(0), TABLE),
        "ABI": (TABLE_AT + 8, u32(2), ABI),
        "major IR version": (TABLE_AT + 15, b"\1", IR),
        "functions beyond the table": (TABLE_AT + 16, u32(50), TABLE),
        "operations wrap around": (TABLE_AT + 20, u32(0x10000000), TABLE),
        "operands beyond the table": (TABLE_AT + 24, u32(60), TABLE),
        "too many tensors": (TABLE_AT + 28, u32(400), TABLE),
        "offset of functions": (TABLE_AT + 32, u32(0xFFFFFFF8), TABLE),
        "misaligned operations": (TABLE_AT + 36, u32(137), TABLE),
        "strings beyond the table": (TABLE_AT + 52, u32(4096), TABLE),
        "huge arena": (TABLE_AT + 56, u64(1 << 41), TABLE),
        "small arena": (TABLE_AT + 56, u64(64), TABLE),
        "weights of another size": (TABLE_AT + 64, u64(8192), TABLE),
        "alignment": (TABLE_AT + 80, u32(32), TABLE),
        "operation of no function": (OPS, u32(2), TABLE),
        "operation with too many operands": (OPS + 8, u32(6), TABLE),
        "operation without parts": (OPS + 16, u64(0), TABLE),
        "operation with endless parts": (OPS + 16, u64(1 << 63), TABLE),
        "operand of no space": (OPERANDS, u32(4), TABLE),
        "operand of no input": (OPERANDS + 4, u32(1), TABLE),
        "operand wraps around": (OPERANDS + 8, u64((1 << 64) - 64), TABLE),
        "operand beyond the weights": (OPERANDS + 24 + 8, u64(64), TABLE),
        "operand misaligned": (OPERANDS + 48 + 8, u64(4), TABLE),
        "operand beyond the arena": (OPERANDS + 48 + 16, u64(4097), TABLE),
        "tensor name outside": (TENSORS, u32(24), TABLE),
        "tensor without a name": (TENSORS + 4, u32(0), TABLE),
        "tensor type": (TENSORS + 8, u32(2), TABLE),
        "tensor rank": (TENSORS + 12, u32(9), TABLE),
        "tensor direction": (TENSORS + 16, u32(2), TABLE),
        "tensor dimension zero": (TENSORS + 24, u64(0), TABLE),
        "tensor dimension negative": (TENSORS + 24, u64((1 << 64) - 1), TABLE),
        "tensor sizes overflow": (TENSORS + 24, u64(1 << 62), TABLE),
        "dimension beyond the rank": (TENSORS + 40, u64(1), TABLE),
        "tensor bytes": (TENSORS + 88, u64(4092), TABLE),
        "no output": (TENSORS + 128 + 16, u32(0), TABLE),
    }

    assert codes_of(tmp_path, places) == {name: code for name, (_, _, code) in places.items()}


@pytest.mark.parametrize("region", [range(0x360), range(TABLE_AT, TABLE_AT + 0x308)], ids=["headers", "table"])
def test_no_flip_of_the_kernel_object_with_its_right_digest_crashes(tmp_path: Path, region: range) -> None:
    tiny = device.tiny()
    codes = []
    for start in range(region.start, region.stop, 128):
        places = range(start, min(start + 128, region.stop))
        folders = [
            device.write(tmp_path / f"k{k}", replace(tiny, kernels=changed))
            for k, changed in enumerate(device.flips(tiny.kernels, places))
        ]
        codes += probe(*folders)
        for folder in folders:
            shutil.rmtree(folder)

    assert len(codes) == len(region)
    assert set(codes) <= NAMED | {OK}
    assert len(set(codes) - {OK}) >= 3


def named(name: bytes) -> Tiny:
    """The tiny payload with another name of its input; the strings lie where a quantised tensor has its parameters."""
    data, strings, room = bytearray(device.tiny().kernels), TENSORS + 96, 32
    assert len(name) < room
    data[strings : strings + len(name)] = name
    data[strings + room - 1] = ord("y")
    struct.pack_into("<2I", data, TABLE_AT + 48, strings - TABLE_AT, room)
    struct.pack_into("<2I", data, TENSORS, 0, len(name))
    struct.pack_into("<2I", data, TENSORS + 128, room - 1, 1)
    return replace(device.tiny(), kernels=bytes(data))


def test_a_tensor_s_name_is_text_without_control_characters(tmp_path: Path) -> None:
    good = ["x", "ü", "中", "\U0001f600", "a=b", "\u00a0", "\ufffd"]
    bad = [b"\x00", b"\n", b"\x1b[", b"\x7f", b"\xc2\x9b", b"\x80", b"\xc3", b"\xc0\xaf", b"\xe0\x80\xaf"]
    bad += [b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x80\x80\x80", b"\xff", b"\xe4\xb8", b"x\xf5"]
    names = [*(text.encode() for text in good), *bad]
    folders = [device.write(tmp_path / f"n{k}", named(name)) for k, name in enumerate(names)]

    assert probe(*folders) == [OK] * len(good) + [TABLE] * len(bad)


def test_an_index_of_many_payloads_is_bounded(bundle: Path) -> None:
    entries = tuple(IndexEntry(digest.of_bytes(bytes([k % 251])), 184) for k in range(1024))
    data = bytearray(DeviceIndex(entries).to_bytes())
    (bundle / files.INDEX_NAME).write_bytes(data)
    assert probe(bundle) == [NOT_FOUND]
    data += bytes(40)
    struct.pack_into("<2I", data, 8, len(data), 1025)
    (bundle / files.INDEX_NAME).write_bytes(data)
    assert probe(bundle) == [INDEX]


def test_weights_of_another_size_than_the_table_says_are_refused(tmp_path: Path) -> None:
    short = Tiny(device.tiny().kernels, weights=device.WEIGHTS[:-64])

    assert probe(device.write(tmp_path / "bundle", short)) == [TABLE]
