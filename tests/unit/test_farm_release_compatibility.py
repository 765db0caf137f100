"""What a release changes: pairs of releases, each with the bump that it needs and the reason that is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from farm.release import facts
from farm.release.compatibility import Interface, Numbers, TargetFacts, Tensor, compare
from farm.release.versions import Level
from kernelfarm import canonical, digest
from kernelfarm.golden import Case, Golden

IMAGE = Tensor("image", "f32", (1, 3, 48, 192))
SCORES = Tensor("scores", "f32", (1, 1000))
A = TargetFacts(
    payload=digest.of_bytes(b"a"),
    inputs=(IMAGE,),
    outputs=(SCORES,),
    ir_version="1.2.3",
    abi_version=1,
    api_version=1,
    machine=62,
    cpu_features=0b0111,
    golden=digest.of_bytes(b"golden"),
    absolute=1e-4,
    relative=1e-3,
)
B = replace(A, payload=digest.of_bytes(b"b"), machine=183, cpu_features=0b1)
OLD = Interface("cls", (("x86-64-v3", A), ("aarch64", B)))


def other(base: TargetFacts = A, **changes: object) -> TargetFacts:
    """A target's facts whose bytes differ too."""
    return replace(base, payload=digest.of_bytes(repr(changes).encode()), **changes)  # type: ignore[arg-type]


def pair(first: TargetFacts = A, second: TargetFacts = B, **more: TargetFacts) -> Interface:
    return Interface("cls", (("x86-64-v3", first), ("aarch64", second), *more.items()))


SAME, WITHIN, BEYOND, UNKNOWN = Numbers.SAME, Numbers.WITHIN, Numbers.BEYOND, Numbers.INCOMPARABLE
PAIRS = [
    ("nothing changed", OLD, SAME, Level.NONE, None),
    ("other bytes", pair(other()), SAME, Level.PATCH, "x86-64-v3: other bytes behind the same interface"),
    (
        "both in other bytes",
        pair(other(), other(B)),
        SAME,
        Level.PATCH,
        "every target: other bytes behind the same interface",
    ),
    (
        "the other target in other bytes",
        pair(A, other(B)),
        SAME,
        Level.PATCH,
        "aarch64: other bytes behind the same interface",
    ),
    (
        "answers within the tolerance",
        pair(other(golden=digest.of_bytes(b"g"))),
        WITHIN,
        Level.PATCH,
        "x86-64-v3: its expected answers differ within the tolerance",
    ),
    (
        "answers beyond the tolerance",
        pair(other(golden=digest.of_bytes(b"g"))),
        BEYOND,
        Level.MINOR,
        "x86-64-v3: it answers the same inputs differently, beyond the tolerance",
    ),
    (
        "answers that cannot be compared",
        pair(other(golden=digest.of_bytes(b"g"))),
        UNKNOWN,
        Level.MINOR,
        "x86-64-v3: its answers cannot be compared with those before",
    ),
    ("a dropped target", Interface("cls", (("x86-64-v3", A),)), SAME, Level.MAJOR, "the target aarch64 is dropped"),
    ("a new target", pair(riscv64=other(B)), SAME, Level.MINOR, "the target riscv64 is new"),
    (
        "a new target, another dropped",
        Interface("cls", (("x86-64-v3", A), ("riscv64", B))),
        SAME,
        Level.MAJOR,
        "the target aarch64 is dropped",
    ),
    (
        "a renamed target",
        Interface("cls", (("x86-64-v4", A), ("aarch64", B))),
        SAME,
        Level.MAJOR,
        "the target x86-64-v3 is dropped",
    ),
    (
        "a renamed input",
        pair(other(inputs=(replace(IMAGE, name="picture"),))),
        SAME,
        Level.MAJOR,
        "x86-64-v3: input 1 was named 'image', it is 'picture'",
    ),
    (
        "a renamed output",
        pair(other(outputs=(replace(SCORES, name="classes"),))),
        SAME,
        Level.MAJOR,
        "x86-64-v3: output 1 was named 'scores', it is 'classes'",
    ),
    (
        "another input shape",
        pair(other(inputs=(replace(IMAGE, shape=(1, 3, 48, 320)),))),
        UNKNOWN,
        Level.MAJOR,
        "x86-64-v3: the input 'image' was f32 1x3x48x192, it is f32 1x3x48x320",
    ),
    (
        "another rank",
        pair(other(inputs=(replace(IMAGE, shape=(3, 48, 192)),))),
        UNKNOWN,
        Level.MAJOR,
        "x86-64-v3: the input 'image' was f32 1x3x48x192, it is f32 3x48x192",
    ),
    (
        "more classes",
        pair(other(outputs=(replace(SCORES, shape=(1, 1001)),))),
        UNKNOWN,
        Level.MAJOR,
        "x86-64-v3: the output 'scores' was f32 1x1000, it is f32 1x1001",
    ),
    (
        "another input type",
        pair(other(inputs=(replace(IMAGE, dtype="u8"),))),
        UNKNOWN,
        Level.MAJOR,
        "x86-64-v3: the input 'image' was f32, it is u8",
    ),
    (
        "another output type",
        pair(other(outputs=(replace(SCORES, dtype="f16"),))),
        UNKNOWN,
        Level.MAJOR,
        "x86-64-v3: the output 'scores' was f32, it is f16",
    ),
    (
        "one input more",
        pair(other(inputs=(IMAGE, Tensor("mask", "f32", (1, 1))))),
        UNKNOWN,
        Level.MAJOR,
        "x86-64-v3: the input 'mask' is new, and callers must give all of them",
    ),
    (
        "one output more",
        pair(other(outputs=(SCORES, Tensor("boxes", "f32", (1, 4))))),
        UNKNOWN,
        Level.MAJOR,
        "x86-64-v3: the output 'boxes' is new, and callers must give all of them",
    ),
    ("no input any more", pair(other(inputs=())), UNKNOWN, Level.MAJOR, "x86-64-v3: the input 'image' is gone"),
    (
        "IR patch",
        pair(other(ir_version="1.2.4")),
        SAME,
        Level.PATCH,
        "x86-64-v3: the IR version was 1.2.3, it is 1.2.4",
    ),
    (
        "IR minor",
        pair(other(ir_version="1.3.0")),
        SAME,
        Level.MINOR,
        "x86-64-v3: the IR version was 1.2.3, it is 1.3.0",
    ),
    (
        "IR major",
        pair(other(ir_version="2.0.0")),
        SAME,
        Level.MAJOR,
        "x86-64-v3: the IR version was 1.2.3, it is 2.0.0",
    ),
    (
        "IR back by a major",
        pair(other(ir_version="0.9.0")),
        SAME,
        Level.MAJOR,
        "x86-64-v3: the IR version was 1.2.3, it is 0.9.0",
    ),
    ("another ABI", pair(other(abi_version=2)), SAME, Level.MAJOR, "x86-64-v3: the kernel ABI was 1, it is 2"),
    ("a longer API", pair(other(api_version=2)), SAME, Level.MINOR, "x86-64-v3: the API version was 1, it is 2"),
    ("a shorter API", pair(other(api_version=0)), SAME, Level.MAJOR, "x86-64-v3: the API version was 1, it is 0"),
    (
        "more CPU features demanded",
        pair(other(cpu_features=0b1111)),
        SAME,
        Level.MAJOR,
        "x86-64-v3: it asks for CPU features that it did not ask for",
    ),
    (
        "other CPU features demanded",
        pair(other(cpu_features=0b1011)),
        SAME,
        Level.MAJOR,
        "x86-64-v3: it asks for CPU features that it did not ask for",
    ),
    (
        "fewer CPU features demanded",
        pair(other(cpu_features=0b0011)),
        SAME,
        Level.MINOR,
        "x86-64-v3: it runs on processors that it did not run on",
    ),
    (
        "another machine",
        pair(other(machine=40)),
        SAME,
        Level.MAJOR,
        "x86-64-v3: it was for ELF machine 62, it is for 40",
    ),
    ("a wider tolerance", pair(other(relative=1e-2)), SAME, Level.MAJOR, "x86-64-v3: its tolerance is wider"),
    ("a narrower tolerance", pair(other(absolute=1e-5)), SAME, Level.MINOR, "x86-64-v3: its tolerance is narrower"),
    ("another name", replace(OLD, name="det"), SAME, Level.MAJOR, "the name was cls, it is det"),
]


