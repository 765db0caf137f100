"""`farm image` and `farm pins` as a user meets them, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from containers import image
from containers.image import pins
from containers.image.pins import Pins
from farm.cli.main import main
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from tests.support import small_packages


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose farm has a lock of one small wheel, which its store holds."""
    found = Home(tmp_path / "home").create()
    lock = small_packages.lock(ContentStore(found.store), small_packages.wheel(tmp_path))
    (tmp_path / "pins.toml").write_text(pins.dumps(lock))
    monkeypatch.setattr(pins.load, "__defaults__", (tmp_path / "pins.toml",))
    monkeypatch.setenv("FARM_HOME", str(found.root))
    monkeypatch.setattr(image.tools, "PINNED", ())
    return found


def _json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("verb", [["show"], ["verify"], ["export", "image.tar"]])
def test_before_it_is_built_the_command_that_builds_it_is_named(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", *verb]) == 3

    said = capsys.readouterr().err
    assert "the image is not built" in said
    assert "farm image build" in said


@pytest.mark.usefixtures("home")
def test_build_and_show_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "build", "--json"]) == 0
    built = _json(capsys)
    assert main(["image", "show", "--json"]) == 0

    assert _json(capsys) == built
    assert built["schema"] == "image/1"
    assert [layer["name"] for layer in built["layers"]] == ["debs", "zig", "mlir", "wheels"]
    assert built["unpacked_bytes"] == sum(layer["unpacked_bytes"] for layer in built["layers"])


def test_a_damaged_image_does_not_verify(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "build"]) == 0
    (image.require(home).rootfs / "etc" / "passwd").write_text("root::0:0::/:/bin/sh\n")

    assert main(["image", "verify"]) == 1

    assert "etc/passwd has other bytes than the archive" in capsys.readouterr().err
    assert main(["image", "build", "--again"]) == 0


def test_an_export_is_a_file(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "build"]) == 0
    assert main(["image", "export", str(tmp_path / "image.tar"), "--json"]) == 0

    capsys.readouterr()
    assert (tmp_path / "image.tar").read_bytes() == image.require(home).archive.read_bytes()
    assert main(["image", "export", str(tmp_path / "nowhere" / "image.tar")]) == 3


def test_a_pin_that_is_gone_is_an_error_with_its_name(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = small_packages.pin(small_packages.wheel(tmp_path, "other"))
    lock = Pins((other,), ())
    (tmp_path / "pins.toml").write_text(pins.dumps(lock))
    monkeypatch.setattr("containers.image.clients.pip", lambda *_a, **_k: "ERROR: No matching distribution found")

    assert main(["image", "build", "--json"]) == 3

    assert _json(capsys)["error"]["what"] == "the pin other 1.0 is no longer served"
    assert image.find(home) is None
