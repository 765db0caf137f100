"""Library and program with one property taken away, for every machine: what the gate of products must refuse."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import device
from tests.support.elf_changes import Layout, dynamic, flags, machine_of, put, relocation, retyped
from toolchains import products, runtime_build, zig
from toolchains.elf import TILE_TYPE, content
from toolchains.machines import MACHINES
from toolchains.products import ProductFacts
from toolchains.properties import ProductProperty, Property
from toolchains.runtime_build import LIBRARY, PROGRAM
from toolchains.target import Target

Damage = Callable[[bytes, ProductFacts], bytes]
Case = tuple[Property | ProductProperty, str, Damage, str]
"""The property, the product, what is done to it, and part of what the gate says."""
GAP = 0x8000
"""File offset of zeros between data and code."""
PADS = {"aarch64": 4, "x86-64": 4}


def offset(facts: ProductFacts, address: int) -> int:
    """Where the byte of an address lies in the file."""
    segment = next(s for s in facts.elf.segments if s.covers(address))
    return segment.offset + address - segment.address


def start(facts: ProductFacts) -> int:
    """A function that the library exports, or the program's entry."""
    return dict(facts.elf.named).get("media_api_version", facts.elf.entry_point)


def plain(change: Callable[[bytes], bytes]) -> Damage:
    """A change that needs no facts."""
    return lambda data, _: change(data)


def code(new: str) -> Damage:
    """Instructions in place of the first ones of a function, behind its landing pad; in hexadecimal, as in memory."""
    return lambda data, facts: put(
        data, offset(facts, start(facts)) + PADS.get(facts.elf.machine, 0), bytes.fromhex(new)
    )


def aimed(opcode: str, target: Callable[[ProductFacts], int]) -> Damage:
    """An instruction of x86-64 that ends in its distance to a place, behind a function's landing pad."""

    def change(data: bytes, facts: ProductFacts) -> bytes:
        first, at = bytes.fromhex(opcode), start(facts) + PADS["x86-64"]
        distance = target(facts) - (at + len(first) + 4)
        return put(data, offset(facts, at), first + distance.to_bytes(4, "little", signed=True))

    return change


def at_call(distance: int, new: str) -> Damage:
    """Bytes so far before the checked call."""
    return lambda data, facts: put(data, offset(facts, facts.code.indirect[0]) - distance, bytes.fromhex(new))


def before(data: bytes, facts: ProductFacts) -> bytes:
    """The type id of a kernel before a function, where its own stood."""
    return put(data, offset(facts, start(facts)) - 4, struct.pack("<I", TILE_TYPE))


def unpadded(data: bytes, facts: ProductFacts) -> bytes:
    """A function without its landing pad."""
    at = start(facts)
    assert content(data, facts.elf.segments, at, 4) in MACHINES[facts.elf.machine].landing_pads
    nop = {"aarch64": b"\x1f\x20\x03\xd5", "x86-64": b"\x90\x90\x90\x90"}[facts.elf.machine]
    return put(data, offset(facts, at), nop)


def noted(bits: bytes) -> Damage:
    """Other bits in the property note."""

    def change(data: bytes) -> bytes:
        number = {"aarch64": 0xC0000000, "x86-64": 0xC0000002}[machine_of(data)]
        return put(data, data.index(struct.pack("<II", number, 4)) + 8, bits)

    return plain(change)


def header(kind: int, new: int) -> Damage:
    """Another kind of program header."""
    return plain(lambda data: put(data, Layout(data).header(kind), struct.pack("<I", new)))


def late(data: bytes) -> bytes:
    """Without the flags that bind all symbols at once."""
    return dynamic(30, value=0)(dynamic(0x6FFFFFFB, value=0)(data))


COMMON: list[Case] = [
    (Property.RELRO, LIBRARY, header(0x6474E552, 0), "no segment is read-only"),
    (Property.NOW, LIBRARY, plain(late), "bound late"),
    (Property.NX_STACK, PROGRAM, plain(flags(0x6474E551, 7)), "may be executable"),
    (Property.NO_WX, PROGRAM, plain(flags(1, 7, number=1)), "writable and executable"),
    (Property.NO_TEXTREL, LIBRARY, plain(dynamic(30, value=12)), "relocations in code"),
    (Property.RELATIVE_ONLY, LIBRARY, plain(retyped("media_engine_info", 10)), "media_engine_info of type STT_LOOS"),
    (Property.NO_SEARCH_PATH, LIBRARY, plain(dynamic(0x6FFFFEF5, new_tag=29, value=1)), "searches "),
    (Property.NO_NEEDED, LIBRARY, plain(dynamic(0x6FFFFEF5, new_tag=1, value=1)), "needs "),
    (Property.EXPORTS, LIBRARY, plain(lambda d: put(d, d.index(b"media_engine_info\0"), b"n")), "nedia_engine_info"),
    (
        Property.NO_BUILD_PATH,
        LIBRARY,
        plain(lambda d: put(d, GAP, b"/somewhere/build/x.so\0")),
        "/somewhere/build/x.so",
    ),
    (Property.NO_BUILD_PATH, PROGRAM, plain(lambda d: put(d, GAP, b"media_run.c\0")), "media_run.c"),
    (Property.KCFI, LIBRARY, before, "a kernel's type id stands at"),
    (ProductProperty.POSITION_INDEPENDENT, PROGRAM, plain(lambda d: put(d, 16, b"\2")), "at one address only"),
    (ProductProperty.POSITION_INDEPENDENT, PROGRAM, header(4, 3), "an interpreter"),
]
RELOCATED: list[Case] = [(Property.RELATIVE_ONLY, LIBRARY, plain(relocation), "type 6")]
GUARDED: list[Case] = [
    (Property.LANDING_PADS, LIBRARY, unpadded, "no landing pad"),
    (Property.LANDING_PADS, PROGRAM, unpadded, "no landing pad"),
    (Property.BRANCH_NOTE, LIBRARY, noted(b"\2"), "is wanted"),
    (Property.RETURN_NOTE, PROGRAM, noted(b"\1"), "is wanted"),
]


