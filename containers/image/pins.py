"""The lock of everything that the image holds: packages by name, version, size and SHA-256, and what is kept of each.

The file is `pins.toml` beside this module. Its order means nothing: the digest of the image does not depend on it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from kernelfarm import digest, files
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

LOCK = Path(__file__).with_name("pins.toml")
LAYERS = ("debs", "zig", "mlir", "wheels")
"""Bottom to top: what changes least lies lowest."""
PYTHON = "3.11"
"""Version of the image's own Python, which Debian 12 gives; wheels are chosen for it."""
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Pin:
    """A package file: a Debian package or a wheel.

    `keep` are patterns of the paths that stay (of a deb relative to the root, of a wheel to site-packages), `drop` of
    those that go though they match; `*` also matches "/". The digest is that of the whole file as it is served.
    """

    kind: str
    name: str
    version: str
    file: str
    size: int
    digest: Digest
    layer: str
    keep: tuple[str, ...]
    drop: tuple[str, ...] = ()

    def wants(self, path: str) -> bool:
        """Whether a path of the package belongs into the image."""
        return any(fnmatchcase(path, pattern) for pattern in self.keep) and not any(
            fnmatchcase(path, pattern) for pattern in self.drop
        )

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class StandIn:
    """A library that a kept program is linked with and never calls: `soname`, and how to know the names it would give.

    `prefixes` tells names that carry no version. See `containers.image.standin`.
    """

    soname: str
    prefixes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pins:
    """The whole lock, always in one order: packages by layer and name, stand-ins by name."""

    packages: tuple[Pin, ...]
    stand_ins: tuple[StandIn, ...]

    @property
    def digest(self) -> Digest:
        """Digest of the lock as it is written: comments and order of the file do not count, what is kept does."""
        return digest.of_bytes(dumps(self).encode())

    def __post_init__(self) -> None:
        by_layer = sorted(self.packages, key=lambda pin: (LAYERS.index(pin.layer), pin.name))
        object.__setattr__(self, "packages", tuple(by_layer))
        object.__setattr__(self, "stand_ins", tuple(sorted(self.stand_ins, key=lambda entry: entry.soname)))


def load(path: Path = LOCK) -> Pins:
    """Read a lock. Raises `FarmError` PINS_INVALID, or a coded error of the disk."""
    with files.coded("the lock of the image cannot be read", path):
        data = path.read_bytes()
    try:
        return parse(tomllib.loads(data.decode()))
    except (ValueError, KeyError, TypeError) as reason:  # what tomllib and a missing or odd field raise
        raise _invalid(f"{path.name}: {reason}") from reason


def parse(document: Mapping[str, Any]) -> Pins:
    """The lock that a TOML document spells; raises PINS_INVALID, or ValueError, KeyError, TypeError for odd fields."""
    if document["schema"] != _SCHEMA:
        raise _invalid(f"schema {document['schema']!r}, not {_SCHEMA}")
    packages = [_pin(kind, entry) for kind in ("deb", "wheel") for entry in document.get(kind, ())]
    names = [(pin.kind, pin.name) for pin in packages]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _invalid(f"pinned twice: {', '.join(name for _, name in twice)}")
    stand_ins = [StandIn(entry["soname"], tuple(entry.get("prefixes", ()))) for entry in document.get("stand-in", ())]
    return Pins(tuple(packages), tuple(stand_ins))


def dumps(pins: Pins) -> str:
    """The text of a lock."""
    parts = [
        "# What the compile image holds; written by `farm pins update`. `keep` and `drop` may be edited.",
        f"schema = {_SCHEMA}",
    ]
    for pin in pins.packages:
        fields: dict[str, object] = {"name": pin.name, "version": pin.version, "file": pin.file, "size": pin.size}
        fields |= {"sha256": digest.hex_of(pin.digest)}
        fields |= {"layer": pin.layer} if pin.kind == "wheel" else {}
        fields |= {"keep": pin.keep} | ({"drop": pin.drop} if pin.drop else {})
        parts.append(_table(pin.kind, fields))
    for entry in pins.stand_ins:
        fields = {"soname": entry.soname} | ({"prefixes": entry.prefixes} if entry.prefixes else {})
        parts.append(_table("stand-in", fields))
    return "\n".join(parts) + "\n"


def _pin(kind: str, entry: Mapping[str, Any]) -> Pin:
    layer = "debs" if kind == "deb" else entry["layer"]
    texts = {name: entry[name] for name in ("name", "version", "file", "sha256")}
    if layer not in LAYERS or not all(isinstance(text, str) and text for text in texts.values()):
        raise _invalid(f"the {kind} {entry['name']!r} is not described as it should be")
    if "/" in texts["file"] or texts["name"].startswith("-"):  # they become a path and an argument
        raise _invalid(f"the {kind} {entry['name']!r} has a name that cannot be used")
    found = digest.parse(digest.PREFIX + texts["sha256"])
    keep, drop = (tuple(str(pattern) for pattern in entry.get(name, ())) for name in ("keep", "drop"))
    return Pin(kind, texts["name"], texts["version"], texts["file"], int(entry["size"]), found, layer, keep, drop)


def _table(name: str, fields: Mapping[str, object]) -> str:
    return "\n".join(["", f"[[{name}]]", *(f"{key} = {_value(value)}" for key, value in fields.items())])


def _value(value: object) -> str:
    if isinstance(value, str | int):
        return json.dumps(value)  # a JSON string is a TOML string
    assert isinstance(value, Sequence)
    if len(value) < 2:
        return json.dumps(list(value))
    return "[\n" + "".join(f"  {json.dumps(item)},\n" for item in value) + "]"


def _invalid(why: str) -> FarmError:
    return FarmError(
        Code.PINS_INVALID, "the lock of the image cannot be used", why, "Correct it, or take the farm's own."
    )
