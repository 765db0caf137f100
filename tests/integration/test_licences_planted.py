"""What must not ship is planted into a farm, and the real commands refuse it: each names file, rule and remedy.

Every test has a checkout of the farm of its own, with the plant committed, and the state of one clean, scanned build.
"""

from __future__ import annotations

import os
import random
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from containers.image import pins
from containers.image.pins import Pin
from farm.licences import gate, waivers
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from sbom import notice
from sbom.licence import scan
from signing import client
from signing.waiver import Waiver
from tests.support import graphs, models, release_sequence
from tests.support.pinned_image import lend
from tests.support.release_sequence import Machine

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1800)]

TARGET = "x86-64-v3"
GPL = (
    "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public "
    "License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any "
    "later version."
)
SOURCE = "runtime/src/bytes.c"
"""A source of the farm's own that is linked into library and program."""
LINKER = "toolchains/runtime_build.py"
PINS = "containers/image/pins.toml"
CHANNELS = """
schema = "release-channels/1"
[channels.careful]
targets = ["x86-64-v3"]
licences = true
"""


def text_of(name: str) -> str:
    return (models.ROOT / name).read_text(encoding="utf-8")


def build(farm: Machine, *more: str, status: int = 0) -> Any:
    """What `farm build` says of the small model."""
    words = ["build", "tiny.onnx", "-t", TARGET, "--no-cache", *more]
    return farm.document(*words, status=status)


def refused_release(farm: Machine) -> Any:
    """The error of the licence gate of `farm release`, which ends with 4."""
    found = farm.document("release", "bundles/tiny", "--channel", "careful", "--channels", "channels.toml", status=4)
    (line,) = [check for check in found["checks"] if check["check"] == "licences"]
    assert (found["ok"], line["ok"]) == (False, False)
    return line["error"]


def findings(farm: Machine, *words: str, status: int = 4) -> list[Any]:
    """The open findings that `farm licences` tells of the bundle."""
    found = farm.document("licences", "bundles/tiny", *words, status=status)["targets"][TARGET]
    return [one for one in found["findings"] if one["key"] in found["open"]]


@pytest.fixture(scope="module")
def clean(pinned_image: Home, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A farm that built and scanned the small model: its recorded scans are the others' too."""
    try:
        scan.installed()
    except FarmError as reason:
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))
    made = farm_of(tmp_path_factory.mktemp("clean"))
    lend(pinned_image, made.home)
    release_sequence.share_scans(made)
    made.run("farm", "keys", "new")
    build(made, "--scan-licences", "--model-licence", "MIT")
    return made


def farm_of(
    folder: Path, change: Mapping[str, str] | None = None, state: Path | None = None, runner: str = "bubblewrap"
) -> Machine:
    """A farm of a checkout with other files in it, and a copy of another farm's state. The sandbox gets its sources."""
    source = release_sequence.checkout(folder / "source", change)
    made = Machine(folder / "farm", source, {"FARM_RUNNER": runner})
    graphs.tiny(made.folder / "tiny.onnx")
    (made.folder / "channels.toml").write_text(CHANNELS)
    if state is not None:
        shutil.copytree(state, made.home, symlinks=True, ignore=shutil.ignore_patterns("run", gate.SCANS))
        shutil.copytree(state / "cache" / gate.SCANS, made.home / "cache" / gate.SCANS)  # what it scans stays its own
    return made


def test_the_clean_farm_is_allowed(clean: Machine) -> None:
    assert findings(clean, status=0) == []


def test_a_gpl_source_in_the_link_gets_no_bundle(clean: Machine, tmp_path: Path) -> None:
    farm = farm_of(tmp_path, {SOURCE: f"/* {GPL} */\n{text_of(SOURCE)}"}, clean.home)

    said = build(farm, "--scan-licences", "--model-licence", "MIT", status=4)

    (error,) = said["errors"]
    assert error["code"] == Code.LICENCE_DENIED.number
    assert SOURCE in error["what"]
    assert error["detail"]["file"] == SOURCE
    assert error["detail"]["rule"] == 'linked.deny "GPL-*"'
    assert "GPL-3.0-or-later" in error["why"]
    assert error["next"].startswith("Take it out of the link")
    assert not (farm.folder / "bundles" / "tiny").exists()


def test_a_bundle_that_was_built_without_a_scan_is_refused_once_it_is_scanned(clean: Machine, tmp_path: Path) -> None:
    farm = farm_of(tmp_path, {SOURCE: f"/* {GPL} */\n{text_of(SOURCE)}"}, clean.home)
    build(farm, "--model-licence", "MIT")
    assert refused_release(farm)["code"] == Code.LICENCE_REVIEW.number

    (found,) = findings(farm, "--scan")

    assert (found["file"], found["decision"], found["rule"]) == (SOURCE, "deny", 'linked.deny "GPL-*"')
    assert found["remedy"].startswith("Take it out of the link")
    error = refused_release(farm)
    assert (error["code"], error["detail"]["file"]) == (Code.LICENCE_DENIED.number, SOURCE)
    assert error["next"].startswith("Take it out of the link")


