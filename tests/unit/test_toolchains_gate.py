"""The gate: a good kernel object passes; one without a property is refused, with the property named."""

from __future__ import annotations

import contextlib
import random
import re
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kernelfarm.errors import Code, FarmError
from tests.support import device as support
from toolchains import disasm, elf, gate, target, zig
from toolchains.disasm import Branch, VectorUse
from toolchains.properties import Property
from toolchains.target import Target

V3, V4 = target.load("x86-64-v3"), target.load("x86-64-v4")
ID = struct.pack("<I", elf.TILE_TYPE)
PAD = b"\xf3\x0f\x1e\xfa"
TEXT = 0x10000
"""File offset and address of the code, as the linker places it."""


@cache
def built(name: str, *defines: str) -> bytes:
    """The hand-written kernel compiled for a target itself."""
    goal = target.load(name)
    with support.temporary() as made:
        folder = Path(made)
        zig.compile_c(
            Path("tests/kernel.c"),
            folder / "kernel.o",
            goal,
            root=support.RUNTIME,
            includes=support.INCLUDES,
            defines=defines,
        )
        zig.link_kernels([folder / "kernel.o"], folder / "kernels.so", goal)
        return (folder / "kernels.so").read_bytes()


def refusal(folder: Path, data: bytes, goal: Target = V3) -> FarmError:
    (folder / "kernels.so").write_bytes(data)
    with pytest.raises(FarmError) as caught:
        gate.require(goal, gate.inspect(folder / "kernels.so"))
    return caught.value


def headers(data: bytes) -> list[tuple[int, int]]:
    """(offset of the program header, its type)."""
    start, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    return [(start + 56 * k, struct.unpack_from("<I", data, start + 56 * k)[0]) for k in range(count)]


def put(data: bytes, at: int, new: bytes) -> bytes:
    assert data[at : at + len(new)] != new
    return data[:at] + new + data[at + len(new) :]


def set_flags(kind: int, flags: int, number: int = 0) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        at = [at for at, found in headers(data) if found == kind][number]
        return put(data, at + 4, struct.pack("<I", flags))

    return change


