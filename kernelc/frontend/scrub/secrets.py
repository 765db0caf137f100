"""What may not stay in a name: paths of a machine, addresses of people and pages, words of a user's list.

Exporters name values by module scopes ("/backbone/conv1/Conv_output_0"), which look like paths and are none: a slash
alone is no secret.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from kernelfarm.errors import Code, FarmError

LEAST_LETTERS = 3
"""Letters and digits of a word at least; two do where one is not ASCII."""
MOST_WORDS = 1000
_MOST_LETTERS = 200

_ROOTS = (
    "home|users|root|tmp|temp|var|opt|srv|mnt|media|usr|etc|private|volumes|workspaces?|nfs|scratch|data|datasets|"
    "proc|dev|jenkins|gpfs|lustre|shared|storage|work|projects|documents|desktop"
)
_SUFFIXES = (
    "py|pyc|ipynb|onnx|pt|pth|ckpt|pb|pbtxt|tflite|h5|hdf5|keras|npz|npy|safetensors|trt|mlmodel|so|dll|cpp|cc|"
    "cu|txt|json|ya?ml|toml|csv|tsv|bin|pkl|zip|tar|gz|xml|log|sh|md|jpe?g|png|mp4"
)
_PATTERNS = (
    ("page", re.compile(r"[a-z][a-z0-9+.-]*://|\bwww\.|\bfile:|\bs3:|\bgs:")),
    ("e-mail", re.compile(r"[^\s@/\\]+@[^\s@/\\]+\.[^\s@/\\.]{2,}")),
    ("path", re.compile(rf"(?:^|[^\w.])/(?:{_ROOTS})(?:/|$)")),
    ("path", re.compile(r"(?:^|[^a-z0-9])[a-z]:[\\/]|\\\\|\\[\w.]")),
    ("path", re.compile(r"(?:^|[^\w])~[\w.-]*/|(?:^|[/\\])\.\.?[/\\]|\$\{?\w+\}?/|%\w+%")),
    ("path", re.compile(rf"\.(?:{_SUFFIXES})(?:$|[^a-z0-9_])")),
)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What to look for: paths and addresses always, and these words in their plain form (`plain`)."""

    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: Iterable[str]) -> Secrets:
        """With a user's words. Raises `FarmError` USAGE for one too short or too long, which it does not tell."""
        found = sorted({_checked(word, number) for number, word in enumerate(words, start=1)})
        if len(found) > MOST_WORDS:
            raise FarmError(Code.USAGE, f"{len(found)} words to scrub are too many", f"the limit is {MOST_WORDS}")
        return cls(tuple(found))

    def found(self, text: str) -> str:
        """One of the `kinds` of a text, "" where it has none."""
        return min(self.kinds(text), default="")

    def kinds(self, text: str) -> frozenset[str]:
        """What a text holds that may not stay: "page", "e-mail", "path", "word".

        Case, width and accents count for nothing; in words neither do spaces and punctuation.
        """
        kinds: set[str] = set()
        folded = _folded(text)
        for form in {folded, _folded(unquote(folded))}:
            kinds |= {kind for kind, pattern in _PATTERNS if pattern.search(form)}
            letters = _plain(form)
            kinds |= {"word" for word in self.words if word in letters}
        return frozenset(kinds)


def _checked(word: str, number: int) -> str:
    plain = _plain(_folded(word))
    least = LEAST_LETTERS if plain.isascii() else LEAST_LETTERS - 1
    if not least <= len(plain) <= _MOST_LETTERS:
        why = f"it has {len(plain)} letters and digits; {least} to {_MOST_LETTERS} are needed"
        raise FarmError(Code.USAGE, f"word {number} to scrub cannot be used", why, "Give a longer or shorter word.")
    return plain


def _folded(text: str) -> str:
    """One form for what reads alike: compatible characters, no accents, no invisible characters, small letters."""
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return "".join(letter for letter in apart if unicodedata.category(letter) not in ("Mn", "Cf"))


def _plain(folded: str) -> str:
    return "".join(letter for letter in folded if letter.isalnum())
