"""media-run --self-test: the golden vectors against good kernels, wrong kernels, wrong and hostile vectors."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kernelc.numerics import seeded
from kernelfarm.errors import FarmError
from kernelfarm.golden import Case, Golden
from tests.support import device

SEEDS = (3, 1 << 40)
OK, GOLDEN = 0, 22


@cache
def vectors() -> Golden:
    """What the hand-written kernel answers, 2 * (x + w), for two seeded inputs."""
    weights = np.frombuffer(device.WEIGHTS, "<f4").astype(np.float64)
    answers = [(2 * (seeded.uniform(seed, device.N) + weights)).astype("<f4").tobytes() for seed in SEEDS]
    size = 4 * device.N
    return Golden((size,), (size,), tuple(Case((s,), (a,)) for s, a in zip(SEEDS, answers, strict=True)))


def self_test(folder: Path, payload: device.Tiny, *more: str) -> tuple[int, str, str]:
    layout = device.write(folder / "bundle", payload)
    answer = device.run(device.runtime() / "media-run", layout, "--self-test", *more)
    return answer.returncode, answer.stdout, answer.stderr


def with_golden(data: bytes | None = None) -> device.Tiny:
    return replace(device.tiny(), golden=vectors().to_bytes() if data is None else data)


def other_value(case: int, element: int, value: float) -> Golden:
    """The vectors with another expected value in one place."""
    cases = list(vectors().cases)
    changed = np.frombuffer(cases[case].outputs[0], "<f4").copy()
    changed[element] = value
    cases[case] = replace(cases[case], outputs=(changed.tobytes(),))
    return replace(vectors(), cases=tuple(cases))


@pytest.mark.parametrize("more", [(), ("--partitions", "7"), ("--threads", "3")])
def test_good_kernels_pass_and_the_largest_error_is_told(tmp_path: Path, more: tuple[str, ...]) -> None:
    status, said, errors = self_test(tmp_path, with_golden(), *more)

    assert (status, errors) == (0, "")
    assert said.startswith("ok y cases=2 max_abs_error=")
    assert float(said.split("max_abs_error=")[1].split()[0]) < 1e-4  # one rounding of values up to 514


def test_wrong_kernels_fail_with_the_place_and_both_values(tmp_path: Path) -> None:
    wrong = replace(with_golden(), kernels=device.kernels(tmp_path, ["SCALE=2.01f"], "wrong.so"))

    status, said, errors = self_test(tmp_path, wrong)

    assert status == 1
    assert errors == "media-run: E22 golden: a value is outside its tolerance: do not use these kernels here\n"
    found = dict(word.split("=") for word in said.split()[2:])
    assert said.startswith("BAD y cases=2 ")
    assert float(found["max_abs_error"]) == pytest.approx(0.01 * (1023 / 4 + 1), rel=0.01)
    expected = np.frombuffer(vectors().cases[int(found["case"])].outputs[0], "<f4")[int(found["element"])]
    assert float(found["expected"]) == pytest.approx(expected, rel=1e-3)
    assert float(found["answered"]) == pytest.approx(1.005 * expected, rel=1e-3)


@pytest.mark.parametrize(
    ("value", "shown"), [(1e6, "1.000e6"), (float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")]
)
def test_one_wrong_value_in_the_vectors_fails(tmp_path: Path, value: float, shown: str) -> None:
    status, said, _ = self_test(tmp_path, with_golden(other_value(1, 1000, value).to_bytes()))

    assert status == 1
    assert said.startswith("BAD y ")
    assert re.search(r" case=1 element=1000 answered=\d", said)
    assert said.endswith(f" expected={shown}\n")


def test_the_tolerance_is_that_of_the_vectors(tmp_path: Path) -> None:
    expected = np.frombuffer(vectors().cases[0].outputs[0], "<f4")[1000]
    off = other_value(0, 1000, float(expected) * 1.002)  # 0.2 %, where 0.1 % is granted

    assert self_test(tmp_path / "tight", with_golden(off.to_bytes()))[0] == 1
    assert self_test(tmp_path / "loose", with_golden(replace(off, relative=0.003).to_bytes()))[0] == 0


def test_other_seeds_fail(tmp_path: Path) -> None:
    cases = tuple(replace(case, seeds=(case.seeds[0] + 1,)) for case in vectors().cases)

    assert self_test(tmp_path, with_golden(replace(vectors(), cases=cases).to_bytes()))[0] == 1


def test_a_payload_without_vectors_does_not_pass(tmp_path: Path) -> None:
    assert self_test(tmp_path, device.tiny()) == (1, "", "media-run: E22 golden: the payload has no golden vectors\n")


def test_vectors_of_another_model_do_not_pass(tmp_path: Path) -> None:
    half = tuple(replace(case, outputs=(case.outputs[0][:2048],)) for case in vectors().cases)
    more = tuple(replace(case, seeds=(1, 2)) for case in vectors().cases)

    smaller = self_test(tmp_path / "a", with_golden(replace(vectors(), outputs=(2048,), cases=half).to_bytes()))
    another = self_test(tmp_path / "b", with_golden(replace(vectors(), inputs=(4096, 4), cases=more).to_bytes()))

    assert smaller == (1, "", "media-run: E22 golden: y: golden vectors of another size\n")
    assert another == (1, "", "media-run: E22 golden: golden vectors: for another number of tensors\n")


def test_a_changed_byte_is_seen_by_the_digest(tmp_path: Path) -> None:
    payload = with_golden()
    layout = device.write(tmp_path / "bundle", payload)
    device.blob(layout, payload.golden).write_bytes(payload.golden[:-1] + b"\0")

    answer = device.run(device.runtime() / "media-run", layout, "--self-test")

    assert (answer.returncode, answer.stderr.split(":")[1]) == (1, " E10 digest")


def changed(at: int, new: bytes) -> bytes:
    data = small().to_bytes()
    return data[:at] + new + data[at + len(new) :]


def small() -> Golden:
    return Golden((16, 8), (12,), (Case((7, 8), (bytes(12),)), Case((9, 10), (bytes(12),))))


def test_c_and_python_refuse_the_same_hostile_vectors(tmp_path: Path) -> None:
    data = small().to_bytes()
    draw = random.Random(3)
    hostile = [data, data + b"\0", *(data[:n] for n in range(1, len(data)))]
    hostile += [changed(at, bytes([data[at] ^ 1 << at % 8])) for at in range(len(data))]
    hostile += [changed(at, draw.randbytes(8)) for at in range(0, 96, 4) for _ in range(8)]
    hostile += [
        changed(at, struct.pack("<Q", value)) for at in (8, 40, 56) for value in (1 << 63, (1 << 64) - 4, 1 << 39)
    ]
    hostile += [changed(at, struct.pack("<I", value)) for at in (16, 20, 24) for value in (257, 1 << 31, (1 << 32) - 1)]
    paths = [tmp_path / f"g{number}" for number in range(len(hostile))]
    for path, content in zip(paths, hostile, strict=True):
        path.write_bytes(content)

    answer = device.run(device.checked_program("golden"), *paths)

    assert answer.returncode == 0, answer.stderr
    assert [int(line) for line in answer.stdout.split()] == [OK if taken(content) else GOLDEN for content in hostile]


def taken(data: bytes) -> bool:
    read: Callable[[bytes], Golden] = Golden.from_bytes
    try:
        read(data)
    except FarmError:
        return False
    return True
