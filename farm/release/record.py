"""The record of what this farm released, by name: enough to compare the next release with, without its bundle.

`<home>/releases/NAME/VERSION.json` holds a document for each release, `NAME/golden/<hex>` its golden vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from farm.release import versions
from farm.release.compatibility import Interface
from farm.release.versions import Version
from kernelfarm import canonical, digest, files, nouns
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, advising
from kernelfarm.paths import Home

FOLDER = "releases"


@dataclass(frozen=True, slots=True)
class Released:
    """A release: its version, its bundle's digest, its channel, and what its users see of it."""

    SCHEMA: ClassVar[str] = "released/1"
    version: str
    digest: Digest
    channel: str
    interface: Interface

    @property
    def parsed(self) -> Version:
        """The version, for comparing."""
        return versions.parse(self.version)


def keep(home: Home, released: Released, goldens: dict[Digest, bytes]) -> None:
    """Record a release. Raises a coded `FarmError` of class ENVIRONMENT, RELEASE_EXISTS for another of its version."""
    folder = home.root / FOLDER / nouns.require_file_name(released.interface.name)
    other = next((item for item in known(home, folder.name) if item.parsed == released.parsed), released)
    if other.digest != released.digest:
        why = f"the record of this farm has {other.digest}, this bundle would be {released.digest}"
        advice = "A version means one bundle for ever: release this one under the next version."
        raise FarmError(Code.RELEASE_EXISTS, f"{released.interface.name} {other.version} exists", why, advice)
    with files.coded("a release could not be recorded", folder):
        (folder / "golden").mkdir(parents=True, exist_ok=True)
    for name, data in sorted(goldens.items()):
        files.atomic_write(folder / "golden" / digest.hex_of(name), data)
    files.atomic_write(folder / f"{released.parsed.tag}.json", canonical.encode(released))


def known(home: Home, name: str) -> tuple[Released, ...]:
    """The releases of a name, by precedence; raises `FarmError` for a damaged record, which it names."""
    folder = home.root / FOLDER / name
    advice = (
        "Restore the file, or remove it and give --against: what it said is lost, the repository has what is published."
    )
    with advising(advice), files.coded("the record of releases could not be read", folder):
        found = [
            canonical.decode(Released, path.read_bytes(), name=str(path)) for path in sorted(folder.glob("*.json"))
        ]
    return tuple(sorted(found, key=lambda item: item.parsed))


def goldens(home: Home, released: Released) -> dict[Digest, bytes]:
    """The golden vectors of a recorded release, verified; those that are gone are left out."""
    folder = home.root / FOLDER / released.interface.name / "golden"
    found = {}
    for _target, facts in released.interface.targets:
        path = folder / digest.hex_of(facts.golden)
        with files.coded("the record of releases could not be read", path):
            if path.is_file():
                found[facts.golden] = path.read_bytes()
                if digest.of_bytes(found[facts.golden]) != facts.golden:
                    advice = "Delete this file: the next release is then compared without its numbers."
                    what = "the record of releases is damaged"
                    raise FarmError(Code.STORE_CORRUPT, what, str(path), advice, {"file": str(path)})
    return found