def branches(machine: str) -> list[Case]:
    """Indirect branches: one of its own, and the call without its check or with that of another type."""
    own, unchecked, other = {
        "aarch64": ("00001fd6", at_call(8, "02000014"), at_call(16, "7139adf2")),
        "armv7": ("10ff2fe1", at_call(8, "000000ea"), at_call(16, "683433e2")),
        "hexagon": ("00c08052", at_call(4, "00c0007f"), at_call(12, "e1400075")),
        "riscv64": ("02850100", at_call(6, "6f006000"), at_call(10, "9b834330")),
        "x86-64": ("ffe0", at_call(4, "eb02"), at_call(14, "41baf99c3497")),
    }[machine]
    where = Property.NO_INDIRECT_BRANCH
    return [
        (where, LIBRARY, code(own), "it has no check before it"),
        (where, PROGRAM, code(own), "it has no check before it"),
        (where, LIBRARY, unchecked, "it has no check before it"),
        (where, PROGRAM, other, "it has no check before it"),
        (Property.KCFI, PROGRAM, unchecked, "there is no checked call"),
    ]


def features(machine: str) -> list[Case]:
    """Instructions that the oldest supported CPU lacks."""
    found = {
        "aarch64": ("e0e31825", "20fc426e"),  # ptrue of SVE, bfdot
        "armv7": ("11f210e7", "540c02f2"),  # sdiv, vfma
        "hexagon": ("00c0c150",),  # of v73
        "riscv64": ("33f5c540", "57001106"),  # andn, vandn
        "x86-64": ("660f3800c1", "f30fb8c1", "c5f058c1", "62f1744858c2"),  # pshufb, popcnt, vaddps, AVX-512
    }[machine]
    said = "needs" if machine == "x86-64" else "no instruction of" if machine != "hexagon" else ""
    return [(Property.FEATURE_SET, LIBRARY, code(new), "" if new.startswith("62") else said) for new in found]


def built_for(
    monkeypatch: pytest.MonkeyPatch, folder: Path, goal: Target, cpu: str = "", **flags: tuple[str, ...]
) -> Path:
    """The products compiled for another CPU, or with other `flags` of the machine by their field, in a new folder."""
    machine = dataclasses.replace(MACHINES[goal.machine], **flags)  # type: ignore[arg-type]
    monkeypatch.setattr(zig, "MACHINES", {**MACHINES, goal.machine: machine})
    other = dataclasses.replace(goal, cpu=dataclasses.replace(goal.cpu, baseline=cpu or goal.cpu.baseline))
    (folder / "out").mkdir()
    (folder / "work").mkdir()
    runtime_build.build_runtime(other, folder / "out", folder / "work")
    return folder / "out"


def finding(
    folder: Path, goal: Target, name: str, damage: Damage, wanted: Property | ProductProperty
) -> products.Finding:
    """What the gate says of a property of a damaged product."""
    path = device.runtime(goal) / name
    (folder / name).write_bytes(damage(path.read_bytes(), products.inspect(path)))
    report = products.report(goal, products.inspect(folder / name))
    return next(finding for finding in report.findings if finding.property is wanted)


def handing(folder: Path, goal: Target, *defines: str) -> ProductFacts:
    """Facts of runtime/tests/taken.c as a library: what it does with functions, only their address tells."""
    zig.compile_c(
        Path("tests/taken.c"),
        folder / "taken.o",
        goal,
        root=device.RUNTIME,
        cpu=goal.cpu.baseline,
        includes=device.INCLUDES,
        defines=defines,
    )
    script = "MEDIA_1 { global: media_*; local: *; };\n"
    zig.link([folder / "taken.o"], folder / LIBRARY, ["-shared", *MACHINES[goal.machine].link], version_script=script)
    return products.inspect(folder / LIBRARY)


def found_in(goal: Target, facts: ProductFacts, wanted: Property) -> products.Finding:
    """What the gate says of a property."""
    return next(finding for finding in products.report(goal, facts).findings if finding.property is wanted)
