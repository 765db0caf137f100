"""What a release changes for who uses the one before: major, minor or patch, and why. Pure.

The rules, and the reasons for them, are docs/adr/0024-releases-and-the-registry.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import ClassVar

from farm.release.versions import Level
from kernelfarm.digest import Digest


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output as a caller sees it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {'x'.join(map(str, self.shape))}"


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What a caller can notice of one target's payload.

    `cpu_features` is a mask of what every variant of the payload requires; `api_version` that of media_engine.h;
    `golden` the digest of golden.bin, `absolute` and `relative` its tolerance.
    """

    payload: Digest
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ir_version: str
    abi_version: int
    api_version: int
    machine: int
    cpu_features: int
    golden: Digest
    absolute: float
    relative: float


@dataclass(frozen=True, slots=True)
class Interface:
    """A bundle as its users see it: what each target's payload promises, by target."""

    SCHEMA: ClassVar[str] = "interface/1"
    name: str
    targets: tuple[tuple[str, TargetFacts], ...]

    def payloads(self) -> dict[str, Digest]:
        """The payloads' digests by target."""
        return {name: facts.payload for name, facts in self.targets}


class Numbers(Enum):
    """How the expected outputs of two releases compare on the same inputs."""

    SAME = "the same"
    WITHIN = "within the tolerance"
    BEYOND = "beyond the tolerance"
    INCOMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Change:
    """One change: how much it means, and a phrase that says what."""

    level: Level
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """All changes, the weightiest first."""

    changes: tuple[Change, ...]

    @property
    def level(self) -> Level:
        """The highest level of a change; NONE when every payload is the same."""
        return max((change.level for change in self.changes), default=Level.NONE)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The phrases, each with its level."""
        return tuple(f"{change.level.word}: {change.why}" for change in self.changes)


def compare(old: Interface, new: Interface, numbers: Mapping[str, Numbers]) -> Verdict:
    """What `new` changes for users of `old`; `numbers` says by target how the expected outputs compare."""
    found: list[Change] = []
    before, after = dict(old.targets), dict(new.targets)
    if old.name != new.name:
        found.append(Change(Level.MAJOR, f"the name was {old.name}, it is {new.name}"))
    for name in sorted({*before, *after}):
        if name not in after:
            found.append(Change(Level.MAJOR, f"the target {name} is dropped"))
        elif name not in before:
            found.append(Change(Level.MINOR, f"the target {name} is new"))
        elif before[name].payload != after[name].payload:
            changes = list(_target(before[name], after[name], numbers.get(name, Numbers.INCOMPARABLE)))
            changes = changes or [Change(Level.PATCH, "other bytes behind the same interface")]
            found += [Change(change.level, f"{name}: {change.why}") for change in changes]
    return Verdict(_merged(found, shared=sorted(set(before) & set(after))))


def _target(old: TargetFacts, new: TargetFacts, numbers: Numbers) -> Iterator[Change]:
    yield from _tensors("input", old.inputs, new.inputs)
    yield from _tensors("output", old.outputs, new.outputs)
    yield from _version("IR", old.ir_version, new.ir_version)
    if old.abi_version != new.abi_version:
        yield Change(Level.MAJOR, f"the kernel ABI was {old.abi_version}, it is {new.abi_version}")
    if old.api_version != new.api_version:
        level = Level.MINOR if new.api_version > old.api_version else Level.MAJOR
        yield Change(level, f"the API version was {old.api_version}, it is {new.api_version}")
    if old.machine != new.machine:
        yield Change(Level.MAJOR, f"it was for ELF machine {old.machine}, it is for {new.machine}")
    elif new.cpu_features & ~old.cpu_features:
        yield Change(Level.MAJOR, "it asks for CPU features that it did not ask for")
    elif old.cpu_features & ~new.cpu_features:
        yield Change(Level.MINOR, "it runs on processors that it did not run on")
    if new.absolute > old.absolute or new.relative > old.relative:
        yield Change(Level.MAJOR, "its tolerance is wider")
    elif new.absolute < old.absolute or new.relative < old.relative:
        yield Change(Level.MINOR, "its tolerance is narrower")
    if numbers is Numbers.BEYOND:
        yield Change(Level.MINOR, "it answers the same inputs differently, beyond the tolerance")
    elif numbers is Numbers.WITHIN:
        yield Change(Level.PATCH, "its expected answers differ within the tolerance")
    elif numbers is Numbers.INCOMPARABLE and (old.inputs, old.outputs) == (new.inputs, new.outputs):
        yield Change(Level.MINOR, "its answers cannot be compared with those before")


def _tensors(kind: str, old: tuple[Tensor, ...], new: tuple[Tensor, ...]) -> Iterator[Change]:
    """Callers give and take tensors by position and in full number, and may look them up by name."""
    for number, (before, after) in enumerate(zip_longest(old, new), 1):
        if after is None:
            yield Change(Level.MAJOR, f"the {kind} {before.name!r} is gone")
        elif before is None:
            yield Change(Level.MAJOR, f"the {kind} {after.name!r} is new, and callers must give all of them")
        else:
            if before.name != after.name:
                yield Change(Level.MAJOR, f"{kind} {number} was named {before.name!r}, it is {after.name!r}")
            if before.dtype != after.dtype:
                yield Change(Level.MAJOR, f"the {kind} {after.name!r} was {before.dtype}, it is {after.dtype}")
            if before.shape != after.shape:
                yield Change(Level.MAJOR, f"the {kind} {after.name!r} was {before}, it is {after}")


def _version(what: str, old: str, new: str) -> Iterator[Change]:
    """A device refuses another major number, and takes any other."""
    if old == new:
        return
    parts = zip(old.split("."), new.split("."), (Level.MAJOR, Level.MINOR, Level.PATCH), strict=True)
    level = next(level for before, after, level in parts if before != after)
    yield Change(level, f"the {what} version was {old}, it is {new}")


def _merged(found: list[Change], shared: list[str]) -> tuple[Change, ...]:
    """What all targets of both releases share is said once; weightiest first, then in the order of the words."""
    heads: dict[Change, list[str]] = {}
    rest: list[Change] = []
    for change in found:
        target, colon, text = change.why.partition(": ")
        if colon and target in shared:
            heads.setdefault(Change(change.level, text), []).append(target)
        else:
            rest.append(change)
    for change, targets in heads.items():
        where = "every target" if len(shared) > 1 and targets == shared else ", ".join(targets)
        rest.append(Change(change.level, f"{where}: {change.why}"))
    return tuple(sorted(rest, key=lambda change: (-change.level, change.why)))
