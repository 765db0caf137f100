"""NOTICE: who owns what was compiled into a payload, under which licences, and the texts that these ask to pass on.

A pure function of `links.json` and of this room. What the licence gate decides is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kernelfarm import canonical, links
from kernelfarm.errors import Code, FarmError
from kernelfarm.links import Links
from sbom import declared
from sbom.declared import SourceGroup

NAME = "NOTICE"
TEXTS = Path(__file__).with_name("texts")
_RULE = "=" * 80
_HEAD = "This payload holds code that was compiled from the following.\n"


def describe(folder: Path) -> bytes:
    """The bytes of the NOTICE for the payload in a folder.

    Raises `FarmError` PAYLOAD_INVALID when its `links.json` is none, and `OSError`.
    """
    try:
        found = canonical.decode(Links, (folder / links.NAME).read_bytes(), name=links.NAME)
    except FarmError as reason:
        why = reason.why or reason.what
        raise FarmError(Code.PAYLOAD_INVALID, "the payload cannot be described", why) from reason
    return text(found)


def text(found: Links) -> bytes:
    """The bytes of the NOTICE for links. The order of anything in them means nothing."""
    table = declared.load()
    used = {name for linked in found.files for one in linked.inputs for name in one.sources}
    groups = {group.name: group for group in map(table.group, sorted(used))}
    parts = [_HEAD, *(_entry(group) for _, group in sorted(groups.items()))]
    parts += [f"\n{_RULE}\n{name}\n{_RULE}\n\n{body}" for name, body in _texts(groups.values())]
    return "".join(parts).encode()


def _entry(group: SourceGroup) -> str:
    licence = group.declared.licence or "licence unknown"
    owner = f" by {group.declared.supplier}" if group.declared.supplier else ""
    return f"\n{group.name}{owner}\n  {licence}\n"


def _texts(groups: Iterable[SourceGroup]) -> list[tuple[str, str]]:
    words = {word.strip("()") for group in groups for word in (*group.declared.licence.split(), *group.texts)}
    places = ((word, TEXTS / f"{word}.txt") for word in sorted(words))
    return [(word, place.read_text(encoding="utf-8")) for word, place in places if place.is_file()]
