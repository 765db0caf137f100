"""Licences and suppliers that the publishers of our inputs declare: `declared.toml`, the one table of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("declared.toml")
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared about a package: an SPDX expression and a supplier, each empty where nothing is known."""

    licence: str = ""
    supplier: str = ""


UNKNOWN = Declared()


@dataclass(frozen=True, slots=True)
class SourceGroup:
    """Sources that are compiled in, by the beginning of their names; `package` is the wheel that they come with.

    `folders`, where it is given, is the pattern of the folders below `prefix` that belong to it. `texts` are files in
    `texts/` that its owners ask to pass on, beside those of its licences.
    """

    prefix: str
    name: str
    package: str
    declared: Declared
    folders: str = ""
    texts: tuple[str, ...] = ()

    def holds(self, source: str) -> bool:
        """Whether a source of that name belongs to it."""
        if not source.startswith(self.prefix):
            return False
        below, slash, _ = source.removeprefix(self.prefix).partition("/")
        return not self.folders or (bool(slash) and fnmatchcase(below, self.folders))


@dataclass(frozen=True, slots=True)
class Table:
    """The table: packages by (purl type, normalised name), and groups of sources."""

    packages: Mapping[tuple[str, str], Declared]
    groups: tuple[SourceGroup, ...]

    def package(self, kind: str, name: str) -> Declared:
        """What is declared about a package of a purl type ("pypi", "deb"); `UNKNOWN` for one that is not listed."""
        return self.packages.get((kind, normalised(name)), UNKNOWN)

    def group(self, source: str) -> SourceGroup:
        """The group of a source, by its name in links.json; a group of its folder's name, unknown, where none fits."""
        found = [group for group in self.groups if group.holds(source)]
        if found:
            return max(found, key=lambda group: len(group.prefix))
        prefix = source.rpartition("/")[0]
        return SourceGroup(prefix, prefix.replace("/", "-") or "sources", "", UNKNOWN)


def normalised(name: str) -> str:
    """A package's name as a purl spells it: lower case, with "-" for "_"."""
    return name.lower().replace("_", "-")


@cache
def load(path: Path = TABLE) -> Table:
    """The table; it is part of the farm, so a damaged one raises what tomllib or a missing field raises."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    if document["schema"] != _SCHEMA:
        raise ValueError(f"{path.name} has schema {document['schema']!r}")
    packages = {
        (entry["type"], normalised(entry["name"])): Declared(entry["licence"], entry["supplier"])
        for entry in document["package"]
    }
    groups = tuple(
        SourceGroup(
            entry["prefix"],
            entry["name"],
            entry.get("package", ""),
            Declared(entry["licence"], entry["supplier"]),
            entry.get("folders", ""),
            tuple(entry.get("texts", ())),
        )
        for entry in document["source"]
    )
    return Table(packages, groups)
