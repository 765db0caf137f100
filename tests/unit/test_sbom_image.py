"""The bill of the compile image: every package of its lock, whatever order they come in."""

from __future__ import annotations

import json

from containers.image import pins
from kernelfarm import digest
from sbom import cyclonedx, image

DIGEST = digest.of_bytes(b"an image")
PACKAGES = [image.Package(pin.kind, pin.name, pin.version, pin.file, pin.digest) for pin in pins.load().packages]


def test_every_package_has_purl_version_hash_licence_and_supplier() -> None:
    data = image.describe(DIGEST, PACKAGES)

    bill = json.loads(data)
    assert cyclonedx.faults(data.decode()) == []
    assert len(bill["components"]) == len(PACKAGES)
    needed = {"purl", "version", "hashes", "licenses", "supplier"}
    assert [item["name"] for item in bill["components"] if not needed <= set(item)] == []
    libc = next(item for item in bill["components"] if item["name"] == "libc6")
    assert libc["purl"].startswith("pkg:deb/debian/libc6@")
    assert libc["purl"].endswith("?arch=amd64&distro=debian-12")
    assert libc["licenses"][0]["license"]["id"] == "LGPL-2.1-or-later"


def test_the_order_of_the_lock_means_nothing() -> None:
    assert image.describe(DIGEST, PACKAGES[::-1]) == image.describe(DIGEST, PACKAGES)
    assert image.describe(digest.of_bytes(b"another"), PACKAGES) != image.describe(DIGEST, PACKAGES)
