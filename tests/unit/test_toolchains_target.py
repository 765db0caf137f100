"""Target files: what they say, and that a faulty one is refused with the place of the fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernelfarm.errors import Code, FarmError, Status
from toolchains import features, runtime_build, target
from toolchains.properties import Property
from toolchains.target import Target

FILE = Path(target.__file__).parent / "targets" / "x86-64-v4.toml"


def test_the_targets_are_the_files() -> None:
    assert target.names() == tuple(sorted(path.stem for path in FILE.parent.glob("*.toml")))
    assert {"aarch64", "armv7", "hexagon-v67", "riscv64", "x86-64-v3", "x86-64-v4"} <= set(target.names())


@pytest.mark.parametrize("name", target.names())
def test_every_target_is_read(name: str) -> None:
    assert target.load(name).name == name


def test_a_target_says_what_schedules_and_linking_need() -> None:
    v4 = target.load("x86-64-v4")

    assert (v4.triple, v4.machine, v4.cpu.name, v4.cpu.baseline) == (
        "x86_64-linux-gnu",
        "x86-64",
        "x86-64-v4",
        "x86-64",
    )
    assert (v4.vector.bytes, v4.vector.registers, v4.vector.f32_lanes, v4.vector.register_class) == (64, 32, 16, "zmm")
    assert "-prefer-256-bit" in v4.cpu.feature_string.split(",")
    assert v4.matrix.shapes == ()
    assert v4.hardening.kcfi
    assert (v4.run.emulator, v4.run.oldest_libc) == ((), "glibc-2.17")
    assert (v4.index_bits, v4.vector.fused) == (64, True)
    assert v4.preference > target.load("x86-64-v3").preference


def test_v4_demands_avx512_of_the_device_and_v3_does_not() -> None:
    v3, v4 = (set(target.load(name).cpu.required) for name in ("x86-64-v3", "x86-64-v4"))

    assert {"avx2", "fma", "bmi2"} <= v3
    assert v4 - v3 == {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def test_every_property_is_required_on_x86_64() -> None:
    assert set(target.load("x86-64-v3").hardening.required) == set(Property)


@pytest.mark.parametrize(
    ("name", "bits", "lanes", "registers", "fused", "register_class"),
    [
        ("aarch64", 64, 4, 32, True, "q"),
        ("armv7", 32, 4, 16, False, "q"),
        ("hexagon-v67", 32, 1, 24, True, ""),
        ("riscv64", 64, 4, 32, True, "v"),
    ],
)
def test_the_other_machines_say_their_widths(
    name: str, bits: int, lanes: int, registers: int, fused: bool, register_class: str
) -> None:
    found = target.load(name)
    vector = found.vector

    assert (found.index_bits, vector.f32_lanes, vector.registers) == (bits, lanes, registers)
    assert (vector.fused, vector.register_class) == (fused, register_class)
    assert found.run.emulator_argv[0].startswith("qemu-")
    assert "{cpu}" not in " ".join(found.run.emulator_argv)


def test_what_a_machine_cannot_have_is_said() -> None:
    unguarded = {Property.LANDING_PADS, Property.BRANCH_NOTE, Property.RETURN_NOTE}

    assert target.load("aarch64").hardening.impossible == ()
    assert set(target.load("armv7").hardening.impossible) == unguarded
    assert set(target.load("riscv64").hardening.impossible) == unguarded
    assert set(target.load("hexagon-v67").hardening.impossible) == unguarded | {Property.FULL_WIDTH}


def test_functions_of_aarch64_ask_for_landing_pads_each() -> None:
    assert target.load("aarch64").function_attributes.endswith(
        '"branch-target-enforcement" "sign-return-address"="non-leaf" "sign-return-address-key"="a_key"'
    )


def test_json_gives_the_target_back_with_the_same_digest() -> None:
    v3 = target.load("x86-64-v3")

    again = Target.from_json(v3.to_json())

    assert again == v3
    assert again.digest == v3.digest
    assert v3.digest != target.load("x86-64-v4").digest


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(FarmError) as caught:
        target.load("x86_64-v5")

    assert caught.value.code is Code.TARGET_UNKNOWN
    assert caught.value.status is Status.USAGE
    assert "x86-64-v3" in caught.value.next_step
    assert "x86-64-v4" in caught.value.next_step


@pytest.mark.parametrize("name", ["", "../x86-64-v3", "x86-64-v3.toml", "/etc/passwd", "zzzz"])
def test_a_name_is_never_a_path(name: str) -> None:
    with pytest.raises(FarmError) as caught:
        target.load(name)
    assert caught.value.code is Code.TARGET_UNKNOWN


def test_a_comment_does_not_change_the_digest(tmp_path: Path) -> None:
    copy = tmp_path / FILE.name
    copy.write_text("# another comment\n" + FILE.read_text())

    assert target.read(copy).digest == target.load("x86-64-v4").digest


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("preference = 400", "preference = 400\nspeed = 9", ""),
        ("bytes = 64", "bytes = 64\nlanes = 16", "vector"),
        ("bytes = 64", 'bytes = "64"', "vector.bytes"),
        ("bytes = 64", "bytes = true", "vector.bytes"),
        ("bytes = 64", "bytes = 48", "vector.bytes"),
        ("registers = 32", "registers = 0", "vector.registers"),
        ("fma_ports = 2", "fma_ports = -1", "vector.fma_ports"),
        ("preference = 400", "preference = 70000", "preference"),
        ('machine = "x86-64"', 'machine = "vax"', "machine"),
        ('"avx512vl"]', '"avx512vl", "avx9"]', "cpu.required"),
        ('["+avx"', '["avx"', "cpu.features"),
        ('["+avx", "+avx2"', '["+avx2", "+avx"', "cpu.features"),
        ('"relro", ', "", "hardening"),
        ("impossible = []", 'impossible = ["kcfi"]', "hardening"),
        ('"relro"', '"relroo"', "hardening.required[5]"),
        ("index_bits = 64", "index_bits = 32", "code.index_bits"),
        ("attributes = []", 'attributes = [["a\\" \\"b", ""]]', "code"),
        ("attributes = []", 'attributes = [["a"]]', "code.attributes[0]"),
        ('[8, "cf-protection-branch", 1]', '[9, "cf-protection-branch", 1]', "code.module_flags"),
        ("emulator = []", 'emulator = ["/bin/sh"]', "run.emulator"),
        ('cpu = ""', 'cpu = "max"', "run.cpu"),
        ("l1d_bytes = 32768", "l1d_bytes = -1", "memory"),
        ('oldest_libc = "glibc-2.17"', "", "run"),
        ("[matrix]", 'schema = "target/9"\n[matrix]', "memory"),
        ('name = "x86-64-v4"', 'name = "x86-64-v9"', "name"),
        ("[vector]", "[vector", ""),
    ],
)
def test_a_faulty_file_is_refused_at_its_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    text = FILE.read_text()
    assert old in text
    copy = tmp_path / FILE.name
    copy.write_text(text.replace(old, new, 1))

    with pytest.raises(FarmError) as caught:
        target.read(copy)

    assert caught.value.code is Code.TARGET_INVALID
    assert caught.value.detail["file"] == "x86-64-v4.toml"
    assert caught.value.detail["key"] == key


def test_a_target_from_a_request_is_checked_like_a_file() -> None:
    data = target.load("x86-64-v3").to_json()
    data["vector"]["bytes"] = 48

    with pytest.raises(FarmError) as caught:
        Target.from_json(data)
    assert caught.value.code is Code.TARGET_INVALID


@pytest.mark.parametrize("machine", ["aarch64", "armv7", "x86-64"])
def test_feature_bits_are_those_that_the_device_probes(machine: str) -> None:
    defined = (runtime_build.source_root() / "src" / f"cpu_{machine.replace('-', '_')}.def").read_text()
    pairs = re.findall(r'^KF_FEATURE\((\d+), "([^"]+)"', defined, flags=re.MULTILINE)

    assert [(int(bit), name) for bit, name in pairs] == list(enumerate(features.known(machine)))


def test_a_mask_and_its_names_are_inverse() -> None:
    v4 = target.load("x86-64-v4")
    mask = features.mask("x86-64", v4.cpu.required)

    assert mask == (1 << 18) - 1
    assert set(features.names("x86-64", mask)) == set(v4.cpu.required)
    assert features.names("x86-64", 1 << 63 | 1) == ("sse3", "bit 63")