def drop_header(kind: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        at = next(at for at, found in headers(data) if found == kind)
        return put(data, at, bytes(4))

    return change


def dynamic(tag: int, new_tag: int | None = None, value: int | None = None) -> Callable[[bytes], bytes]:
    """Replace a dynamic entry's tag or value."""

    def change(data: bytes) -> bytes:
        at = next(at for at, found in headers(data) if found == 2)
        start, size = struct.unpack_from("<Q", data, at + 8)[0], struct.unpack_from("<Q", data, at + 32)[0]
        for place in range(start, start + size, 16):
            found, old = struct.unpack_from("<QQ", data, place)
            if found == tag:
                fresh = struct.pack("<QQ", found if new_tag is None else new_tag, old if value is None else value)
                return put(data, place, fresh)
        raise AssertionError(f"no dynamic entry {tag:#x}")

    return change


def first(pattern: bytes, new: bytes, skip: int = 0) -> Callable[[bytes], bytes]:
    """Replace the first match in the code."""

    def change(data: bytes) -> bytes:
        return put(data, data.index(pattern, TEXT) + skip, new)

    return change


def in_padding(new: bytes) -> Callable[[bytes], bytes]:
    """Put bytes where the code has a long nop."""

    def change(data: bytes) -> bytes:
        at = re.search(rb"\x90{8,}|\xcc{8,}", data[TEXT : TEXT + 0x1000])
        assert at is not None
        return put(data, TEXT + at.start(), new)

    return change


def relocation_type(data: bytes) -> bytes:
    """R_X86_64_GLOB_DAT (6) instead of RELATIVE (8) in the first relocation."""
    at = data.index(struct.pack("<Q", 8), 0x200)
    while struct.unpack_from("<Q", data, at - 8)[0] < 0x20000:
        at = data.index(struct.pack("<Q", 8), at + 1)
    return put(data, at, struct.pack("<Q", 6))


def instruction(new: bytes) -> Callable[[bytes], bytes]:
    """Put an instruction behind the first landing pad."""
    return lambda data: put(data, data.index(ID + PAD, TEXT) + 8, new)


HIDDEN_BRANCH = bytes.fromhex("eb01b8ffe09090")
"""jmp over the first byte of mov $0x9090e0ff, %eax, to jmp *%rax"""
HIDDEN_CALL = bytes.fromhex("eb01b80f059090")
"""The same, to syscall."""

DAMAGE: list[tuple[Property, Callable[[bytes], bytes], str]] = [
    (Property.KCFI, first(ID, b"\0\0\0\0"), "instead of the type id"),
    (Property.KCFI, in_padding(ID), "without an entry behind it"),
    (Property.LANDING_PADS, first(ID + PAD, b"\x90\x90\x90\x90", 4), "no landing pad"),
    (Property.BRANCH_NOTE, lambda data: put(data, data.index(b"\2\0\0\xc0\4\0\0\0") + 8, b"\2"), "ibt is wanted"),
    (Property.RETURN_NOTE, lambda data: put(data, data.index(b"\2\0\0\xc0\4\0\0\0") + 8, b"\1"), "shstk is wanted"),
    (Property.NO_INDIRECT_BRANCH, in_padding(b"\xff\xe0"), "*%rax"),
    (Property.NO_INDIRECT_BRANCH, in_padding(b"\xff\x14\x25\0\0\0\0"), "callq"),
    (Property.NO_INDIRECT_BRANCH, in_padding(b"\x3e\xff\xe1"), "*%rcx"),
    (Property.NO_INDIRECT_BRANCH, instruction(b"\x48\x8d\x05\0\0\0\0"), "the address of code at 0x1001b is taken at"),
    (Property.FEATURE_SET, instruction(b"\x62\xf1\x74\x48\x58\xc2"), "encoded as AVX-512"),
    (Property.FEATURE_SET, instruction(b"\x62\xf1\x74\x28\x58\xc2"), "encoded as AVX-512"),  # on ymm
    (Property.FEATURE_SET, instruction(b"\xc4\xe3\x69\x48\xd9\x40"), "needs xop"),  # XOP
    (Property.FEATURE_SET, instruction(b"\x66\x0f\x38\xdc\xc1"), "needs aes"),
    (Property.FEATURE_SET, instruction(b"\x8f\xea\x78\x10\xc0\0\0\0\0"), "needs tbm"),  # bextr with a constant
    (Property.FEATURE_SET, instruction(b"\x0f\x01\xe8"), "serialize at 0x10014 is not known to be of x86-64-v3"),
    (Property.FEATURE_SET, instruction(b"\x0f\x0d\x10"), "prefetchwt1 (%rax) at"),
    (Property.FEATURE_SET, instruction(b"\x0f\xae\x30"), "xsaveopt (%rax) at"),
    (Property.FEATURE_SET, instruction(b"\x0f\x01\xef"), "wrpkru at"),
    (Property.FEATURE_SET, instruction(b"\x0f\x05"), "syscall at"),
    (Property.NO_INDIRECT_BRANCH, in_padding(b"\x48\xcb"), "lretq at"),
    (Property.NO_INDIRECT_BRANCH, instruction(HIDDEN_BRANCH), "are no instruction"),
    (Property.FEATURE_SET, instruction(HIDDEN_CALL), "no instruction of x86-64-v3"),
    (Property.NO_INDIRECT_BRANCH, instruction(b"\xe9\0\0\0\x10"), "are no instruction"),  # jmp out of all code
    (Property.NO_INDIRECT_BRANCH, instruction(b"\xe9\xf3\xff\xff\xff"), "are no instruction"),  # to the type id
    (Property.NO_INDIRECT_BRANCH, in_padding(b"\x48\xcf"), "iretq at"),
    (Property.RELRO, drop_header(0x6474E552), "no segment is read-only"),
    (Property.NOW, lambda data: dynamic(0x1E, value=0)(dynamic(0x6FFFFFFB, value=0)(data)), "bound late"),
    (Property.NX_STACK, set_flags(0x6474E551, 7), "may be executable"),
    (Property.NX_STACK, drop_header(0x6474E551), "may be executable"),
    (Property.NO_WX, set_flags(1, 7, number=1), "writable and executable"),
    (Property.NO_TEXTREL, dynamic(0x1E, value=12), "relocations in code"),
    (Property.NO_SEARCH_PATH, dynamic(0x6FFFFEF5, new_tag=29, value=1), "searches kf_table"),
    (Property.NO_NEEDED, dynamic(0x6FFFFEF5, new_tag=1, value=1), "needs kf_table"),
    (Property.RELATIVE_ONLY, relocation_type, "type 6"),
    (Property.EXPORTS, lambda data: put(data, 24, struct.pack("<Q", 0x20008)), "the entry point is 0x20008"),
    (
        Property.NO_BUILD_PATH,
        lambda data: put(data, 0x800, b"/somewhere/build/kernel.c\0"),
        "/somewhere/build/kernel.c",
    ),
    *(
        (Property.NO_BUILD_PATH, lambda data, text=text: put(data, 0x800, text + b"\0"), text.decode())
        for text in (
            b"kernel_3.mlir",
            b"C:\\Users\\jo\\kernel.obj",
            b"\\\\share\\kernels",
            b"root@buildbox-7",
            b"clang version 22.1.8",
            b"GCC: (Debian 12.2.0-14) 12.2.0",
        )
    ),
]


@pytest.mark.parametrize("goal", [V3, V4], ids=lambda goal: goal.name)
def test_a_good_kernel_object_has_every_property(tmp_path: Path, goal: Target) -> None:
    (tmp_path / "kernels.so").write_bytes(built(goal.name))

    report = gate.require(goal, gate.inspect(tmp_path / "kernels.so"))

    assert {finding.property for finding in report.findings} == set(Property)
    assert all(finding.holds and finding.evidence for finding in report.findings)
    assert report.entries == 2
    assert [use.register_class for use in report.vectors] == [goal.vector.register_class]


@pytest.mark.parametrize(("lost", "change", "why"), DAMAGE, ids=[f"{d[0].value}-{k}" for k, d in enumerate(DAMAGE)])
def test_an_object_without_a_property_is_refused_by_its_name(
    tmp_path: Path, lost: Property, change: Callable[[bytes], bytes], why: str
) -> None:
    (tmp_path / "kernels.so").write_bytes(change(built("x86-64-v3")))

    report = gate.report(V3, gate.inspect(tmp_path / "kernels.so"))

    found = {finding.property: finding for finding in report.findings}
    assert not found[lost].holds
    assert why in found[lost].evidence


def test_narrow_code_is_refused_where_values_fill_wide_registers(tmp_path: Path) -> None:
    (tmp_path / "kernels.so").write_bytes(built("x86-64-v3"))

    with pytest.raises(FarmError) as caught:
        gate.require(V4, gate.inspect(tmp_path / "kernels.so", wide=True))

    assert caught.value.code is Code.HARDENING_MISSING
    assert caught.value.detail["property"] == "full-width"
    assert "no instruction uses zmm: ymm 12" in caught.value.why


def test_half_a_register_is_enough_where_no_value_fills_more(tmp_path: Path) -> None:
    (tmp_path / "kernels.so").write_bytes(built("x86-64-v3"))

    found = gate.check(Property.FULL_WIDTH, V4, gate.inspect(tmp_path / "kernels.so"))

    assert (found.holds, found.evidence.split(";")[0]) == (True, "ymm 12")


@pytest.mark.parametrize("goal", [V3, V4], ids=lambda goal: goal.name)
def test_a_loop_that_goes_one_by_one_is_refused_whatever_a_branch_that_never_runs_holds(
    tmp_path: Path, goal: Target
) -> None:
    (tmp_path / "kernels.so").write_bytes(built(goal.name, "KF_TEST_SCALAR"))
    facts = gate.inspect(tmp_path / "kernels.so")

    with pytest.raises(FarmError) as caught:
        gate.require(goal, facts)

    assert goal.vector.register_class in {use.register_class for use in facts.code.vectors}
    assert caught.value.detail["property"] == "full-width"
    assert re.fullmatch(r"function 3f6a3c9d00000001\+0x[0-9a-f]+", caught.value.detail["function"])
    assert f"vaddss (%rax,%rdi,4), %xmm0, %xmm0 at {caught.value.detail['offset']:#x}, in a loop" in re.sub(
        r"\(%\w+,%\w+,4\)", "(%rax,%rdi,4)", caught.value.why
    )


def test_a_compilers_name_in_the_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zig, "COMMON", tuple(flag for flag in zig.COMMON if flag != "-fno-ident"))

    error = refusal(tmp_path, built.__wrapped__("x86-64-v3"))

    assert error.detail["property"] == "no-build-path"
    assert "clang version" in error.why


