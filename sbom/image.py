"""The bill of materials of the compile image: a pure function of its lock and its digest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packageurl import PackageURL

from kernelfarm import digest
from kernelfarm.digest import Digest
from sbom import declared, document
from sbom.parts import Bill, Hashes, Kind, Part

_DISTRIBUTION = "debian-12"
_SHORT = 12


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the image: `kind` is "deb" or "wheel", `digest` that of the whole file as it is served."""

    kind: str
    name: str
    version: str
    file: str
    digest: Digest


def describe(image: Digest, packages: Iterable[Package]) -> bytes:
    """The bill of an image with this digest that is made of these packages."""
    name = "kernel-farm-image"
    version = digest.hex_of(image)[:_SHORT]
    purl = PackageURL("oci", None, name, image).to_string()
    root = Part("image", Kind.CONTAINER, name, version, purl, Hashes.of_digest(image))
    parts = tuple(_part(package) for package in packages)
    return document.of_bill(Bill(root, (), parts, frozenset(("image", part.ref) for part in parts)))


def _part(package: Package) -> Part:
    if package.kind == "deb":
        architecture = package.file.removesuffix(".deb").rpartition("_")[2]
        qualifiers = {"arch": architecture, "distro": _DISTRIBUTION}
        purl = PackageURL("deb", "debian", package.name, package.version, qualifiers)
    else:
        purl = PackageURL("pypi", None, declared.normalised(package.name), package.version)
    about = declared.load().package(purl.type, package.name)
    return Part(
        f"{package.kind}/{package.name}",
        Kind.LIBRARY,
        package.name,
        package.version,
        purl.to_string(),
        Hashes.of_digest(package.digest),
        about.licence,
        about.supplier,
        properties=(("bsi:component:filename", package.file),),
    )
