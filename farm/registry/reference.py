"""References to a registry: HOST[:PORT]/REPOSITORY[:TAG | @DIGEST], as every tool around OCI writes them. Pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::[0-9]{1,5})?|\[[0-9a-fA-F:]+\](?::[0-9]{1,5})?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(f"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LONGEST = 200
SCHEME = "oci://"


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository of a registry, and what in it is meant: a tag, a digest, or neither."""

    host: str
    repository: str
    tag: str = ""
    digest: Digest | None = None

    @property
    def place(self) -> str:
        """HOST/REPOSITORY alone."""
        return f"{self.host}/{self.repository}"

    @property
    def is_local(self) -> bool:
        """The host is this machine's loopback interface: the one place that is spoken to without TLS."""
        name = re.sub(r":[0-9]+$", "", self.host)
        try:
            return ipaddress.ip_address(name.strip("[]")).is_loopback
        except ValueError:
            return name == "localhost"

    def __str__(self) -> str:
        return self.place + (f"@{self.digest}" if self.digest else f":{self.tag}" if self.tag else "")


def parse(text: str) -> Reference:
    """The reference that `text` spells; raises `FarmError` REFERENCE_INVALID."""
    rest = text.removeprefix(SCHEME)
    host, slash, path = rest.partition("/")
    if not slash:
        raise _invalid(text, "it has no / between the host and the repository")
    if _HOST.fullmatch(host) is None or not ("." in host or ":" in host or host == "localhost"):
        raise _invalid(text, f"{host!r} is no host: it needs a dot or a port, or is localhost")
    path, at, named = path.partition("@")
    found = _digest(text, named) if at else None
    path, colon, tag = path.partition(":")
    if colon and (found is not None or _TAG.fullmatch(tag) is None):
        raise _invalid(text, "it names a tag and a digest" if found else f"{tag!r} is no tag")
    if _REPOSITORY.fullmatch(path) is None or len(path) > _LONGEST:
        raise _invalid(text, f"{path!r} is no repository: lower-case letters, digits and . _ - between slashes")
    return Reference(host, path, tag, found)


def parse_repository(text: str) -> Reference:
    """As `parse`, for a repository as a whole: REFERENCE_INVALID where a tag or a digest is named."""
    found = parse(text)
    if found.tag or found.digest:
        raise _invalid(text, "it names a tag or a digest, where a repository is asked for")
    return found


def parse_release(text: str) -> Reference:
    """As `parse`, for one release: REFERENCE_INVALID where neither a tag nor a digest is named."""
    found = parse(text)
    if not found.tag and not found.digest:
        raise _invalid(text, "it names no version")
    return found


def looks_like(text: str) -> bool:
    """Whether a command's argument means a registry: no folder or file of this name, and the form of a reference."""
    return text.startswith(SCHEME) or (_is_spelled(text) and bool(parse(text).tag or parse(text).digest))


def require_version(text: str) -> None:
    """Raise `FarmError` REFERENCE_INVALID where a command's argument, no file here, has the form of a repository."""
    if not text.startswith(SCHEME) and _is_spelled(text) and not looks_like(text):
        what = f"{text} names no version and no digest"
        why = "there is no folder of this name, and a release in a registry needs one of the two"
        advice = f"Write {text}:1.2.0, or {text}@sha256:...; {SCHEME}{text} is its last final release."
        raise FarmError(Code.REFERENCE_INVALID, what, why, advice)


def _is_spelled(text: str) -> bool:
    """Whether a text has the form of a reference, and is no folder or file."""
    if Path(text).exists():
        return False
    try:
        parse(text)
    except FarmError:
        return False
    return True


def _digest(text: str, named: str) -> Digest:
    try:
        return digest.parse(named)
    except FarmError as reason:
        raise _invalid(text, reason.what) from reason


def _invalid(text: str, why: str) -> FarmError:
    advice = "Write it like registry.example/media/model:1.2.0, or with @sha256:... for a digest."
    return FarmError(Code.REFERENCE_INVALID, f"{text!r} is not a reference to a registry", why, advice)
