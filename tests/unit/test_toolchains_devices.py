"""The catalogue of devices: every entry names a target that exists; unknown names get the nearest ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelfarm.errors import Code, FarmError, Status
from toolchains import devices, target
from toolchains.machines import MACHINES

GOOD = {"summary": "S", "processor": "P", "target": "x86-64-v3", "source": "a data sheet"}


def test_every_device_has_a_target_and_says_where_its_facts_are_from() -> None:
    found = devices.catalogue()

    assert len(found) >= 15
    assert {target.load(device.target).machine for device in found.values()} == set(MACHINES)
    assert all(device.source and device.processor for device in found.values())


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("raspberry-pi-5", "aarch64"),
        ("raspberry-pi-4", "armv7"),
        ("jetson-orin-nano", "aarch64"),
        ("beaglebone-black", "armv7"),
        ("generic-x86-server-avx512", "x86-64-v4"),
    ],
)
def test_a_device_stands_for_its_target(device: str, name: str) -> None:
    assert devices.resolve(f"device:{device}") == name


def test_other_words_stay_as_they_are() -> None:
    assert devices.resolve("x86-64-v3") == "x86-64-v3"
    assert devices.resolve("vax") == "vax"


@pytest.mark.parametrize("word", ["raspberry-pi-5", "raspberry-pi5", "Raspberry-Pi-5"])
def test_a_device_without_its_prefix_is_suggested_with_it(word: str) -> None:
    with pytest.raises(FarmError) as caught:
        devices.resolve(word)

    assert (caught.value.code, caught.value.status) == (Code.TARGET_UNKNOWN, Status.USAGE)
    assert caught.value.next_step.startswith("Did you mean device:raspberry-pi-5")


def test_a_device_on_a_lesser_target_says_why() -> None:
    assert "Armv8.0-A" in devices.load("raspberry-pi-4").note


@pytest.mark.parametrize(
    ("name", "nearest"), [("raspberry-pi5", "raspberry-pi-5"), ("Jetson-Orin", "jetson-orin-nano"), ("", None)]
)
def test_an_unknown_device_suggests_the_nearest(name: str, nearest: str | None) -> None:
    with pytest.raises(FarmError) as caught:
        devices.resolve(f"device:{name}")

    assert (caught.value.code, caught.value.status) == (Code.DEVICE_UNKNOWN, Status.USAGE)
    assert (nearest in caught.value.detail["nearest"]) if nearest else caught.value.detail["nearest"] == []


def entry(**fields: str) -> str:
    return "[board]\n" + "\n".join(f'{key} = "{value}"' for key, value in {**GOOD, **fields}.items()) + "\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[board", "not TOML"),
        ("board = 1\n", "an entry is a table"),
        (entry(name="x"), "an entry is a table without name"),
        (entry(target="vax"), "there is no target 'vax'"),
        (entry(source=""), "must say something"),
        (entry(colour="red"), "colour"),
        ('[board]\nsummary = "S"\n', "processor"),
    ],
)
def test_a_faulty_catalogue_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "devices.toml").write_text(text)

    with pytest.raises(FarmError) as caught:
        devices.read(tmp_path / "devices.toml")

    assert caught.value.code is Code.TARGET_INVALID
    assert why in caught.value.why


def test_a_good_entry_is_read(tmp_path: Path) -> None:
    (tmp_path / "devices.toml").write_text(entry(note="N"))

    (board,) = devices.read(tmp_path / "devices.toml").values()

    assert board.to_json() == {"schema": "device/1", "name": "board", "note": "N", **GOOD}
