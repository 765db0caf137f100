"""Where the parts of a linked file come from: objects as the linker took them, sources as the compiler read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelfarm import digest
from kernelfarm.links import Input, Links, Origin
from toolchains import origins, relocatable, sourcelist, target, zig
from toolchains.process import run_tool
from toolchains.zig import Link

V4 = target.load("x86-64-v4")
FLAGS = ("-shared", "-e", "first")


def compiled(folder: Path, name: str, text: str) -> Path:
    (folder / f"{name}.c").write_text(text)
    zig.compile_c(folder / f"{name}.c", folder / f"{name}.o", V4)
    return folder / f"{name}.o"


def inputs(found: Links) -> dict[str, Input]:
    (file,) = found.files
    return {each.name: each for each in file.inputs}


@pytest.mark.parametrize(
    "names", [["a.c"], ["a b.c", "c$d.h"], ["back\\slash.c", "hash#.h"], ["z.c", "a.c", "a.c"]], ids=str
)
def test_a_list_of_sources_is_read_as_it_was_written(tmp_path: Path, names: list[str]) -> None:
    paths = [Path("/some where") / name for name in names]
    sourcelist.write(tmp_path / "x.o", paths)
    assert sourcelist.read(tmp_path / "x.o") == tuple(sorted(set(paths)))


def test_an_object_without_a_list_has_no_sources(tmp_path: Path) -> None:
    assert sourcelist.read(tmp_path / "x.o") == ()


def test_objects_headers_and_what_the_linker_kept(tmp_path: Path) -> None:
    folder = tmp_path / "wörk $1"
    folder.mkdir()
    (folder / "own.h").write_text("#include <stdint.h>\n")
    first = compiled(folder, "first", '#include "own.h"\nint first(void);\nint first(void) { return 1; }\n')
    other = compiled(folder, "other", "int other(void);\nint other(void) { return 2; }\n")
    other.rename(folder / "alone.o")  # away from its list
    made = compiled(folder, "kernel", "int kernel(void);\nint kernel(void) { return 3; }\n")

    link = zig.link([made, first, folder / "alone.o"], folder / "out.so", FLAGS)
    found = origins.document([link], {made})

    each = inputs(found)
    assert {name: one.origin for name, one in each.items()} == {
        "alone.o": Origin.UNKNOWN,
        "first.o": Origin.SOURCES,
        "kernel.o": Origin.MODEL,
    }
    assert each["first.o"].digest == relocatable.kept(first, each["first.o"].sections)
    assert each["first.o"].kept > 0
    assert ".text" in each["first.o"].sections
    assert each["first.o"].sources == ("generated/first.c", "generated/own.h", "zig/lib/include/stdint.h")
    assert each["kernel.o"].sources == ()
    assert "generated/kernel.c" not in each["first.o"].sources
    listed = {source.name: source.digest for source in found.sources}
    assert listed["generated/own.h"] == digest.of_file(folder / "own.h")


def test_a_member_of_an_archive_is_an_input_of_its_own(tmp_path: Path) -> None:
    first = compiled(tmp_path, "first", "int evil(void);\nint first(void);\nint first(void) { return evil(); }\n")
    evil = compiled(tmp_path, "evil", "int evil(void);\nint evil(void) { return 2; }\n")
    run_tool([str(zig.zig_path()), "ar", "rcs", "libgpl.a", evil.name], cwd=tmp_path, what="making an archive")

    link = zig.link([first, tmp_path / "libgpl.a"], tmp_path / "out.so", FLAGS)
    each = inputs(origins.document([link]))

    assert sorted(each) == ["first.o", "libgpl.a(evil.o)"]
    assert each["libgpl.a(evil.o)"].origin is Origin.UNKNOWN
    assert each["libgpl.a(evil.o)"].digest == digest.of_file(tmp_path / "libgpl.a")


def test_an_object_of_which_nothing_was_kept_is_listed_too(tmp_path: Path) -> None:
    made = compiled(tmp_path, "first", "extern int nothing;\n")
    found = origins.document([Link(tmp_path / "out.so", (made,), {})])
    assert (inputs(found)["first.o"].kept, inputs(found)["first.o"].sections) == (0, ())


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("runtime/src/api.c", True),
        ("zig/lib/std/mem.zig", True),
        ("zig/../../secret", False),
        ("runtime/src/none.c", False),
        ("generated/table.c", False),
        ("nothing", False),
    ],
)
def test_a_source_is_found_again_by_its_name(name: str, there: bool) -> None:
    place = origins.place_of(name)
    assert (place is not None) == there
    assert place is None or origins.name_of(place) == name