def test_a_gpl_object_that_came_from_nowhere_gets_no_bundle(clean: Machine, tmp_path: Path) -> None:
    """Nobody can scan an object of which no source is known: that alone is the reason."""
    place = "    library += helpers("
    plant = f"""    (work_dir / "plant.c").write_text("int readline(void); int readline(void) {{ return 1; }}")
    zig.compile_c(work_dir / "plant.c", work_dir / "plant.o", target, cpu=target.cpu.baseline)
    library.append((work_dir / "plant.o").rename(work_dir / "readline.o"))
{place}"""
    assert text_of(LINKER).count(place) == 1
    farm = farm_of(tmp_path, {LINKER: text_of(LINKER).replace(place, plant)}, clean.home)

    said = build(farm, "--model-licence", "MIT", status=4)

    (error,) = said["errors"]
    assert error["code"] == Code.LICENCE_DENIED.number
    assert error["detail"]["file"] == "libmedia_engine.so:readline.o"
    assert error["detail"]["rule"] == "unknown"
    assert "readline.o is linked into libmedia_engine.so and nothing says what it was compiled from" in error["why"]
    assert error["next"].startswith("Take it out of the link")


def test_a_gpl_wheel_in_the_lock_gets_no_bundle(clean: Machine, tmp_path: Path) -> None:
    wheel = tmp_path / "turbo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            "turbo-1.0.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: turbo\nVersion: 1.0\nLicense-Expression: GPL-3.0-only\n",
        )
    lock = pins.load()
    pin = Pin("wheel", "turbo", "1.0", wheel.name, wheel.stat().st_size, digest.of_file(wheel), "wheels", ("*",))
    text = pins.dumps(pins.Pins((*lock.packages, pin), lock.stand_ins))
    farm = farm_of(tmp_path, {PINS: text}, clean.home, runner="process")  # nobody builds an image of this lock
    ContentStore(Home(farm.home).store).put_file(wheel)  # as `farm image` fetches what the lock names

    said = build(farm, "--model-licence", "MIT", status=4)

    (error,) = said["errors"]
    assert (error["code"], error["detail"]["file"]) == (Code.LICENCE_DENIED.number, "turbo")
    assert error["detail"]["rule"] == 'imported.deny "GPL-*"'
    assert "its metadata (License-Expression) declares GPL-3.0-only" in error["why"]
    assert error["next"].startswith("Take the package out of the lock")


def test_an_expired_waiver_covers_nothing_and_is_named(clean: Machine, tmp_path: Path) -> None:
    # Given a model of which nobody said the licence, and a waiver for that
    farm = farm_of(tmp_path, state=clean.home)
    build(farm)
    (found,) = findings(farm)
    assert (found["material"], found["rule"]) == ("tiny", "unknown")
    words = ("waive", "bundles/tiny", found["key"], "--reason", "x", "--expires", "9999-12-31")
    for_ever = farm.document(*words, status=2)
    assert for_ever["error"]["code"] == Code.WAIVER_INVALID.number
    old = Waiver(
        found["key"],
        "tiny",
        found["file"],
        found["expression"],
        "unknown",
        "asked the owner",
        "2026-01-01",
        "2026-02-01",
    )
    with client.open_signer(Home(farm.home)) as signer:
        place = farm.home / waivers.FOLDER / "old.json"
        place.parent.mkdir()
        place.write_bytes(signer.waive(old.statement()))

    # When the bundle is judged again with it, long after its last day
    (late,) = findings(farm, "--again")

    # Then the finding is open, and says so
    assert (late["key"], late["rule"], late["waiver"]) == (found["key"], "unknown", None)
    assert late["reason"].endswith("expired on 2026-02-01")
    assert late["remedy"].startswith("Have the waiver renewed")
    error = refused_release(farm)
    assert error["code"] == Code.LICENCE_REVIEW.number
    assert error["detail"]["file"] == "tiny"
    assert "expired on 2026-02-01" in error["why"]
    assert error["next"].startswith("Have the waiver renewed")


def huge() -> str:
    """Megabytes of a licence's words with errors: what ScanCode's approximate matching has most to do with."""
    draw = random.Random(2)
    words = (notice.TEXTS / "Apache-2.0.txt").read_text(encoding="utf-8").replace("*/", "").split()
    spoilt = (f"w{draw.randrange(5000)}" if draw.random() < 0.08 else words[n % len(words)] for n in range(600_000))
    return "".join(word + ("\n" if n % 12 == 11 else " ") for n, word in enumerate(spoilt))


def test_a_huge_file_on_which_the_scanner_runs_out_of_time_wants_a_review(clean: Machine, tmp_path: Path) -> None:
    comment = huge().replace("/*", "")
    farm = farm_of(tmp_path, {SOURCE: f"{text_of(SOURCE)}/* {comment} */\n"}, clean.home)
    build(farm, "--model-licence", "MIT")

    found = findings(farm, "--scan", "--timeout", "1")

    late = [one for one in found if one["file"] == SOURCE]  # on a busy machine another file may be late too
    assert [(one["decision"], one["rule"]) for one in late] == [("review", "timeout")]
    assert late[0]["reason"].startswith("its scan did not come to an end: ")
    assert "--timeout" in late[0]["remedy"]
    assert {one["decision"] for one in found} == {"review"}
    error = refused_release(farm)
    assert error["code"] == Code.LICENCE_REVIEW.number
    assert error["next"]
