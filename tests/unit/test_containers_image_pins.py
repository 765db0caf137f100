"""The lock of the image: read, written, refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from containers.image import pins
from containers.image.pins import Pins
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from toolchains import tools

ROOT = Path(__file__).resolve().parents[2]
DEB = {"name": "libc6", "version": "2.36-9", "file": "libc6.deb", "size": 7, "sha256": "a" * 64, "keep": ["usr/*"]}
WHEEL = {**DEB, "name": "numpy", "file": "numpy.whl", "layer": "wheels", "keep": ["*"], "drop": ["numpy/f2py/*"]}


def test_the_order_of_the_file_means_nothing() -> None:
    document = {"schema": 1, "deb": [DEB, {**DEB, "name": "zlib1g"}], "wheel": [WHEEL]}
    backwards = {"wheel": [WHEEL], "deb": document["deb"][::-1], "schema": 1}  # type: ignore[index]

    assert pins.parse(document) == pins.parse(backwards)
    assert [pin.name for pin in pins.parse(backwards).packages] == ["libc6", "zlib1g", "numpy"]


def test_a_written_lock_reads_as_it_was() -> None:
    own = pins.load()

    assert pins.parse(tomllib.loads(pins.dumps(own))) == own
    assert pins.dumps(own) == pins.LOCK.read_text()


def test_keep_and_drop_decide_about_a_path() -> None:
    pin = pins.parse({"schema": 1, "wheel": [WHEEL]}).packages[0]

    assert pin.wants("numpy/_core/multiarray.py")
    assert not pin.wants("numpy/f2py/main.py")


@pytest.mark.parametrize(
    "document",
    [
        {"schema": 2},
        {},
        {"schema": 1, "deb": [{**DEB, "sha256": "short"}]},
        {"schema": 1, "deb": [{**DEB, "file": "../libc6.deb"}]},
        {"schema": 1, "deb": [{**DEB, "name": "--option"}]},
        {"schema": 1, "wheel": [{**WHEEL, "layer": "other"}]},
        {"schema": 1, "deb": [DEB, DEB]},
        {"schema": 1, "deb": [{"name": "libc6"}]},
        {"schema": 1, "deb": "libc6"},
    ],
)
def test_a_faulty_lock_is_refused(tmp_path: Path, document: dict[str, object]) -> None:
    path = tmp_path / "pins.toml"
    path.write_text(_toml(document))

    with pytest.raises(FarmError) as refusal:
        pins.load(path)

    assert refusal.value.code in (Code.PINS_INVALID, Code.DIGEST_INVALID)


def test_the_image_holds_the_wheels_that_the_environment_is_locked_to() -> None:
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements" / "run.txt").read_text(), re.MULTILINE))
    hashes = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", (ROOT / "requirements" / "run.txt").read_text()))
    wheels = [pin for pin in pins.load().packages if pin.kind == "wheel"]

    assert {pin.name for pin in wheels} >= set(tools.PINNED)
    for pin in wheels:
        assert locked[pin.name.replace("_", "-")] == pin.version
        assert digest.hex_of(pin.digest) in hashes, pin.name


def test_the_image_disassembles_with_the_version_that_the_gate_asks_for() -> None:
    lines = [line.split() for line in (ROOT / "requirements" / "debian.txt").read_text().splitlines()]
    here = {line[0]: tuple(line[1:]) for line in lines if len(line) == 3 and line[0] != "#"}

    for pin in pins.load().packages:
        if pin.name in ("llvm-19", "libllvm19"):
            assert here[pin.name] == (pin.version, digest.hex_of(pin.digest))


def _toml(document: dict[str, object]) -> str:
    lines = [f"schema = {document['schema']}"] if "schema" in document else []
    for kind in ("deb", "wheel"):
        entries = document.get(kind, [])
        if isinstance(entries, str):
            lines.insert(0, f'{kind} = "{entries}"')
            continue
        assert isinstance(entries, list)
        for entry in entries:
            lines += [f"[[{kind}]]", *(f"{key} = {value!r}" for key, value in entry.items())]
    return "\n".join(lines)


def test_an_empty_lock_has_a_text() -> None:
    assert pins.parse(tomllib.loads(pins.dumps(Pins((), ())))) == Pins((), ())