@pytest.mark.parametrize(("new", "numbers", "level", "why"), [row[1:] for row in PAIRS], ids=[row[0] for row in PAIRS])
def test_a_pair_of_releases_has_the_bump_that_it_needs(
    new: Interface, numbers: Numbers, level: Level, why: str | None
) -> None:
    verdict = compare(OLD, new, {"x86-64-v3": numbers, "aarch64": Numbers.SAME})

    assert verdict.level is level
    if why is None:
        assert verdict.reasons == ()
    else:
        assert f"{level.word}: {why}" == verdict.reasons[0]


def test_there_are_at_least_thirty_pairs() -> None:
    assert len(PAIRS) >= 30


def test_the_order_of_the_tensors_matters_as_callers_give_them_by_position() -> None:
    two = (IMAGE, Tensor("mask", "f32", (1, 3, 48, 192)))
    old = pair(replace(A, inputs=two))
    assert compare(old, pair(other(inputs=two[::-1])), {}).level is Level.MAJOR


def test_an_interface_is_read_back_from_its_record() -> None:
    assert canonical.decode(Interface, canonical.encode(OLD)) == OLD


def golden(*answers: float, seed: int = 1) -> Golden:
    import struct

    return Golden((4,), (4 * len(answers),), (Case((seed,), (struct.pack(f"<{len(answers)}f", *answers),)),))


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (golden(1.0, -2.0), Numbers.SAME),
        (golden(1.0005, -2.001), Numbers.WITHIN),
        (golden(1.01, -2.0), Numbers.BEYOND),
        (golden(1.0, float("nan")), Numbers.BEYOND),
        (golden(1.0, -2.0, seed=2), Numbers.INCOMPARABLE),
        (golden(1.0, -2.0, 0.0), Numbers.INCOMPARABLE),
    ],
)
def test_expected_answers_are_compared_within_the_tolerance(new: Golden, expected: Numbers) -> None:
    assert facts.compare_goldens(golden(1.0, -2.0), new) is expected
