"""The runtime as shipped for every machine: hardened as read from its bytes, needing nothing, calls checked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.support import device, emulated
from toolchains import disasm, elf, runtime_build, zig
from toolchains.machines import MACHINES
from toolchains.target import Target

LIBRARY, PROGRAM = "libmedia_engine.so", "media-run"
CALLS = {"aarch64": r"blr x\d+", "armv7": r"blx r\d+", "hexagon": r"callr r\d+", "riscv64": r"jalr \w+"}
"""The one call through a register."""


@pytest.fixture(params=emulated.NAMES)
def goal(request: pytest.FixtureRequest) -> Target:
    found = emulated.load(request.param)
    emulated.prefix(found)
    return found


def test_the_products_are_hardened_as_read_from_their_bytes(goal: Target) -> None:
    for name in (LIBRARY, PROGRAM):
        facts = elf.read(device.runtime(goal) / name)

        assert facts.notes == MACHINES[goal.machine].notes
        assert facts.now
        assert not facts.stack_executable
        assert not facts.text_relocations
        assert (facts.search_paths, facts.needed, facts.undefined, facts.foreign_relocations) == ((), (), (), ())
        assert [s.access for s in facts.segments] == ["r--", "r-x", "rw-"]
        writable = facts.segments[-1]
        assert facts.relro == (writable.address, 0x10000)  # a page of 64 KiB, and nothing writable is left
        assert writable.memory_size <= 0x10000


def test_the_library_exports_the_interface_alone(goal: Target) -> None:
    header = (device.runtime(goal) / "media_engine.h").read_text()

    exported = set(elf.read(device.runtime(goal) / LIBRARY).exports) - {"MEDIA_1"}

    assert exported == set(re.findall(r"\b(media_\w+)\(", header))


def test_nothing_names_a_place_of_the_builder(goal: Target) -> None:
    sources = [path for folder in ("src", "program") for path in (device.RUNTIME / folder).iterdir()]
    places = [device.RUNTIME.parent, zig.zig_root(), device.runtime(goal), Path.home()]
    for name in (LIBRARY, PROGRAM):
        data = (device.runtime(goal) / name).read_bytes()
        assert not [place for place in places if os.fsencode(place) in data and len(str(place)) > 5]
        assert not [source.name for source in sources if source.name.encode() in data]
        assert elf.read(device.runtime(goal) / name).paths == ()


def ids(data: bytes) -> Iterator[int]:
    """Addresses of the words before functions: there stand the ids of their types."""
    table = ELFFile(BytesIO(data)).get_section_by_name(".symtab")
    for symbol in table.iter_symbols():
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_value"] >= 4:
            yield symbol["st_value"] - 4


def test_the_only_call_through_a_register_is_the_checked_one(goal: Target) -> None:
    found = {}
    for path in device.objects(goal):
        if path.name == "helpers.o":  # the link keeps only what is called of it
            continue
        code = disasm.scan(path, goal.machine, skip=ids(path.read_bytes()))
        if code.indirect:
            found[path.name] = [branch.text for branch in code.indirect]

    assert list(found) == ["src-call.o"]
    assert len(found["src-call.o"]) == 1
    assert re.fullmatch(CALLS[goal.machine], found["src-call.o"][0])


def test_the_same_bytes_again(goal: Target, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "wörk").mkdir()
    runtime_build.build_runtime(goal, tmp_path / "out", tmp_path / "wörk")

    for name in (LIBRARY, PROGRAM):
        assert (tmp_path / "out" / name).read_bytes() == (device.runtime(goal) / name).read_bytes()
