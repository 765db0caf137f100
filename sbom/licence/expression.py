"""SPDX licence expressions, read by license-expression: the only module that imports it.

An expression is a tree of AND and OR over licences; "GPL-3.0-or-later WITH GCC-exception-3.1" is one licence. A name
that SPDX does not list, such as LicenseRef-x, is a licence like any other: what it is worth is the policy's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar

from license_expression import ExpressionError, LicenseSymbol, Licensing, ParseError, get_spdx_licensing

from kernelfarm.errors import Code, FarmError

T = TypeVar("T")


def normal(text: str) -> str:
    """The expression in SPDX's own spelling: "mit" is "MIT". Raises `FarmError` LICENCE_INVALID for anything else."""
    return str(_parse(text).render())


def licences(text: str) -> tuple[str, ...]:
    """The licences that an expression names, sorted, each with its exception. Raises as `normal`."""
    return tuple(sorted({str(symbol.render()) for symbol in _symbols(_parse(text))}))


def unlisted(text: str) -> tuple[str, ...]:
    """Names in an expression that neither SPDX nor ScanCode lists, sorted: misspelt, or somebody's own."""
    return tuple(sorted(_licensing().unknown_license_keys(_parse(text))))


def fold(
    text: str, of_licence: Callable[[str], T], all_of: Callable[[list[T]], T], one_of: Callable[[list[T]], T]
) -> T:
    """The value of an expression: of its licences, of all parts of an AND, of the parts of an OR to choose from."""

    def value(node: Any) -> T:
        if isinstance(node, LicenseSymbol) or not getattr(node, "args", ()):
            return of_licence(str(node.render()))
        parts = [value(part) for part in node.args]
        return one_of(parts) if isinstance(node, _licensing().OR) else all_of(parts)

    return value(_parse(text))


def join(texts: Iterable[str]) -> str:
    """All of these at once: "A AND B", without repetition; "" for none. Raises as `normal`."""
    parsed = [_parse(text) for text in sorted(set(texts))]
    return str(_licensing().AND(*parsed).simplify().render()) if len(parsed) > 1 else "".join(map(_render, parsed))


def _render(node: Any) -> str:
    return str(node.render())


def _symbols(node: Any) -> list[Any]:
    if isinstance(node, LicenseSymbol) or not getattr(node, "args", ()):
        return [node]
    return [symbol for part in node.args for symbol in _symbols(part)]


def _parse(text: str) -> Any:
    try:
        found = _licensing().parse(text)
    except (ExpressionError, ParseError) as reason:
        raise _invalid(text, " ".join(str(reason).split())) from reason
    except (IndexError, TypeError, AttributeError, RecursionError) as reason:  # of the parser: "()", thousands of "("
        raise _invalid(text[:80], "its parentheses cannot be read") from reason
    if found is None:
        raise _invalid(text, "it is empty")
    return found


def _invalid(text: str, why: str) -> FarmError:
    return FarmError(
        Code.LICENCE_INVALID,
        f"{text!r} is not a licence expression",
        why,
        'Write it as SPDX has it, like "Apache-2.0" or "MIT OR LicenseRef-Acme".',
    )


@cache
def _licensing() -> Licensing:
    return get_spdx_licensing()