def test_a_section_that_kernels_do_not_need_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain.so").write_bytes(built("x86-64-v3"))
    (tmp_path / "note").write_bytes(b"buildbox")
    objcopy = disasm.objdump_path().with_name("llvm-objcopy")
    subprocess.run([objcopy, "--add-section=.builder=note", "plain.so", "kernels.so"], cwd=tmp_path, check=True)

    error = refusal(tmp_path, (tmp_path / "kernels.so").read_bytes())

    assert (error.detail["property"], error.why) == ("no-build-path", "holds section .builder")


def test_a_fault_is_placed_by_function_and_offset(tmp_path: Path) -> None:
    data = first(ID + PAD, b"\x90\x90\x90\x90", 4)(built("x86-64-v3"))
    (tmp_path / "kernels.so").write_bytes(data)
    facts = gate.inspect(tmp_path / "kernels.so")
    entry = min(facts.elf.entries, key=lambda e: e.address)

    with pytest.raises(FarmError) as caught:
        gate.require(V3, replace(facts, names=((entry.name_hash, "conv_3"),)))

    assert caught.value.detail == {
        "property": "landing-pads",
        "function": "conv_3+0x0",
        "offset": entry.address,
        "target": "x86-64-v3",
    }
    assert "landing-pads in conv_3+0x0" in caught.value.what


