"""What publishers declare: the one table covers every pin, and agrees with the wheels that declare it themselves."""

from __future__ import annotations

from importlib import metadata

import pytest

from containers.image import pins
from kernelfarm import digest
from sbom import declared
from sbom.image import Lock
from sbom.making import LIBRARIES, source_digest
from toolchains import tools

TABLE = declared.load()
WHEELS = sorted({*tools.PINNED, *LIBRARIES})


@pytest.mark.parametrize("name", WHEELS)
def test_every_tool_is_declared_as_its_own_wheel_says(name: str) -> None:
    found = TABLE.package("pypi", name)
    assert found.licence
    assert found.supplier
    own = metadata.metadata(name).get("License-Expression")
    assert own is None or own == found.licence


@pytest.mark.parametrize("pin", pins.load().packages, ids=str)
def test_every_package_of_the_image_is_declared(pin: pins.Pin) -> None:
    found = TABLE.package({"deb": "deb", "wheel": "pypi"}[pin.kind], pin.name)
    assert found.licence
    assert found.supplier


@pytest.mark.parametrize(
    ("source", "group", "licence"),
    [
        ("runtime/src/api.c", "kernel-farm-runtime", "Apache-2.0"),
        ("generated/table.c", "kernel-farm-generated", "Apache-2.0"),
        ("zig/lib/std/mem.zig", "zig-std", "MIT"),
        ("zig/lib/compiler_rt.zig", "zig-compiler-rt", "MIT"),
        ("zig/lib/compiler_rt/divdi3.zig", "zig-compiler-rt", "MIT"),
        ("zig/lib/include/stdint.h", "clang-headers", "Apache-2.0 WITH LLVM-exception"),
        ("zig/lib/libc/include/any-linux-any/linux/elf.h", "linux-headers", "GPL-2.0-only WITH Linux-syscall-note"),
        ("zig/lib/libc/musl/src/a.c", "zig-lib-libc-musl-src", ""),
        ("zig/lib/libc/include/x86-linux-any/asm/auxvec.h", "linux-headers", "GPL-2.0-only WITH Linux-syscall-note"),
        ("zig/lib/libc/include/generic-glibc/stdio.h", "zig-lib-libc-include-generic-glibc", ""),
        ("zig/lib/libc/include/generic-musl/stdio.h", "zig-lib-libc-include-generic-musl", ""),
    ],
)
def test_a_source_belongs_to_the_group_of_its_longest_prefix(source: str, group: str, licence: str) -> None:
    found = TABLE.group(source)
    assert (found.name, found.declared.licence) == (group, licence)


def test_names_are_those_of_purls() -> None:
    assert TABLE.package("pypi", "ml_dtypes") == TABLE.package("pypi", "ml-dtypes")
    assert TABLE.package("pypi", "nobody") == declared.UNKNOWN


def test_the_recipe_covers_sources_libraries_and_the_lock() -> None:
    lock, other = (Lock(digest.of_bytes(text), ()) for text in (b"lock", b"other"))
    assert source_digest(lock) == source_digest(lock)
    assert source_digest(lock, libraries=LIBRARIES[:1]) != source_digest(lock)
    assert source_digest(other) != source_digest(lock)
    assert {"license-expression"} <= {*LIBRARIES}
    assert {"rfc8785"} <= {*tools.PINNED}
