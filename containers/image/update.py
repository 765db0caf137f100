"""What is served now, beside the lock: `farm pins check` and `farm pins update`.

Debian packages follow what apt would choose. Wheels follow the versions of the farm's own environment, which
requirements/run.txt locks: the tools of the image must be the tools that the recipe key names.
"""

from __future__ import annotations

import importlib.metadata
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from containers.image import clients, fetch
from containers.image.clients import Apt
from containers.image.fetch import Tell, silent
from containers.image.pins import Pin, Pins
from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.store import ContentStore

_SERVED = re.compile(r"^'\S+' (\S+) ([0-9]+) SHA256:([0-9a-f]{64})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A pin beside what is served.

    `served`: the very file is served still; `held`: the content store has it, so that a build asks nobody; `newest` is
    the version that an update would pin, "" when there is none.
    """

    pin: Pin
    served: bool
    held: bool
    newest: str


def check(pins: Pins, store: ContentStore, tell: Tell = silent) -> list[Finding]:
    """Ask for every pin. Raises `FarmError` TOOL_MISSING, or PACKAGES_UNREACHABLE when nothing at all is served."""
    with tempfile.TemporaryDirectory(prefix="farm-pins-") as name:
        found = _check_debs([pin for pin in pins.packages if pin.kind == "deb"], Path(name), store, tell)
        for pin in (pin for pin in pins.packages if pin.kind == "wheel"):
            tell(f"asking for {pin}")
            found.append(_check_wheel(pin, Path(name), store))
    if not any(finding.served for finding in found):
        advice = "Run the command again with a network."
        raise FarmError(Code.PACKAGES_UNREACHABLE, "no package of the image is served", next_step=advice)
    return found


def update(pins: Pins, store: ContentStore, tell: Tell = silent) -> Pins:
    """The lock with what is served now; new files are in the store. Raises as `check`, PIN_GONE for one that is not."""
    fresh = []
    with tempfile.TemporaryDirectory(prefix="farm-pins-") as name:
        debs = [pin for pin in pins.packages if pin.kind == "deb"]
        tell(f"asking for {len(debs)} Debian packages")
        newest = {entry.name: entry for entry in _served(Apt(Path(name)), [pin.name for pin in debs])}
        for pin in debs:
            if pin.name not in newest:
                raise _nothing(pin.name)
            found = newest[pin.name]
            named = replace(pin, version=found.version, file=found.file, size=found.size, digest=found.digest)
            fresh.append(named)
        for pin in (pin for pin in pins.packages if pin.kind == "wheel"):
            tell(f"downloading {pin.name}")
            fresh.append(_wheel(pin, importlib.metadata.version(pin.name), Path(name), store))
    fetch.fetch(fresh, store, tell)
    return replace(pins, packages=tuple(fresh))


@dataclass(frozen=True, slots=True)
class Served:
    """A Debian package as apt would download it: `file` is the name that it gives the file, `size` in bytes."""

    name: str
    version: str
    file: str
    size: int
    digest: Digest


def parse_uris(said: str) -> list[Served]:
    """The packages that `apt-get download --print-uris` lists."""
    found = []
    for file, size, value in _SERVED.findall(said):
        name, version, _architecture = file.split("_")
        found.append(Served(name, unquote(version), file, int(size), Digest(digest.PREFIX + value)))
    return found


def _served(apt: Apt, wanted: Sequence[str]) -> list[Served]:
    """What apt would download for "name" or "name=version"; those that it does not know are not among them."""
    found = {entry.name: entry for entry in _ask(apt, wanted)}
    for name in wanted:
        if name.partition("=")[0] not in found:  # apt may give nothing at all when it lacks one of several
            found |= {entry.name: entry for entry in _ask(apt, [name])}
    return list(found.values())


def _ask(apt: Apt, wanted: Sequence[str]) -> list[Served]:
    return parse_uris(apt.download(*wanted, uris=True)) if wanted else []


def _check_debs(debs: Sequence[Pin], folder: Path, store: ContentStore, tell: Tell) -> list[Finding]:
    tell(f"asking for {len(debs)} Debian packages")
    apt = Apt(folder)
    newest = {entry.name: entry.version for entry in _served(apt, [pin.name for pin in debs])}
    served = {entry.digest for entry in _served(apt, [f"{pin.name}={pin.version}" for pin in debs])}
    return [Finding(pin, pin.digest in served, store.has(pin.digest), newest.get(pin.name, "")) for pin in debs]


def _check_wheel(pin: Pin, folder: Path, store: ContentStore) -> Finding:
    dry = ("--dry-run", "--ignore-installed", f"--target={folder / 'target'}", "--report=-", "--quiet")
    said = clients.pip(folder, "install", *dry, "--require-hashes", "-r", fetch.wanted(pin, folder), wheel=pin.file)
    served = pin.file in said and digest.hex_of(pin.digest) in said
    return Finding(pin, served, store.has(pin.digest), importlib.metadata.version(pin.name))


def _wheel(pin: Pin, version: str, folder: Path, store: ContentStore) -> Pin:
    place = folder / pin.name
    place.mkdir()
    clients.pip(place, "download", f"{pin.name}=={version}")
    made = sorted(place.glob("*.whl"))
    if len(made) != 1:
        raise _nothing(f"{pin.name} {version}")
    found = store.put_file(made[0])
    return replace(pin, version=version, file=made[0].name, size=made[0].stat().st_size, digest=found)


def _nothing(name: str) -> FarmError:
    advice = "See what is served: `farm pins check`; without a network, try again later."
    return FarmError(Code.PIN_GONE, f"{name} is not served", "neither apt nor pip gives it", advice, {"pin": name})
