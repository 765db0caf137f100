"""What was linked into a payload's files, the document `links.json`: inputs as the linker's map has them, and origins.

A compile writes it; the SBOM and the licence scan read it. It names no path of the machine: sources are called
"runtime/src/api.c" (the farm's own), "zig/lib/std/mem.zig" (of the pinned compiler) or "generated/table.c".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import sort_field

NAME = "links.json"


class Origin(Enum):
    """Where an object comes from."""

    MODEL = "model"
    """Compiled from the model: it has no source file."""
    SOURCES = "sources"
    """Compiled from the sources that it lists."""
    UNKNOWN = "unknown"
    """The linker took it and nothing says what it is made of."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that objects were compiled from; `size` in bytes."""

    name: str
    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class Input:
    """An object, or a member of an archive ("libx.a(y.o)"), as an input of a link.

    `kept` is how many bytes of it the linker kept, `sections` the names of those that they lie in, `sources` names of
    files in `Links.sources`, some for the origin SOURCES and none for others; else SCHEMA_MISMATCH is raised, since
    nobody would judge such an object. `digest` is that of what was kept (`toolchains.relocatable`), not of the object:
    the rest of its file is not in the product. Of an archive's member it is that of the whole archive.
    """

    name: str
    digest: Digest
    origin: Origin
    kept: int
    sections: tuple[str, ...]
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.origin is Origin.SOURCES) != bool(self.sources):
            why = f"its origin is {self.origin.value}, and it lists {len(self.sources)} sources"
            raise FarmError(Code.SCHEMA_MISMATCH, f"the object {self.name} cannot be explained", why)
        sort_field(self, "sections", lambda item: item)
        sort_field(self, "sources", lambda item: item)


@dataclass(frozen=True, slots=True)
class Linked:
    """A linked file of a payload, by its name there."""

    name: str
    inputs: tuple[Input, ...]

    def __post_init__(self) -> None:
        sort_field(self, "inputs", lambda item: item.name)


@dataclass(frozen=True, slots=True)
class Links:
    """The document: every linked file with its inputs, and all sources once."""

    SCHEMA: ClassVar[str] = "links/1"
    files: tuple[Linked, ...]
    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        sort_field(self, "files", lambda item: item.name)
        sort_field(self, "sources", lambda item: item.name)
