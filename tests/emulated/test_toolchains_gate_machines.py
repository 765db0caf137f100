"""The gate on every machine: a good kernel object passes, and one without a property is refused for that property.

The disassembler of riscv64 and hexagon comes with the emulators, hence the level.
"""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import pytest

from kernelfarm.errors import Code, FarmError, Status
from tests.support import device, emulated
from tests.support.elf_changes import Change, Layout, dynamic, flags, machine_of, put, relocation
from toolchains import disasm, emulator, gate, zig
from toolchains.elf import TILE_TYPE
from toolchains.properties import Property

ID = struct.pack("<I", TILE_TYPE)
TEXT, TABLE = 0x10000, 0x20000
"""File offsets and addresses of code and table, as the linker places them."""
VECTORS = ("-ffast-math",)
"""With it, clang uses NEON on armv7, whose arithmetic flushes small numbers."""


@cache
def built(name: str, *flags: str) -> bytes:
    """The hand-written kernel compiled for a target itself."""
    goal = emulated.load(name)
    emulated.prefix(goal)
    with device.temporary() as made:
        folder = Path(made)
        zig.compile_c(
            Path("tests/kernel.c"),
            folder / "kernel.o",
            goal,
            root=device.RUNTIME,
            includes=device.INCLUDES,
            extra=flags or VECTORS,
        )
        zig.link_kernels([folder / "kernel.o", *device.helpers(goal)], folder / "kernels.so", goal)
        return (folder / "kernels.so").read_bytes()


def code(new: str) -> Change:
    """Put an instruction in place of the first one of a function, on aarch64 of the one behind the landing pad."""
    return lambda data: put(
        data, data.index(ID, TEXT) + (8 if machine_of(data) == "aarch64" else 4), bytes.fromhex(new)[::-1]
    )


