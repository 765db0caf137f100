"""Semantic versions (semver.org, 2.0.0): which one comes next. Pure; the only module that imports `semver`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import semver

from kernelfarm.errors import Code, FarmError

FIRST = "1.0.0"
"""The first release of a name, unless somebody asks for another."""


class Level(IntEnum):
    """How much a release changes for who uses it."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3

    @property
    def word(self) -> str:
        """ "patch" and so on."""
        return self.name.lower()


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A version by its precedence: build metadata ("+...") is kept in `text` and counts for nothing."""

    text: str

    @property
    def _parsed(self) -> semver.Version:
        return semver.Version.parse(self.text)

    @property
    def core(self) -> Version:
        """MAJOR.MINOR.PATCH alone."""
        return Version(str(self._parsed.finalize_version()))

    @property
    def prerelease(self) -> str:
        """ "rc.1" of 1.0.0-rc.1; empty for a final version."""
        return self._parsed.prerelease or ""

    @property
    def tag(self) -> str:
        """The tag in a registry: one for each precedence, so that 1.0.0+a and 1.0.0+b cannot both have one."""
        return str(self._parsed.replace(build=None))

    def raised(self, level: Level) -> Version:
        """The next core after this one. At 0.y.z a major change raises y and any other z, as nothing is promised."""
        found = self._parsed.finalize_version()
        if level is Level.NONE:
            return Version(str(found))
        if found.major == 0:
            return Version(str(found.bump_minor() if level is Level.MAJOR else found.bump_patch()))
        bump = {Level.PATCH: found.bump_patch, Level.MINOR: found.bump_minor, Level.MAJOR: found.bump_major}[level]
        return Version(str(bump()))

    def __lt__(self, other: Version) -> bool:
        return self._parsed.compare(other._parsed) < 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._parsed.compare(other._parsed) == 0

    def __hash__(self) -> int:
        return hash(self.tag)

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Version:
    """The version that `text` spells; raises `FarmError` VERSION_INVALID."""
    try:
        semver.Version.parse(text)
        if not text.isascii():
            raise ValueError("it has letters beyond ASCII")
        if len(text) > 100:
            raise ValueError("it is longer than 100 characters")
    except (ValueError, TypeError) as reason:
        why = f"it is no semantic version as semver.org has it ({reason})"
        raise FarmError(Code.VERSION_INVALID, f"{text!r} is not a version", why, "Write it like 1.2.0.") from reason
    return Version(text)


def is_version(text: str) -> bool:
    """Whether a text is a semantic version."""
    try:
        parse(text)
    except FarmError:
        return False
    return True


def last_final(released: Iterable[Version]) -> Version | None:
    """The highest version that is no pre-release: what the next one is compared with."""
    return max((version for version in released if not version.prerelease), default=None)


def compared_with(released: Iterable[Version]) -> set[Version]:
    """Whose content counts for the next release: the last two final ones, and what announces the next."""
    known = sorted(released)
    finals = [version for version in known if not version.prerelease][-2:]
    return {*finals, *(version for version in known if version.prerelease and (not finals or version > finals[-1]))}


def following(released: Sequence[Version], base: Version | None, level: Level, pre: str = "") -> Version:
    """The next version after those released, for a change of this level since the final release `base`.

    `pre` is the word of a pre-release ("rc"): the first is -rc.1. A core that a pre-release announced is kept, even
    where less would do now, and final releases after `base`, which were not published, keep their numbers. Raises
    `FarmError` VERSION_NOT_NEXT when the result does not come after all others.
    """
    final = last_final(released)
    taken = [version.core for version in released if version.prerelease and (base is None or version > base)]
    if final is not None and final != base:
        taken.append(final.raised(Level.PATCH))
    core = max(taken, default=parse(FIRST)) if base is None else max([base.raised(level), *taken])
    chosen = core
    if pre:
        numbers = [_number(version, core, pre) for version in released]
        chosen = parse(f"{core}-{pre}.{max(numbers, default=0) + 1}")
    require_next(chosen, released)
    return chosen


def require_next(version: Version, released: Sequence[Version]) -> None:
    """Raise `FarmError` VERSION_NOT_NEXT unless the version comes after all that were released."""
    if released and version <= max(released):
        why = f"{max(released)} was released, and semver.org's precedence puts {version} not after it"
        advice = "Choose a higher --version; build metadata (+...) does not count."
        raise FarmError(Code.VERSION_NOT_NEXT, f"{version} cannot be the next version", why, advice)


def require_level(version: Version, base: Version | None, level: Level, reasons: Sequence[str]) -> None:
    """Raise `FarmError` BUMP_TOO_LOW when a version hides a change of this level since the final release `base`."""
    if base is None:
        return
    least = base.raised(level)
    if version.core < least:
        why = f"since {base}, {'; '.join(reasons) or f'{level.word}: other bytes'}"
        advice = f"Release it as {least} or higher, or with --bump auto."
        detail = {"version": str(version), "least": str(least), "level": level.word, "reasons": list(reasons)}
        raise FarmError(Code.BUMP_TOO_LOW, f"{version} would hide a change", why, advice, detail)


def _number(version: Version, core: Version, pre: str) -> int:
    """N of CORE-pre.N; 0 for any other version."""
    head, dot, number = version.prerelease.rpartition(".")
    return int(number) if version.core == core and dot and head == pre and number.isdigit() else 0
