"""The runtime on every machine: small functions and digests, a tiny bundle, CPU features, hostile bundles."""

from __future__ import annotations

import random
import re
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import device, emulated
from tests.support.device import Tiny
from toolchains import features
from toolchains.machines import MACHINES
from toolchains.target import Target

NAMED = frozenset(range(1, 22))
"""Codes of the runtime that are an answer; a crash would show as a signal."""
DIGEST, CPU, ELF, POLICY, NOT_ADMITTED, TABLE = 10, 14, 16, 17, 19, 18
TABLE_AT, TEXT = 0x20000, 0x10000


@pytest.fixture(params=emulated.NAMES)
def goal(request: pytest.FixtureRequest) -> Target:
    return emulated.load(request.param)


@pytest.fixture
def bundle(goal: Target, tmp_path: Path) -> Path:
    return device.write(tmp_path / "bundle", device.tiny(goal))


def probe(goal: Target, *folders: Path) -> list[int]:
    """The runtime's answer to each folder."""
    answer = emulated.run(goal, device.program("probe", goal=goal), *folders)
    assert answer.returncode == 0, f"died after {len(answer.stdout.split())} bundles: {answer.stderr}"
    return [int(line) for line in answer.stdout.split()]


def test_small_functions_hold_and_digests_are_the_known_ones(goal: Target) -> None:
    answer = emulated.run(goal, device.program("units", goal=goal))

    assert (answer.returncode, answer.stdout) == (0, "")


def test_media_run_computes_what_the_kernels_say(goal: Target, bundle: Path, tmp_path: Path) -> None:
    x, y = tmp_path / "x.bin", tmp_path / "y.bin"
    x.write_bytes(device.INPUT)
    program = device.runtime(goal) / "media-run"

    for ranges in ("1", "3"):
        answer = emulated.run(goal, program, bundle, "--input", f"x={x}", "--output", f"y={y}", "--partitions", ranges)
        assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr
        assert y.read_bytes() == device.EXPECTED
    timed = emulated.run(goal, program, bundle, "--input", f"x={x}", "--repeat", "3")
    assert re.fullmatch(r"time repeat=3( \w+_ns=[1-9]\d*){4}\n", timed.stdout)


def test_the_interface_works_from_c99_and_null_arguments_give_codes(goal: Target, bundle: Path) -> None:
    answer = emulated.run(goal, device.program("capi", "-std=c99", goal=goal), bundle)

    assert answer.returncode == 0, f"check at line {answer.returncode} (modulo 256) of capi.c failed"


def test_the_emulated_processor_has_what_the_target_requires_and_no_more_is_believed(
    goal: Target, tmp_path: Path
) -> None:
    known = features.known(goal.machine)
    wanted = features.mask(goal.machine, goal.cpu.required)
    good = device.write(tmp_path / "good", replace(device.tiny(goal), cpu_features=wanted))
    other = device.write(tmp_path / "other", replace(device.tiny(goal), cpu_features=1 << len(known)))
    program = device.runtime(goal) / "media-run"

    assert emulated.run(goal, program, good, "--list").returncode == 0
    refused = emulated.run(goal, program, other, "--list")
    assert refused.returncode == 4
    assert f"lacks what tiny needs: feature {len(known)}" in refused.stderr


@pytest.mark.parametrize(
    ("name", "cpu", "lacks"),
    [
        ("aarch64", "cortex-a53", "atomics"),
        ("armv7", "cortex-a8", ""),
        ("armv7", "cortex-a9,neon=off", "neon"),
        ("riscv64", "rv64", "v"),
        ("hexagon-v67", "v67", ""),
    ],
)
def test_a_processor_without_a_feature_is_told_before_anything_is_mapped(
    tmp_path: Path, name: str, cpu: str, lacks: str
) -> None:
    goal = emulated.load(name)
    broken = Tiny(
        b"not a kernel object",
        cpu_features=features.mask(goal.machine, goal.cpu.required),
        machine=MACHINES[goal.machine].elf_machine,
    )

    answer = emulated.run(
        goal, device.runtime(goal) / "media-run", device.write(tmp_path / "b", broken), "--list", cpu=cpu
    )

    assert answer.returncode == (4 if lacks else 1)
    assert (f"E{CPU} cpu" if lacks else f"E{ELF} elf") in answer.stderr
    assert re.search(rf"needs:.*\b{lacks}\b", answer.stderr) is not None or not lacks


def test_flips_of_blobs_are_seen_by_their_digests(goal: Target, bundle: Path) -> None:
    tiny = device.tiny(goal)
    for data in (tiny.header().to_bytes(), tiny.kernels, tiny.weights):
        place = device.blob(bundle, data)
        at = random.Random(3).randrange(len(data))
        place.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        assert probe(goal, bundle) == [DIGEST]
        place.write_bytes(data)


def test_no_flip_of_headers_or_table_with_the_right_digest_crashes(goal: Target, tmp_path: Path) -> None:
    tiny = device.tiny(goal)
    places = [*range(0, 0x300, 5), *range(TABLE_AT, TABLE_AT + 0x308, 5)]
    folders = [
        device.write(tmp_path / f"k{k}", replace(tiny, kernels=changed))
        for k, changed in enumerate(device.flips(tiny.kernels, places))
    ]

    codes = probe(goal, *folders)

    assert len(codes) == len(places)
    assert set(codes) <= NAMED | {0}
    assert {ELF, POLICY, TABLE} <= set(codes)
    shutil.rmtree(tmp_path)


def test_another_word_size_another_machine_and_a_foreign_relocation_are_refused(goal: Target, tmp_path: Path) -> None:
    tiny = device.tiny(goal)
    relocation = struct.pack("<Q" if MACHINES[goal.machine].bits == 64 else "<I", MACHINES[goal.machine].relative)
    at = tiny.kernels.index(relocation, 0x100)
    while at < 0x10000 and at % 4:
        at = tiny.kernels.index(relocation, at + 1)
    changes = {
        "class": (4, b"\1" if tiny.kernels[4] == 2 else b"\2", ELF),
        "machine": (18, struct.pack("<H", 3), ELF),
        "type": (16, struct.pack("<H", 2), ELF),
        "relocation": (at, b"\5", POLICY),
    }

    folders = [
        device.write(tmp_path / name, device.changed(tiny, place, new)) for name, (place, new, _) in changes.items()
    ]

    assert probe(goal, *folders) == [code for _, _, code in changes.values()]


def test_a_function_of_another_type_or_place_is_not_admitted(goal: Target, tmp_path: Path) -> None:
    tiny = device.tiny(goal)
    first = tiny.kernels.index(struct.pack("<I", 1774936839), TEXT)
    changes = {
        "another id before the code": (first, struct.pack("<I", 251140989)),
        "another type in the table": (TABLE_AT + 88 + 8, struct.pack("<I", 251140989)),
    }
    if MACHINES[goal.machine].landing_pads:
        changes["no landing pad"] = (first + 4, b"\x1f\x20\x03\xd5")

    folders = [device.write(tmp_path / name, device.changed(tiny, *change)) for name, change in changes.items()]

    assert probe(goal, *folders) == [NOT_ADMITTED] * len(changes)
