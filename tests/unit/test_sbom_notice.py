"""The NOTICE of a payload: what was compiled in, by whom, with the texts that must be passed on."""

from __future__ import annotations

from dataclasses import replace

from kernelfarm import digest
from kernelfarm.links import Input, Linked, Links, Origin, Source
from sbom import declared, notice
from sbom.licence import expression


def links(*names: str) -> Links:
    sources = tuple(Source(name, digest.of_bytes(name.encode()), 1) for name in names)
    made = Input("a.o", digest.of_bytes(b"o"), Origin.SOURCES, 1, (".text",), names)
    return Links((Linked("media-run", (made,)),), sources)


def test_every_group_is_named_with_owner_licence_and_text() -> None:
    text = notice.text(links("zig/lib/std/mem.zig", "runtime/src/api.c", "zig/lib/include/stdint.h")).decode()
    head, _, texts = text.partition("=" * 80)
    assert head == (
        "This payload holds code that was compiled from the following.\n"
        "\nclang-headers by LLVM Foundation\n  Apache-2.0 WITH LLVM-exception\n"
        "\nkernel-farm-runtime by Kernel Farm\n  Apache-2.0\n"
        "\nzig-std by Zig Software Foundation\n  MIT\n\n"
    )
    assert "Copyright (c) Zig contributors" in texts
    assert texts.count("TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION") == 1
    assert "As an exception, if, as a result of your compiling" in texts


def test_what_zigs_own_helpers_took_from_others_is_passed_on() -> None:
    text = notice.text(links("zig/lib/compiler_rt/trig.zig")).decode()
    for owner in ("Copyright © 2005-2020 Rich Felker, et al.", "1993,2004 Sun Microsystems", "Copyright (c) Zig"):
        assert owner in text


def test_the_order_of_sources_means_nothing_and_unused_ones_are_not_named() -> None:
    names = ("zig/lib/std/mem.zig", "runtime/src/api.c")
    unused = Source("zig/lib/include/stdint.h", digest.of_bytes(b"x"), 1)
    found = links(*names)
    more = replace(found, sources=(unused, *found.sources))
    assert notice.text(links(*reversed(names))) == notice.text(found) == notice.text(more)


def test_every_licence_of_linked_sources_has_its_text_or_needs_none() -> None:
    words = {
        word for group in declared.load().groups for one in expression.licences(group.declared.licence)
        for word in one.split() if word != "WITH"
    }  # fmt: skip
    without = {word for word in words if not (notice.TEXTS / f"{word}.txt").is_file()}
    assert without <= {"GPL-2.0-only"}  # of headers of the system call interface: the note says why
