"""What a linked file may hold of the place where it was built: paths, names of sources, of users, hosts and compilers.

A name without any form, such as that of a host alone, cannot be told from data. So all sections but those that a
stripped file needs are refused too, and the one remark that a file may hold is the linker's, of its version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TEXT = re.compile(rb"[\t\x20-\x7e]{8,}")
"""Where names are looked for: in shorter ones, what looks like a name is met by chance among numbers."""
_PATH = re.compile(rb"/(?:[\w.+@-]{2,}/)+[\w.+@-]{3,}")
_SHORTEST_PATH = 10
_OF_ANY_SYSTEM = b"/proc/self/"
_FORMS = (
    re.compile(rb"[\w.+-]{3,}\.(?:c|cc|cpp|h|ll|mlir|o|onnx|py|s|zig)\b|site-packages"),  # sources, builders' folders
    re.compile(rb"\b[A-Za-z]:[\\/](?:[^\\/:*?\"<>|]+[\\/])+[^\\/:*?\"<>|\s]+|\\\\[\w.-]+\\[\w.$-]+"),  # Windows
    re.compile(rb"(?<![^\s\"'(<=:])[a-z_][\w.+-]{2,}@[a-zA-Z0-9][\w.-]{2,}(?![^\s\"')>,;:])"),  # user@host
    re.compile(rb"(?i)\b(?:clang|gcc|llvm|lld|rustc|zig|ubuntu|debian)[ :/-]*(?:version|\(|v?\d)[\w.() +~:-]*"),
)
_LINKER = re.compile(rb"(?:Linker: LLD \d+(?:\.\d+){2}\0)?")
_SECTIONS = frozenset(
    (
        "",
        ".ARM.attributes",
        ".ARM.exidx",
        ".comment",
        ".data",
        ".data.rel.ro",
        ".dynamic",
        ".dynstr",
        ".dynsym",
        ".eh_frame",
        ".eh_frame_hdr",
        ".gnu.hash",
        ".gnu.version",
        ".gnu.version_d",
        ".got",
        ".got.plt",
        ".hexagon.attributes",
        ".init_array",
        ".kcfi_traps",
        ".note.gnu.build-id",
        ".note.gnu.property",
        ".rel.dyn",
        ".rela.dyn",
        ".relro_padding",
        ".riscv.attributes",
        ".rodata",
        ".shstrtab",
        ".text",
    )
)


def traces(data: bytes, sections: Iterable[tuple[str, bytes]]) -> tuple[str, ...]:
    """What names a builder, sorted: in the bytes of a file outside of its code, and in its sections (name, bytes)."""
    held = list(sections)
    found = {f"section {name}" for name, _ in held if name not in _SECTIONS}
    for remark in (content for name, content in held if name == ".comment"):
        if _LINKER.fullmatch(remark):
            data = data.replace(remark, bytes(len(remark)))
        else:
            found.add(_shown(remark.strip(b"\0").replace(b"\0", b", ")))
    for run in _TEXT.finditer(data):
        found |= {_shown(match[0]) for form in _FORMS for match in form.finditer(run[0])}
        found |= {_shown(match[0]) for match in _PATH.finditer(run[0]) if _is_of_a_builder(match[0])}
    return tuple(sorted(found))


def _is_of_a_builder(path: bytes) -> bool:
    return len(path) >= _SHORTEST_PATH and not path.startswith(_OF_ANY_SYSTEM)


def _shown(found: bytes) -> str:
    return found.decode("latin-1")
