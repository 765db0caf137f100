"""The image's lock as bills of materials name it: one description for the image's own bill and that of each payload."""

from __future__ import annotations

from containers.image import pins
from containers.image.pins import Pins
from sbom.image import Lock, Package


def lock() -> Lock:
    """That of this installation. Raises `FarmError` PINS_INVALID, or a coded error of the disk."""
    return lock_of(pins.load())


def lock_of(found: Pins) -> Lock:
    """The lock with its packages."""
    packages = (Package(pin.kind, pin.name, pin.version, pin.file, pin.digest) for pin in found.packages)
    return Lock(found.digest, tuple(packages))
