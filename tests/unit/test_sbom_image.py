"""The image in bills: its own names every package of its lock in any order, and that of a payload the same packages."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

import pytest

from containers.image import pins
from farm import pinned
from kernelfarm import digest
from sbom import cyclonedx, document, image, making
from sbom.image import Lock, Package
from toolchains import tools

DIGEST = digest.of_bytes(b"an image")
LOCK = pinned.lock()


def described(found: digest.Digest = DIGEST, lock: Lock = LOCK) -> bytes:
    return document.of_bill(image.bill(found, lock))


def test_every_package_has_purl_version_hash_licence_and_supplier() -> None:
    data = described()

    bill = json.loads(data)
    assert cyclonedx.faults(data.decode()) == []
    assert len(bill["components"]) == len(LOCK.packages) > 20
    needed = {"purl", "version", "hashes", "licenses", "supplier"}
    assert [item["name"] for item in bill["components"] if not needed <= set(item)] == []
    libc = next(item for item in bill["components"] if item["name"] == "libc6")
    assert libc["purl"].startswith("pkg:deb/debian/libc6@")
    assert libc["purl"].endswith("?arch=amd64&distro=debian-12")
    assert libc["licenses"][0]["license"]["id"] == "LGPL-2.1-or-later"


def test_the_order_of_the_lock_means_nothing() -> None:
    assert described(lock=replace(LOCK, packages=LOCK.packages[::-1])) == described()
    assert described(digest.of_bytes(b"another")) != described()


def test_a_payloads_bill_names_the_same_packages_and_ships_none() -> None:
    own = {part.ref: part for part in image.bill(DIGEST, LOCK).parts}

    found = image.part(LOCK)

    assert {part.ref: replace(part, used=True) for part in found.parts} == own
    assert [part.ref for part in (found, *found.parts) if part.used] == []
    assert dict(found.properties) == {"kernel-farm:lock": LOCK.digest}
    assert found.purl == f"pkg:generic/kernel-farm-image@{found.version}"
    assert found.hashes is None  # the lock's digest is no hash of an image


@pytest.mark.parametrize(
    ("name", "version", "ref"),
    [
        ("ml-dtypes", "1.0", "wheel/ml_dtypes"),
        ("ML_dtypes", "1.0", "wheel/ml_dtypes"),
        ("ml-dtypes", "1.1", ""),
        ("libc6", "2.36", ""),
    ],
)
def test_a_wheel_is_found_by_its_name_in_its_very_version(name: str, version: str, ref: str) -> None:
    packages = (Package("wheel", "ml_dtypes", "1.0", "x.whl", DIGEST), Package("deb", "libc6", "2.36", "x.deb", DIGEST))

    found = Lock(DIGEST, packages).wheel(name, version)

    assert (found.ref if found else "") == ref


def test_every_tool_of_the_farm_is_brought_by_a_wheel_of_the_lock() -> None:
    assert [name for name, tool in tools.tool_identities().items() if LOCK.wheel(name, tool.version) is None] == []


def test_an_edit_of_the_lock_alone_gives_another_source_of_bills() -> None:
    own = pins.load()
    first, *rest = own.packages
    edits = {
        "a version": replace(own, packages=(replace(first, version="2"), *rest)),
        "a hash": replace(own, packages=(replace(first, digest=DIGEST), *rest)),
        "what is kept": replace(own, packages=(replace(first, keep=("*",)), *rest)),
        "one package less": replace(own, packages=tuple(rest)),
        "one stand-in less": replace(own, stand_ins=own.stand_ins[1:]),
    }

    found = {name: making.source_digest(pinned.lock_of(edited)) for name, edited in edits.items()}

    assert len({*found.values(), making.source_digest(LOCK)}) == len(edits) + 1
    assert pinned.lock_of(pins.parse(tomllib.loads("# a remark\n" + pins.dumps(own)))) == LOCK
