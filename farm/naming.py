"""Names of bundles: from the files of their models, without words that may stay in no name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kernelc.frontend.scrub.secrets import Secrets
from kernelfarm import nouns
from kernelfarm.errors import Code, FarmError

FALLBACK = "model"
_ALLOWED = {"path"}
"""These texts have no folders; "net.pt" is no path in them."""
_DISALLOWED = re.compile(r"[^A-Za-z0-9._+-]+")


def name_models(paths: Sequence[Path], name: str | None, words: Sequence[str] = ()) -> dict[str, Path]:
    """The models by the names of their bundles, sorted; `name` is that of the only one.

    Raises `FarmError` USAGE for two of one name, and for a `name` that holds a secret or cannot be a file's.
    """
    if name is not None:
        _require_name(name, len(paths), words)
    named: dict[str, Path] = {}
    for path in paths:
        own = default_name(path, words) if name is None else name
        if own in named:
            advice = "Build them one by one, with --name."
            raise FarmError(Code.USAGE, f"two models are named {own!r}", f"{named[own]} and {path}", advice)
        named[own] = path
    return dict(sorted(named.items()))


def default_name(path: Path, words: Sequence[str] = ()) -> str:
    """A bundle's name from the model's file name: other characters than letters, digits and . _ + - become a hyphen.

    "model" where nothing is left, or where it holds an address or one of the words.
    """
    if Secrets.of(words).kinds(path.stem) - _ALLOWED:
        return FALLBACK
    return _DISALLOWED.sub("-", path.stem).strip("-.")[:128] or FALLBACK


def require_told(text: str, option: str, words: Sequence[str]) -> None:
    """Raise `FarmError` USAGE for the text of an option that is told to everybody and holds what may not be told."""
    if kinds := Secrets.of(words).kinds(text) - _ALLOWED:
        what = f"{option} holds a {'word to scrub' if 'word' in kinds else min(kinds)}"
        raise FarmError(Code.USAGE, what, "every bundle tells it", f"Choose another {option}.")


def _require_name(name: str, count: int, words: Sequence[str]) -> None:
    if count != 1:
        advice = "Build them one by one, each with a --name, or leave it out."
        raise FarmError(Code.USAGE, "--name fits one model only", f"{count} models are given", advice)
    try:
        nouns.require_file_name(name)
    except FarmError as reason:
        advice = "Choose another --name, or leave it out for one that the model's file gives."
        raise FarmError(Code.USAGE, f"{name!r} cannot be the name of a bundle", reason.why, advice) from reason
    require_told(name, "--name", words)