COMMON: list[tuple[Property, Change, str]] = [
    (Property.KCFI, lambda data: put(data, data.index(ID, TEXT), bytes(4)), "instead of the type id"),
    (Property.KCFI, lambda data: put(data, data.index(ID, TEXT) + 12, ID), "without an entry behind it"),
    (Property.RELRO, lambda data: put(data, Layout(data).header(0x6474E552), bytes(4)), "no segment is read-only"),
    (Property.NOW, lambda data: dynamic(30, value=0)(dynamic(0x6FFFFFFB, value=0)(data)), "bound late"),
    (Property.NX_STACK, flags(0x6474E551, 7), "may be executable"),
    (Property.NO_WX, flags(1, 7, number=1), "writable and executable"),
    (Property.NO_TEXTREL, dynamic(30, value=12), "relocations in code"),
    (Property.NO_SEARCH_PATH, dynamic(0x6FFFFEF5, new_tag=29, value=1), "searches kf_table"),
    (Property.NO_NEEDED, dynamic(0x6FFFFEF5, new_tag=1, value=1), "needs kf_table"),
    (Property.RELATIVE_ONLY, relocation, "type 6"),
    (Property.EXPORTS, lambda data: put(data, 24, struct.pack("<I", TABLE + 8)), "the entry point is 0x20008"),
    (Property.NO_BUILD_PATH, lambda data: put(data, 0x800, b"/somewhere/build/kernel.c\0"), "/somewhere/build"),
]
NOTE = b"\0\0\0\xc0\4\0\0\0"
"""GNU_PROPERTY_AARCH64_FEATURE_1_AND, four bytes."""
OWN: dict[str, list[tuple[Property, Change, str]]] = {
    "aarch64": [
        (Property.LANDING_PADS, lambda d: put(d, d.index(ID, TEXT) + 4, b"\x1f\x20\x03\xd5"), "no landing pad"),
        (Property.BRANCH_NOTE, lambda d: put(d, d.index(NOTE) + 8, b"\2"), "bti is wanted"),
        (Property.RETURN_NOTE, lambda d: put(d, d.index(NOTE) + 8, b"\1"), "pac is wanted"),
        (Property.NO_INDIRECT_BRANCH, code("d61f0000"), "br x0 at"),
        (Property.NO_INDIRECT_BRANCH, code("d63f0020"), "blr x1 at"),
        (Property.NO_INDIRECT_BRANCH, code("d65f0020"), "ret x1 at"),
        (Property.NO_INDIRECT_BRANCH, code("d71f0801"), "braa x0, x1 at"),
        (Property.NO_INDIRECT_BRANCH, code("10000020"), "the address of code at"),  # adr x0, to what is behind
        (Property.NO_INDIRECT_BRANCH, code("90000000"), "the address of code at 0x10000 is taken"),  # adrp
        (Property.NO_INDIRECT_BRANCH, code("14100000"), "are no instruction"),  # b out of all code
        (Property.NO_INDIRECT_BRANCH, code("ffffffff"), "are no instruction"),
        (Property.FEATURE_SET, code("2518e3e0"), "no instruction of cortex-a76"),  # ptrue: SVE
        (Property.FEATURE_SET, code("6e42fc20"), "no instruction of cortex-a76"),  # bfdot
        (Property.FEATURE_SET, code("4e284820"), "no instruction of cortex-a76"),  # aese: optional
        (Property.FEATURE_SET, code("d50330ff"), "asks something of the system"),  # sb, as LLVM reads it
        (Property.FEATURE_SET, code("d4000001"), "svc #0 at"),
    ],
    "armv7": [
        (Property.NO_INDIRECT_BRANCH, code("e12fff10"), "bx r0 at"),
        (Property.NO_INDIRECT_BRANCH, code("e12fff33"), "blx r3 at"),
        (Property.NO_INDIRECT_BRANCH, code("e12fff21"), "bxj r1 at"),
        (Property.NO_INDIRECT_BRANCH, code("e1a0f000"), "mov pc, r0 at"),
        (Property.NO_INDIRECT_BRANCH, code("e590f000"), "ldr pc, [r0] at"),
        (Property.NO_INDIRECT_BRANCH, code("e8908002"), "ldm r0, {r1, pc} at"),
        (Property.NO_INDIRECT_BRANCH, code("e081f002"), "add pc, r1, r2 at"),
        (Property.NO_INDIRECT_BRANCH, code("e24f0004"), "the address of code at"),  # sub r0, pc, #4
        (Property.NO_INDIRECT_BRANCH, code("fa000000"), "blx "),  # to Thumb code, which is not read
        (Property.NO_INDIRECT_BRANCH, code("ea100000"), "are no instruction"),  # b out of all code
        (Property.NO_INDIRECT_BRANCH, code("ffffffff"), "are no instruction"),
        (Property.FEATURE_SET, code("e710f211"), "no instruction of cortex-a9"),  # sdiv
        (Property.FEATURE_SET, code("f2020c54"), "no instruction of cortex-a9"),  # vfma
    ],
    "riscv64": [
        (Property.NO_INDIRECT_BRANCH, code("00018502"), "jr a0 at"),
        (Property.NO_INDIRECT_BRANCH, code("000500e7"), "jalr a0 at"),
        (Property.NO_INDIRECT_BRANCH, code("00430067"), "jr 0x4(t1) at"),
        (Property.NO_INDIRECT_BRANCH, code("00000317"), "the address of code at"),  # auipc t1, 0
        (Property.NO_INDIRECT_BRANCH, code("7ff7f06f"), "are no instruction"),  # j out of all code
        (Property.NO_INDIRECT_BRANCH, code("850205370060006f"), "are no instruction"),  # j into lui, to jr a0
        (Property.NO_INDIRECT_BRANCH, code("ffffffff"), "are no instruction"),
        (Property.FEATURE_SET, code("40c5f533"), "no instruction of generic-rv64"),  # andn: Zbb
        (Property.FEATURE_SET, code("06110057"), "no instruction of generic-rv64"),  # vandn: Zvbb
    ],
    "hexagon-v67": [
        (Property.NO_INDIRECT_BRANCH, code("5280c000"), "jumpr r0 at"),
        (Property.NO_INDIRECT_BRANCH, code("50a1c000"), "callr r1 at"),
        (Property.NO_INDIRECT_BRANCH, code("5342c000"), "if (p0) jumpr:nt r2 at"),
        (Property.NO_INDIRECT_BRANCH, code("52a3c000"), "hintjr(r3) at"),
        (Property.NO_INDIRECT_BRANCH, code("6a49c200"), "the address of code at"),  # r0 = add(pc,#4)
        (Property.NO_INDIRECT_BRANCH, code("5820c000"), "are no instruction"),  # jump out of all code
        (Property.NO_INDIRECT_BRANCH, code("7f00c0007f0040005800c004"), "are no instruction"),  # into a packet
        (Property.FEATURE_SET, code("1c42c100"), "no instruction of hexagonv67"),  # HVX
        (Property.FEATURE_SET, code("50c1c000"), "no instruction of hexagonv67"),  # v73
    ],
}
CASES = [(name, *case) for name in emulated.NAMES for case in (*COMMON, *OWN[name])]
CONSTANT = code("e24f000c")
"""sub r0, pc, #12: the address of the word before the function, which never runs."""


def findings(folder: Path, name: str, data: bytes) -> dict[Property, gate.Finding]:
    (folder / "kernels.so").write_bytes(data)
    report = gate.report(emulated.load(name), gate.inspect(folder / "kernels.so"))
    return {finding.property: finding for finding in report.findings}


