"""Release channels: what each demands of a release, from a TOML file or as built in.

schema = "release-channels/1"

[channels.stable]
targets = ["x86-64-v3", "aarch64"]      # payloads that must be there; ["all"]: every target of this farm
final = true                            # whether a version like 1.2.0 may go there, which `farm lock` takes as the last
prerelease = false                      # whether a version like 1.2.0-rc.1 may go there
builds = 2                              # agreeing builds of each payload
apart = "worker"                        # what must differ between them: "worker" or "host"
sealed = true                           # every payload comes from a sandbox (runner docker or bubblewrap)
licences = true                         # every payload's licence verdict allows it; without: none denies it
licence_policies = ["sha256:..."]       # policies whose verdicts count; without: the one of this farm
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from farm.release.versions import Version
from kernelfarm import digest, nouns
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from toolchains import target

STABLE = "stable"
_SCHEMA = "release-channels/1"
_MOST_BUILDS = 16
_KEYS = {"targets", "final", "prerelease", "builds", "apart", "sealed", "licences", "licence_policies"}


class Apart(Enum):
    """What must differ between two builds that count as two."""

    WORKER = "worker"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Channel:
    """What a channel demands. `targets` are sorted; `builds` is at least 2: one build agrees with nothing.

    `policies` are the digests of the licence policies whose verdicts count, none: that of this farm.
    """

    name: str
    targets: tuple[str, ...] = ()
    final: bool = True
    prerelease: bool = True
    builds: int = 2
    apart: Apart = Apart.WORKER
    sealed: bool = False
    licences: bool = False
    policies: tuple[Digest, ...] = ()

    def require_targets(self, present: Sequence[str]) -> str:
        """Raise `FarmError` TARGETS_INCOMPLETE when a demanded target has no payload; else what was found."""
        if missing := sorted(set(self.targets) - set(present)):
            advice = f"Build the model for {', '.join(missing)} too, or release it to another --channel."
            what = f"the channel {self.name} demands more targets"
            why = f"there is no payload for {', '.join(missing)}"
            raise FarmError(Code.TARGETS_INCOMPLETE, what, why, advice, {"missing": missing, "channel": self.name})
        demanded = f", all of {', '.join(self.targets)} among them" if self.targets else ", none demanded"
        return f"{len(present)} targets{demanded}"

    def require_version(self, version: Version) -> None:
        """Raise `FarmError` CHANNEL_REFUSED for a pre-release where only final versions go, or the reverse."""
        if not version.prerelease and not self.final:
            advice = "Give --pre rc, or choose another --channel."
            what = f"the channel {self.name} takes pre-releases alone"
            raise FarmError(
                Code.CHANNEL_REFUSED, what, f"{version} is none: consumers would take it as the last", advice
            )
        if version.prerelease and not self.prerelease:
            advice = "Leave --pre out, or choose another --channel."
            what = f"the channel {self.name} takes no pre-release"
            raise FarmError(Code.CHANNEL_REFUSED, what, f"{version} is one", advice)


def built_in() -> dict[str, Channel]:
    """`stable`: final versions for every target of this farm, from a sandbox. `preview`: pre-releases of whatever two
    builds give.
    """
    return {
        STABLE: Channel(STABLE, target.names(), prerelease=False, sealed=True, licences=True),
        "preview": Channel("preview", final=False),
    }


def choose(name: str, path: Path | None) -> Channel:
    """The channel `name` of a file, or of those built in; raises `FarmError` CHANNELS_INVALID, USAGE."""
    known = built_in() if path is None else load(path)
    if name not in known:
        why = f"there are {', '.join(sorted(known))}"
        raise FarmError(Code.USAGE, f"there is no channel {name!r}", why, "Give one of them as --channel.")
    return known[name]


def load(path: Path) -> dict[str, Channel]:
    """The channels in a file by name; raises `FarmError` CHANNELS_INVALID, which says what is wrong."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as reason:
        raise _invalid(path, str(reason)) from reason
    if data.get("schema") != _SCHEMA or set(data) != {"schema", "channels"} or not isinstance(data["channels"], dict):
        raise _invalid(path, f'it is not schema = "{_SCHEMA}" and tables [channels.NAME]')
    return {name: _channel(path, name, value) for name, value in sorted(data["channels"].items())}


def _channel(path: Path, name: str, value: Any) -> Channel:
    if not isinstance(value, Mapping):
        raise _invalid(path, f"{name} is no table")
    try:
        nouns.require_file_name(name)
    except FarmError as reason:
        raise _invalid(path, f"{reason.what}: {reason.why}") from reason
    if unknown := sorted(set(value) - _KEYS):
        raise _invalid(path, f"{name}: the key {unknown[0]} is unknown")
    targets, final, prerelease = value.get("targets", []), value.get("final", True), value.get("prerelease", True)
    builds, apart = value.get("builds", 2), value.get("apart", Apart.WORKER.value)
    if not isinstance(targets, list) or not all(isinstance(item, str) for item in targets):
        raise _invalid(path, f"{name}: targets is no list of texts")
    for key in ("final", "prerelease", "sealed", "licences"):
        if type(value.get(key, False)) is not bool:
            raise _invalid(path, f"{name}: {key} is neither true nor false")
    policies = value.get("licence_policies", [])
    try:
        counted = tuple(sorted(digest.parse(str(item)) for item in policies))
    except (TypeError, FarmError) as reason:
        raise _invalid(path, f"{name}: licence_policies is no list of digests") from reason
    if type(builds) is not int or not 2 <= builds <= _MOST_BUILDS:
        raise _invalid(path, f"{name}: builds is no number from 2 to {_MOST_BUILDS}: one build agrees with nothing")
    if apart not in [item.value for item in Apart]:
        raise _invalid(path, f'{name}: apart is neither "worker" nor "host"')
    if not (final or prerelease):
        raise _invalid(path, f"{name}: it takes neither final versions nor pre-releases")
    wanted = target.names() if targets == ["all"] else tuple(sorted(set(targets)))
    if unknown := sorted(set(wanted) - set(target.names())):
        raise _invalid(path, f"{name}: there is no target {unknown[0]}")
    return Channel(
        name,
        wanted,
        final,
        prerelease,
        builds,
        Apart(apart),
        value.get("sealed", False),
        value.get("licences", False),
        counted,
    )


def _invalid(path: Path, why: str) -> FarmError:
    what = f"{path} is not a list of release channels"
    return FarmError(Code.CHANNELS_INVALID, what, why, "`farm release --help` shows one.", {"file": str(path)})
