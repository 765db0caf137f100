"""Where two JSON values differ."""

from __future__ import annotations

from typing import Any


def changed(first: Any, second: Any, at: str = "") -> dict[str, tuple[Any, Any]]:
    """The places at which two JSON values differ, with both; lists of two lengths differ as a whole."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return {where: pair for key in first for where, pair in changed(first[key], second[key], f"{at}/{key}").items()}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        return {where: pair for n, each in pairs for where, pair in changed(*each, f"{at}/{n}").items()}
    return {} if first == second else {at: (first, second)}
