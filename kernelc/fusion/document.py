"""Plain data with the place of every value in its file, for errors that say where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelfarm.errors import Code, FarmError

Path = tuple[str | int, ...]
"""Keys and indices from the top of a document to a value."""

NEXT = "What a rule may say is in docs/how-to/add-a-fusion-rule.md."


@dataclass(frozen=True, slots=True)
class Document:
    """`data` is made of dict, list, str, int, bool; `places` has line and column, from 1, of values by their path."""

    name: str
    data: Any
    places: Mapping[Path, tuple[int, int]] = field(default_factory=dict)

    def where(self, path: Path) -> str:
        """The place of a value for people: "mine.yaml:3:7"; the file's name alone where the place is not known."""
        return ":".join([self.name, *map(str, self.places.get(path, ()))])

    def error(self, code: Code, path: Path, what: str, why: str, *, offset: int = 0) -> FarmError:
        """An error at the value of `path`, `offset` characters into it; at what holds it where that is not there."""
        inner = path
        while inner and inner not in self.places:
            inner, offset = inner[:-1], 0
        return error_at(code, self.name, self.places.get(inner), what, why, offset)


def error_at(code: Code, name: str, place: tuple[int, int] | None, what: str, why: str, offset: int = 0) -> FarmError:
    """An error in the file `name` at a line and column; at its start where no place is known."""
    line, column = place or (1, 1)
    detail = {"file": name, "line": line, "column": column + offset}
    return FarmError(code, f"{name}:{line}:{column + offset}: {what}", why, NEXT, detail=detail)
