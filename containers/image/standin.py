"""Stand-ins for libraries that a kept program is linked with and never calls.

Debian's llvm-objdump wants libraries for downloads, for XML, for proofs and for line editing: 70 MB with what they want
in turn, and a good part of what could be attacked in the image. A stand-in has the names that are asked for, each at an
instruction that ends the process. It is made by the image's own clang and lld, so that it follows from the lock.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from containers.image.pins import StandIn
from containers.image.unpack import SITE, Root
from kernelfarm.errors import Code, FarmError
from toolchains import elf
from toolchains.process import run_tool

LIBRARIES = "usr/lib/x86_64-linux-gnu"
_TRIPLE = "x86_64-linux-gnu"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Names = Mapping[str, frozenset[str]]
"""Names by the version that they carry, "" for none."""


def add(root: Root, stand_ins: Iterable[StandIn]) -> None:
    """Make each stand-in in the root, from what the root's programs ask of it.

    Raises `FarmError` PINS_INVALID for one that nothing asks for, TOOL_FAILED and its kin.
    """
    files = [root.folder / path for path, layer in root.layers.items() if layer == "debs" and "/status.d/" not in path]
    wanting = [path.read_bytes() for path in sorted(files) if not path.is_symlink()]
    for entry in stand_ins:
        names = wanted(entry, wanting)
        if not names:
            advice = "Remove it from the lock of the image."
            raise FarmError(Code.PINS_INVALID, f"nothing is linked with {entry.soname}", next_step=advice)
        zig = root.folder / SITE / "ziglang" / "zig"
        root.file("debs", f"{LIBRARIES}/{entry.soname}", make(entry.soname, names, zig), program=True)


def wanted(entry: StandIn, programs: Iterable[bytes]) -> Names:
    """What these programs ask of a library; files that are no programs ask for nothing."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for data in programs:
        if not data.startswith(b"\x7fELF"):
            continue
        for version, name in elf.imports(data, entry.soname):
            if version or name.startswith(entry.prefixes or ("\0",)):
                found[version].add(name)
    return {version: frozenset(names) for version, names in found.items()}


def make(soname: str, names: Names, zig: Path) -> bytes:
    """The bytes of a library that gives the names."""
    every = sorted({name for group in names.values() for name in group})
    if odd := [name for name in (*every, *filter(None, names)) if _NAME.fullmatch(name.replace(".", "_")) is None]:
        raise FarmError(Code.PINS_INVALID, f"{soname} cannot have a stand-in", f"it would give {odd[0]!r}")
    labels = "".join(f".globl {name}\n.type {name}, @function\n{name}:\n" for name in every)
    source = f'.text\n.p2align 4\n{labels}ud2\n.section .note.GNU-stack,"",@progbits\n'
    script = "".join(  # a name without a version needs no line
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(group))} }};\n"
        for version, group in sorted(names.items())
        if version
    )
    with tempfile.TemporaryDirectory(prefix="farm-stand-in-") as name:
        folder = Path(name)
        (folder / "a.s").write_text(source, encoding="ascii")
        (folder / "a.map").write_text(script, encoding="ascii")
        what = f"making a stand-in for {soname}"
        compile_ = [str(zig), "clang", "-target", _TRIPLE, "-c", "a.s", "-o", "a.o"]
        run_tool(compile_, cwd=folder, what=what)
        link = [str(zig), "ld.lld", "-shared", "-s", "--threads=1", "--hash-style=gnu", f"-soname={soname}"]
        link += ["-z", "noexecstack", *(["--version-script=a.map"] if script else []), "a.o", "-o", "out"]
        run_tool(link, cwd=folder, what=what)
        return (folder / "out").read_bytes()
