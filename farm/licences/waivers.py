"""Waivers as the gate takes them: signed documents, by keys that may grant them, good on a day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelfarm import digest, files
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from sbom.licence.nouns import Applied
from signing import dsse, waiver
from signing.keys import PublicKey
from signing.waiver import Waiver

FOLDER = "waivers"
"""Where in the farm's state the waivers lie that every build takes."""
_LARGEST = 64 << 10


@dataclass(frozen=True, slots=True)
class Signed:
    """A waiver whose signature was checked; `document` is what was signed, whole."""

    waiver: Waiver
    keyid: str
    digest: Digest
    document: str

    def applied(self) -> Applied:
        """What a verdict says of it."""
        made = self.waiver
        return Applied(
            self.digest,
            self.keyid,
            made.expires,
            made.reason,
            made.finding,
            self.document,
            made.material,
            made.file,
            made.expression,
            made.rule,
        )


@dataclass(frozen=True, slots=True)
class Foreign:
    """A waiver of a finding by a key that may not waive here: it covers nothing."""

    name: str
    keyid: str
    finding: Digest


def of_home(home: Home) -> tuple[Path, ...]:
    """The waivers in the farm's state, by name."""
    return tuple(sorted((home.root / FOLDER).glob("*.json")))


def load(paths: Iterable[Path], trusted: Sequence[PublicKey]) -> tuple[Signed, ...]:
    """The waivers in files that somebody named, by digest.

    Raises `FarmError` WAIVER_INVALID for one that no trusted key signed.
    """
    found = {one.digest: one for one in (_load(path, trusted) for path in paths)}
    return tuple(one for _, one in sorted(found.items()))


def of_state(home: Home, trusted: Sequence[PublicKey]) -> tuple[tuple[Signed, ...], tuple[Foreign, ...]]:
    """The waivers in the farm's state that a trusted key signed, and those of other keys: several people keep theirs
    there, and each build trusts some. Raises WAIVER_INVALID for one that is damaged.
    """
    own, others = [], []
    for path in of_home(home):
        data = _bytes(path)
        keyid, found = _unverified(data, path.name)
        if keyid in {public.keyid for public in trusted}:
            own.append(parse(data, path.name, trusted))
        else:
            others.append(Foreign(path.name, keyid, found.finding))
    return tuple(own), tuple(others)


def good(waivers: Iterable[Signed], day: str) -> tuple[Applied, ...]:
    """Those that are granted and not over on a day (ISO)."""
    return tuple(one.applied() for one in waivers if one.waiver.granted <= day < one.waiver.expires)


def over(waivers: Iterable[Signed], day: str) -> dict[Digest, Signed]:
    """Those that have expired by a day, by finding; the last to expire where there are more."""
    ended = sorted((one for one in waivers if day >= one.waiver.expires), key=lambda one: one.waiver.expires)
    return {one.waiver.finding: one for one in ended}


def parse(data: bytes, name: str, trusted: Sequence[PublicKey]) -> Signed:
    """A signed waiver in bytes; raises WAIVER_INVALID naming the file `name`."""
    why = "no trusted key is given"
    for public in trusted:
        try:
            found = waiver.from_statement(dsse.open_sealed(data, public, name), name)
        except FarmError as reason:
            why = f"{reason.what}: {reason.why}" if reason.why else reason.what
            if reason.code is Code.WRONG_KEY:
                continue
            break
        return Signed(found, public.keyid, digest.of_bytes(data), data.decode())
    raise _unusable(name, why)


def _unverified(data: bytes, name: str) -> tuple[str, Waiver]:
    try:
        keyid, statement = dsse.read_unverified(data, name)
        return keyid, waiver.from_statement(statement, name)
    except FarmError as reason:
        why = f"{reason.what}: {reason.why}" if reason.why else reason.what
        raise _unusable(name, why) from reason


def _load(path: Path, trusted: Sequence[PublicKey]) -> Signed:
    return parse(_bytes(path), path.name, trusted)


def _bytes(path: Path) -> bytes:
    with files.coded("a waiver could not be read", path), path.open("rb") as stream:
        return stream.read(_LARGEST)


def _unusable(name: str, why: str) -> FarmError:
    advice = "Name the key of who may waive with --waiver-key, or take the waiver away."
    return FarmError(Code.WAIVER_INVALID, f"the waiver {name} cannot be used", why, advice, {"file": name})
