"""Rows of the ledger as nouns, each value checked: SQLite keeps no checksums, damage shows as what nobody wrote."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from sqlalchemy.engine import RowMapping

from kernelfarm.errors import Code, FarmError

T = TypeVar("T")

_JSON = frozenset({"error", "request"})  # "action" and "payload" are nouns, and checked where they are decoded
_LATEST = 253_402_300_800.0  # the year 10000, where the calendar of Python ends


def read(kind: type[T], values: RowMapping | Mapping[str, Any], name: str) -> T:
    """The noun of class `kind` with these values; a text becomes the enumeration's member where the field is one.

    Raises `FarmError` LEDGER_CORRUPT, which calls the row by `name`, for a value of another type, a time outside the
    calendar, or a text that should be a JSON object and is not.
    """
    with believing(name):
        return kind(**{key: _value(key, hint, values[key]) for key, hint in _hints(typing.cast(type, kind)).items()})


@contextmanager
def believing(name: str) -> Iterator[None]:
    """What goes wrong inside is damage of the row `name`."""
    try:
        yield
    except (ValueError, TypeError, LookupError, RecursionError) as reason:
        raise FarmError(
            Code.LEDGER_CORRUPT,
            "the ledger holds something that the farm did not write",
            f"{name}: {reason}",
            "Move the ledger file away; the farm makes a new one and compiles again.",
        ) from reason


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _value(key: str, hint: Any, value: Any) -> Any:
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and types.NoneType in kinds:
        return None
    wanted = kinds[0]
    if issubclass(wanted, Enum) and not isinstance(value, Enum):
        return wanted(value)
    if wanted is float and type(value) in (int, float) and abs(value) < _LATEST:
        return float(value)
    if type(value) is not wanted or wanted is float:
        raise ValueError(f"{key} is {value!r}")
    if key in _JSON and not isinstance(json.loads(value), dict):
        raise ValueError(f"{key} is no JSON object")
    return value