def test_code_that_no_disassembler_would_see_is_refused(tmp_path: Path) -> None:
    data = built("x86-64-v3")
    sections, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    text = next(
        at for at in range(sections, sections + 64 * count, 64) if struct.unpack_from("<Q", data, at + 8)[0] == 6
    )

    (tmp_path / "kernels.so").write_bytes(put(data, text + 8, struct.pack("<Q", 2)))  # no longer executable

    report = gate.report(V3, gate.inspect(tmp_path / "kernels.so"))

    found = next(f for f in report.findings if f.property is Property.NO_INDIRECT_BRANCH)
    assert not found.holds
    assert "bytes of code in no section" in found.evidence


def test_a_tensor_may_be_named_like_a_path(tmp_path: Path) -> None:
    data = built("x86-64-v3", "KF_TEST_NAMES=/head/Concat_output_0")

    (tmp_path / "kernels.so").write_bytes(data)

    assert b"/head/Concat_output_0" in data
    assert gate.require(V3, gate.inspect(tmp_path / "kernels.so")).entries == 2


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"not an object at all" * 9, bytes(4096)])
def test_what_is_no_kernel_object_has_a_code(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "kernels.so").write_bytes(data)
    with pytest.raises(FarmError) as caught:
        gate.inspect(tmp_path / "kernels.so")
    assert caught.value.code is Code.ELF_INVALID


