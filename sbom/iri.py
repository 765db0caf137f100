"""The check of IRIs in documents, without the second that it takes to load where a document has none.

jsonschema checks them with rfc3987_syntax, which compiles the same grammar for each of its 39 rules as it is imported.
No bill that the farm writes has an IRI; one of somebody else may, and then the check is the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_GRAMMARS = "rfc3987_syntax"
_RULES = {"iri": "iri", "iri-reference": "iri_reference"}
"""Rules of the grammar by the formats of a schema."""


@contextmanager
def checked_when_met() -> Iterator[None]:
    """Have jsonschema, which the block imports, load its grammars with the first IRI and not before."""
    with _withheld(_GRAMMARS):
        yield
    from jsonschema.validators import Draft7Validator

    for name, rule in _RULES.items():
        Draft7Validator.FORMAT_CHECKER.checks(name, ValueError)(_check(rule))


@contextmanager
def _withheld(module: str) -> Iterator[None]:
    """A module that cannot be imported in the block, unless it was before."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]  # what the import system takes for "there is none"
    try:
        yield
    finally:
        del sys.modules[module]


def _check(rule: str) -> Callable[[object], bool]:
    def holds(value: object) -> bool:
        if not isinstance(value, str):
            return True
        from rfc3987_syntax import is_valid_syntax

        return bool(is_valid_syntax(rule, value))

    return holds
