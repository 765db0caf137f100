"""The shapes that `--shape` spells."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Options

_DIMS = re.compile(r"[1-9][0-9]{0,8}(x[1-9][0-9]{0,8})*")


def parse(texts: Sequence[str]) -> Options:
    """Options from texts like "1x3x48x192" (a model's only input) and "NAME=1x3x48x192"; raises `FarmError` USAGE."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, dims = text.rpartition("=")
        if _DIMS.fullmatch(dims) is None or (not name and "=" in text):
            raise FarmError(
                Code.USAGE,
                f"{text!r} is not a shape",
                "it must be positive dimensions with x between",
                "Write it like 1x3x48x192, or NAME=1x3x48x192 for a model with several inputs.",
            )
        if name in shapes:
            what, why = f"the shape of {name or 'the input'} is given twice", "an input has one shape"
            raise FarmError(Code.USAGE, what, why, "Leave one of them out, or name the inputs: NAME=1x3x48x192.")
        shapes[name] = tuple(int(dim) for dim in dims.split("x"))
    return Options.of(shapes)
