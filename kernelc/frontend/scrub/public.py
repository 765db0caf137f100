"""Names that stay in a scrubbed model because ONNX itself defines them: domains, operators and their attributes.

They are kept by this list alone. No pattern and no listed word is held against them: a model that spells the default
domain "ai.onnx" looks as if it named a file, and a word like "relu" would take an honest model's operators away.
"""

from __future__ import annotations

import difflib
from functools import cache

import onnx

DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"})
"""ONNX's own domains; the default one has two spellings."""
_ALIKE = 0.85
_LONGEST = 40


@cache
def operators() -> frozenset[str]:
    """The operators of every version of ONNX that the installed one knows."""
    return frozenset(schema.name for schema in onnx.defs.get_all_schemas_with_history())


@cache
def attributes() -> frozenset[str]:
    """The attributes of all these operators."""
    every = onnx.defs.get_all_schemas_with_history()
    return frozenset(name for schema in every for name in schema.attributes)


def is_misspelt(name: str) -> bool:
    """Whether a name is nearly that of an operator: "Relux"."""
    return len(name) <= _LONGEST and bool(difflib.get_close_matches(name, sorted(operators()), 1, _ALIKE))
