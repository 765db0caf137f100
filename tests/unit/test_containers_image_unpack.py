"""What of a package gets into the root, and what does not get out of it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from containers.image import unpack
from containers.image.unpack import SITE, Root
from kernelfarm.errors import Code, FarmError
from tests.support import services, small_packages


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "root").mkdir()
    return Root(tmp_path / "root")


def test_a_wheel_is_where_an_installer_would_put_it(tmp_path: Path, root: Root) -> None:
    path = small_packages.wheel(tmp_path)

    unpack.unpack_wheel(small_packages.pin(path, drop=("*/tests/*",)), path, root)

    site = root.folder / SITE
    assert (site / "tool" / "bin" / "program").stat().st_mode & 0o777 == 0o755
    assert (site / "tool" / "__init__.py").stat().st_mode & 0o777 == 0o644
    assert (site / "tool" / "extra.txt").read_bytes() == b"extra\n"
    assert not (site / "tool" / "tests").exists()
    assert not (site / "tool-1.0.data").exists()


def test_its_record_names_also_what_was_dropped_and_no_script(tmp_path: Path, root: Root) -> None:
    path = small_packages.wheel(tmp_path)

    unpack.unpack_wheel(small_packages.pin(path, drop=("*/tests/*",)), path, root)

    (found,) = metadata.distributions(name="tool", path=[str(root.folder / SITE)])
    assert [str(file) for file in found.files or ()] == [
        "tool/__init__.py",
        "tool/bin/program",
        "tool/tests/test_it.py",
        "tool/extra.txt",
        "tool-1.0.dist-info/METADATA",
        "tool-1.0.dist-info/RECORD",
    ]


def test_a_deb_lies_below_usr_without_its_special_modes(tmp_path: Path, root: Root) -> None:
    services.program("dpkg-deb", "dpkg")
    content = {
        "bin/mount": (b"program", 0o4755),
        "lib/small.so.1": (b"library", 0o600),
        "usr/share/man/x": (b"", 0o644),
    }
    path = small_packages.deb(tmp_path, files=content)

    unpack.unpack_deb(small_packages.pin(path, keep=("usr/bin/*", "usr/lib/*")), path, root)

    assert (root.folder / "usr/bin/mount").stat().st_mode & 0o7777 == 0o755
    assert (root.folder / "usr/lib/small.so.1").stat().st_mode & 0o7777 == 0o644
    assert str((root.folder / "usr/lib/small.so").readlink()) == "small.so.1"
    assert not (root.folder / "usr/share").exists()
    assert "Version: 1:2.0" in (root.folder / "var/lib/dpkg/status.d/small").read_text()
    assert set(root.layers.values()) == {"debs"}


@pytest.mark.parametrize("name", ["../outside", "tool/../../outside", "/../outside"])
def test_a_wheel_cannot_write_outside(tmp_path: Path, root: Root, name: str) -> None:
    path = small_packages.wheel(tmp_path, files={name: b"caught"})

    with pytest.raises(FarmError) as refusal:
        unpack.unpack_wheel(small_packages.pin(path), path, root)

    assert refusal.value.code is Code.PINS_INVALID
    assert not list(tmp_path.rglob("outside"))


def test_a_link_cannot_lead_a_later_file_outside(tmp_path: Path, root: Root) -> None:
    root.link("debs", "usr/door", str(tmp_path))

    with pytest.raises(FarmError) as refusal:
        root.file("debs", "usr/door/outside/file", b"caught")

    assert refusal.value.code is Code.PINS_INVALID
    assert not (tmp_path / "outside").exists()


def test_two_packages_may_share_a_file_only_when_it_is_the_same(root: Root) -> None:
    root.file("wheels", "usr/shared", b"one")
    root.file("wheels", "usr/shared", b"one")

    with pytest.raises(FarmError) as refusal:
        root.file("wheels", "usr/shared", b"two")

    assert refusal.value.code is Code.PINS_INVALID


@pytest.mark.parametrize("kind", ["deb", "whl"])
def test_a_package_that_is_none_is_refused(tmp_path: Path, root: Root, kind: str) -> None:
    services.program("dpkg-deb", "dpkg")
    path = tmp_path / f"small-1.0.{kind}"
    path.write_bytes(b"not a package")

    with pytest.raises(FarmError) as refusal:
        (unpack.unpack_deb if kind == "deb" else unpack.unpack_wheel)(small_packages.pin(path), path, root)

    assert refusal.value.code is Code.PINS_INVALID
