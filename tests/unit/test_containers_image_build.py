"""Images of a small lock: the same bytes from every build, and every byte of them verified."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from containers import image
from containers.image import Image, verify
from containers.image.pins import Pins
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from tests.support import services, small_packages


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


@pytest.fixture
def lock(tmp_path: Path, home: Home) -> Pins:
    services.program("dpkg-deb", "dpkg")
    made = [
        small_packages.deb(tmp_path, "busy"),
        small_packages.wheel(tmp_path),
        small_packages.wheel(tmp_path, "other"),
    ]
    return small_packages.lock(ContentStore(home.store), *made)


@pytest.fixture
def built(home: Home, lock: Pins) -> Image:
    return image.ensure(home, lock=lock)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_second_build_with_another_umask_and_order_is_the_same(home: Home, lock: Pins, tmp_path: Path) -> None:
    os.umask(0o077)
    first = image.ensure(home, lock=lock)
    os.umask(0o002)
    backwards = Pins(lock.packages[::-1], ())
    elsewhere = Home(tmp_path / "elsewhere").create()
    for blob in ContentStore(home.store).digests():
        ContentStore(elsewhere.store).put_bytes(ContentStore(home.store).get_bytes(blob))

    second = image.ensure(elsewhere, lock=backwards)

    assert (second.digest, second.docker_id, second.layers) == (first.digest, first.docker_id, first.layers)
    assert second.archive.read_bytes() == first.archive.read_bytes()
    verify.verify(second)


def test_the_archive_is_a_docker_archive_and_an_oci_layout(built: Image) -> None:
    with tarfile.open(built.archive) as archive:
        names = archive.getnames()
        read = {name: stream.read() for name in names if (stream := archive.extractfile(name)) is not None}

    (docker,) = json.loads(read["manifest.json"])
    (descriptor,) = json.loads(read["index.json"])["manifests"]
    manifest = json.loads(read[f"blobs/sha256/{digest.hex_of(digest.parse(descriptor['digest']))}"])
    config = json.loads(read[docker["Config"]])
    assert digest.of_bytes(read[docker["Config"]]) == built.docker_id == manifest["config"]["digest"]
    assert descriptor["digest"] == built.digest
    assert [digest.of_bytes(read[path]) for path in docker["Layers"]] == config["rootfs"]["diff_ids"]
    assert json.loads(read["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert config["created"] == "1970-01-01T00:00:00Z"
    assert config["config"]["User"] == "65534:65534"


def test_layers_hold_what_they_are_named_for(built: Image) -> None:
    names = {}
    with tarfile.open(built.archive) as archive:
        for layer in built.layers:
            stream = archive.extractfile(f"blobs/sha256/{digest.hex_of(layer.digest)}")
            with tarfile.open(fileobj=stream) as members:
                names[layer.name] = members.getnames()

    assert list(names) == ["debs", "zig", "mlir", "wheels"]
    assert {"proc", "dev", "tmp", "in", "out", "farm/code", "usr/lib/busy.so.1", "lib"} <= set(names["debs"])
    assert names["zig"] == names["mlir"] == []
    assert "usr/local/lib/python3.11/dist-packages/tool/__init__.py" in names["wheels"]


def test_what_is_built_is_found_and_built_no_more(home: Home, lock: Pins, built: Image) -> None:
    before = built.archive.stat().st_ino

    assert image.find(home, lock=lock) == built
    assert image.ensure(home, lock=lock).archive.stat().st_ino == before
    assert image.ensure(home, lock=lock, again=True).archive.stat().st_ino != before
    assert image.find(home) is None


def test_an_image_of_another_lock_is_superseded(home: Home, lock: Pins, built: Image) -> None:
    newer = Pins((*lock.packages[:-1], replace(lock.packages[-1], drop=("tool/*",))), ())

    later = image.ensure(home, lock=newer)

    assert later.digest != built.digest
    assert image.superseded(home, lock=newer) == (built.rootfs.parent,)


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_every_byte_of_the_archive_counts(built: Image) -> None:
    size = built.archive.stat().st_size
    step = size // 97
    for at in range(0, size, step):
        _flip(built.archive, at)
        try:
            verify.verify(built)
        except FarmError as refusal:
            assert refusal.code is Code.IMAGE_INVALID, at
        else:
            with built.archive.open("rb") as stream:  # only padding of the outer archive is nobody's
                stream.seek(at)
                assert stream.read(1) == b"\x01", at
        _flip(built.archive, at)
    verify.verify(built)


@pytest.mark.parametrize("change", ["bytes", "mode", "extra", "missing", "link", "kind"])
def test_every_change_of_the_root_is_found(built: Image, change: str) -> None:
    place = built.rootfs / "usr/local/lib/python3.11/dist-packages/tool/extra.txt"
    if change == "bytes":
        _flip(place, 0)
    elif change == "mode":
        place.chmod(0o755)
    elif change == "extra":
        place.with_name("new").write_bytes(b"")
    elif change == "missing":
        place.unlink()
    elif change == "link":
        (built.rootfs / "lib").unlink()
        (built.rootfs / "lib").symlink_to("/etc")
    else:
        place.unlink()
        place.symlink_to("__init__.py")

    with pytest.raises(FarmError) as refusal:
        verify.verify(built)

    assert refusal.value.code in (Code.IMAGE_INVALID, Code.FILE_MISSING)


def test_an_export_is_the_archive(built: Image, tmp_path: Path) -> None:
    verify.export(built, tmp_path / "image.tar")

    assert (tmp_path / "image.tar").read_bytes() == built.archive.read_bytes()


def test_an_image_that_is_not_built_is_an_error_of_the_environment(home: Home) -> None:
    with pytest.raises(FarmError) as refusal:
        image.require(home)

    assert refusal.value.code is Code.IMAGE_MISSING
    assert "farm image build" in refusal.value.next_step