def test_a_cut_kernel_object_never_ends_in_a_traceback(tmp_path: Path) -> None:
    data = built("x86-64-v3")
    for length in (63, 64, 600, 0x10000, 0x10100, 0x20040, 0x20200, len(data) - 64):
        (tmp_path / "kernels.so").write_bytes(data[:length])
        with pytest.raises(FarmError) as caught:
            gate.require(V3, gate.inspect(tmp_path / "kernels.so"))
        assert caught.value.code in (Code.ELF_INVALID, Code.TOOL_FAILED, Code.HARDENING_MISSING)


def test_the_report_is_one_json_object(tmp_path: Path) -> None:
    (tmp_path / "kernels.so").write_bytes(built("x86-64-v3"))

    data = gate.report(V3, gate.inspect(tmp_path / "kernels.so")).to_json()

    assert data["schema"] == "hardening/2"
    assert [f["evidence"] for f in data["findings"] if f["property"] == "return-note"] == ["shstk"]


def test_symbol_hashes_are_fnv_1a() -> None:
    assert gate.fnv1a("") == 0xCBF29CE484222325
    assert gate.fnv1a("a") == 0xAF63DC4C8601EC8C


def test_disassembly_is_read_by_the_widest_register_of_a_line() -> None:
    text = """
0000000000010000 <.text>:
   10000: vfmadd231ps   (%rdi), %zmm1, %zmm2
   10006: vextractf128  $0x1, %ymm0, %xmm1
   1000c: jmpq  *%rax
   1000e: callq 0x10000
   10013: <unknown>
   10014: movl  $0x69cb7fc7, %eax   # imm = 0x69CB7FC7
"""
    facts = disasm.parse(text, "x86-64")

    assert facts.instructions == 6
    assert facts.indirect == (Branch(0x1000C, "jmpq *%rax"),)
    assert facts.vectors == (VectorUse("ymm", 1), VectorUse("zmm", 1))
    assert facts.undecoded == (0x10013,)


def test_symbols_in_code_could_hide_it_from_the_disassembler(tmp_path: Path) -> None:
    hidden = put(built("x86-64-v3"), TEXT + 64, b"\xff\xe0")  # jmp *%rax, in what the symbols call data
    (tmp_path / "plain.so").write_bytes(hidden)
    symbols = (f"--add-symbol=data=.text:{at:#x},{kind}" for at, kind in ((62, "object"), (80, "function")))
    objcopy = disasm.objdump_path().with_name("llvm-objcopy")
    subprocess.run([objcopy, *symbols, "plain.so", "kernels.so"], cwd=tmp_path, check=True)

    report = gate.report(V3, gate.inspect(tmp_path / "kernels.so"))

    found = next(f for f in report.findings if f.property is Property.NO_INDIRECT_BRANCH)
    assert not found.holds
    assert "symbols in code" in found.evidence


def test_a_damaged_file_is_read_or_refused_with_a_code(tmp_path: Path) -> None:
    data, draw = built("x86-64-v3"), random.Random(20261129)
    sections = struct.unpack_from("<Q", data, 40)[0]
    places = [*range(64 + 56 * data[56]), *range(0x200, 0x500), *range(sections, len(data))]
    for _ in range(400):
        changed = bytearray(data)
        for at in draw.sample(places, draw.choice((1, 2, 4))):
            changed[at : at + 8] = draw.choice((b"\xff" * 8, bytes(8), draw.randbytes(8), bytes([changed[at] ^ 1])))
        (tmp_path / "kernels.so").write_bytes(changed)
        with contextlib.suppress(FarmError):
            elf.read(tmp_path / "kernels.so")


def test_a_segment_larger_than_its_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    data = built("x86-64-v3")
    at = next(place for place, kind in headers(data) if kind == 1)

    error = refusal(tmp_path, put(data, at + 32, struct.pack("<QQ", 1 << 40, 1 << 40)))

    assert error.code is Code.ELF_INVALID