def test_armv7_may_take_the_address_of_a_constant_among_the_code(tmp_path: Path) -> None:
    data = CONSTANT(built("armv7"))

    found = findings(tmp_path, "armv7", data)[Property.NO_INDIRECT_BRANCH]

    assert found.holds
    assert len(gate.inspect(tmp_path / "kernels.so").code.taken) == 1


@pytest.mark.parametrize("name", emulated.NAMES)
def test_a_good_kernel_object_has_every_property_that_its_target_requires(tmp_path: Path, name: str) -> None:
    goal = emulated.load(name)
    (tmp_path / "kernels.so").write_bytes(built(name))

    report = gate.require(goal, gate.inspect(tmp_path / "kernels.so"))

    assert {finding.property for finding in report.findings} == set(goal.hardening.required)
    assert {*goal.hardening.required, *report.impossible} == set(Property)
    assert report.entries == 2
    if goal.vector.register_class:
        assert goal.vector.register_class in {use.register_class for use in report.vectors}


@pytest.mark.parametrize(
    ("name", "lost", "change", "why"), CASES, ids=[f"{c[0]}-{c[1].value}-{k}" for k, c in enumerate(CASES)]
)
def test_an_object_without_a_property_is_refused_by_its_name(
    tmp_path: Path, name: str, lost: Property, change: Change, why: str
) -> None:
    finding = findings(tmp_path, name, change(built(name)))[lost]

    assert not finding.holds
    assert why in finding.evidence


@pytest.mark.parametrize("name", ["aarch64", "armv7", "riscv64"])
def test_loops_that_go_one_by_one_are_refused_where_the_target_has_vectors(tmp_path: Path, name: str) -> None:
    (tmp_path / "kernels.so").write_bytes(built(name, "-DKF_TEST_SCALAR"))
    facts, goal = gate.inspect(tmp_path / "kernels.so"), emulated.load(name)

    finding = gate.check(Property.FULL_WIDTH, goal, facts)

    assert not finding.holds
    assert f"in a loop, does not fill {goal.vector.register_class}" in finding.evidence
    assert finding.function.startswith("function 3f6a3c9d0000000")
    assert goal.vector.register_class in {use.register_class for use in facts.code.vectors}  # in the other branch


FOREIGN = [
    ("riscv64", ("-march=rv64gcv_zba",), "(float)(begin+end*4)"),  # sh2add
    ("riscv64", ("-march=rv64gcv_zbb",), "(float)(begin&~end)"),  # andn
    ("riscv64", ("-march=rv64gcv_zicond",), "(float)(begin>7?end:0)"),  # czero.nez
    ("armv7", ("-mcpu=cortex-a15",), "(float)((unsigned)begin/(unsigned)(end+3))"),  # udiv
    ("aarch64", ("-march=armv8.7-a+cssc",), "(float)__builtin_ctzll(begin+end)"),  # ctz
]
"""The target, flags for a later processor, and what clang needs its instructions for."""


@pytest.mark.parametrize(("name", "flags", "scale"), FOREIGN, ids=[f"{case[0]}-{k}" for k, case in enumerate(FOREIGN)])
def test_code_for_a_later_processor_is_refused_whatever_the_file_says_of_itself(
    tmp_path: Path, name: str, flags: tuple[str, ...], scale: str
) -> None:
    assert findings(tmp_path, name, built(name, "-ffp-contract=off", f"-DSCALE={scale}"))[Property.FEATURE_SET].holds

    finding = findings(tmp_path, name, built(name, *flags, f"-DSCALE={scale}"))[Property.FEATURE_SET]

    assert not finding.holds
    assert "no instruction of" in finding.evidence


def test_without_the_second_disassembler_the_gate_says_what_is_missing_and_passes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels.so").write_bytes(built("riscv64"))
    disasm.objdump_path.cache_clear()
    monkeypatch.setattr(emulator, "find", lambda *_: None)

    with pytest.raises(FarmError) as caught:
        gate.inspect(tmp_path / "kernels.so")

    disasm.objdump_path.cache_clear()
    assert (caught.value.code, caught.value.status) == (Code.TOOL_MISSING, Status.ENVIRONMENT)
    assert "make tools" in caught.value.next_step


def test_another_version_of_the_disassembler_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels.so").write_bytes(built("riscv64"))
    disasm.objdump_path.cache_clear()
    monkeypatch.setattr(disasm, "DEBIAN_VERSION", "19.1.8")

    with pytest.raises(FarmError) as caught:
        gate.inspect(tmp_path / "kernels.so")

    disasm.objdump_path.cache_clear()
    assert (caught.value.code, caught.value.status) == (Code.TOOL_CHANGED, Status.ENVIRONMENT)
