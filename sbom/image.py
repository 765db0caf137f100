"""The compile image in bills of materials: its packages, as its lock names them.

Who reads the lock hands it over as a `Lock`: this room does not know the one that builds images.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from packageurl import PackageURL

from kernelfarm import digest
from kernelfarm.digest import Digest
from sbom import declared
from sbom.parts import SHORT, Bill, Hashes, Kind, Part, own

REF = "image"
_NAME = "kernel-farm-image"
_DISTRIBUTION = "debian-12"
_ABOUT = (
    "The pinned image of this recipe, of which nothing is shipped. Where this payload was compiled is in its provenance"
)


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the image: `kind` is "deb" or "wheel", `digest` that of the whole file as it is served."""

    kind: str
    name: str
    version: str
    file: str
    digest: Digest

    @property
    def ref(self) -> str:
        """Its ref in every bill."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Lock:
    """What the image is built from. `digest` is the lock's own, which more decides than packages: what is kept of them.

    The order of the packages means nothing.
    """

    digest: Digest
    packages: tuple[Package, ...]

    def wheel(self, name: str, version: str) -> Package | None:
        """The wheel of this name, however it is spelt, in this very version; None where the lock has none."""
        wanted = (declared.normalised(name), version)
        wheels = (package for package in self.packages if package.kind == "wheel")
        return next((item for item in wheels if (declared.normalised(item.name), item.version) == wanted), None)


def bill(image: Digest, lock: Lock) -> Bill:
    """The image's own bill: that of an image with this digest which was built from this lock."""
    version = digest.hex_of(image)[:SHORT]
    purl = PackageURL("oci", None, _NAME, image).to_string()
    root = Part(REF, Kind.CONTAINER, _NAME, version, purl, Hashes.of_digest(image))
    return Bill(root, (), tuple(map(_part, lock.packages)), frozenset(needs(lock)))


def part(lock: Lock) -> Part:
    """The image as a component of a payload's bill, its packages inside.

    Its digest is not known there: it has the lock's for a version, and no hash.
    """
    version = digest.hex_of(lock.digest)[:SHORT]
    return Part(
        REF,
        Kind.CONTAINER,
        _NAME,
        version,
        PackageURL("generic", None, _NAME, version).to_string(),
        description=_ABOUT,
        used=False,
        properties=own({"lock": lock.digest}),
        parts=tuple(replace(_part(package), used=False) for package in lock.packages),
    )


def needs(lock: Lock) -> Iterable[tuple[str, str]]:
    """Of a bill with the image: the image needs its packages."""
    return ((REF, package.ref) for package in lock.packages)


def _part(package: Package) -> Part:
    if package.kind == "deb":
        architecture = package.file.removesuffix(".deb").rpartition("_")[2]
        qualifiers = {"arch": architecture, "distro": _DISTRIBUTION}
        purl = PackageURL("deb", "debian", package.name, package.version, qualifiers)
    else:
        purl = PackageURL("pypi", None, declared.normalised(package.name), package.version)
    about = declared.load().package(purl.type, package.name)
    return Part(
        package.ref,
        Kind.LIBRARY,
        package.name,
        package.version,
        purl.to_string(),
        Hashes.of_digest(package.digest),
        about.licence,
        about.supplier,
        properties=(("bsi:component:filename", package.file),),
    )
