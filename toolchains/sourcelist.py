"""The list of an object's sources that lies beside it, in the form of make's rules that clang writes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_WORD = re.compile(r"(?:\\.|[^\s\\])+")


def place_of(made: Path) -> Path:
    """Where the list of an object lies."""
    return made.with_suffix(".d")


def write(made: Path, sources: Iterable[Path]) -> None:
    """Write the list of an object."""
    words = (re.sub(r"([\s\\#])", r"\\\1", str(path)).replace("$", "$$") for path in sources)
    place_of(made).write_text(f"{made.name}: {' '.join(words)}\n", encoding="utf-8")


def anchor(made: Path, root: Path) -> None:
    """Make a list's relative paths absolute; they were relative to `root`."""
    write(made, (root / path for path in read(made)))


def read(made: Path) -> tuple[Path, ...]:
    """The sources of an object, sorted; none where there is no list."""
    place = place_of(made)
    if not place.is_file():
        return ()
    rule = place.read_text(encoding="utf-8").replace("\\\n", " ").partition(": ")[2]
    words = (re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in _WORD.findall(rule))
    return tuple(Path(word) for word in sorted(set(words)))
