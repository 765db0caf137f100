"""Canonical JSON (RFC 8785): one byte string per value, so that a value can be hashed and signed.

Also the mapping between frozen dataclasses and JSON: an object per noun, with `"schema": "<noun>/<n>"` taken from the
class variable `SCHEMA`. Reading is strict: unknown, missing or wrongly typed fields and other schema numbers are
refused.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import rfc8785

from kernelfarm import digest
from kernelfarm.errors import Code, FarmError

T = TypeVar("T")

LEFT_OUT: Mapping[str, bool] = {"left out": True}
"""Metadata of a field whose None is written by leaving the field out: a noun that gets one keeps its old digests."""


def dumps(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value; tuples are arrays. Integers are limited to 53 bits, floats must be finite.

    Raises `FarmError` NOT_JSON for a value without a canonical form.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as reason:
        raise FarmError(Code.NOT_JSON, "a value has no canonical JSON form", str(reason)) from reason


def loads(data: bytes, *, strict: bool = False, name: str = "input") -> Any:
    """Parse UTF-8 JSON; `name` is what errors call the input.

    Refused with `FarmError` JSON_INVALID: other encodings, duplicate keys, NaN and infinities (also by overflow:
    1e999), too deep nesting, integers beyond 53 bits unless a double is written so (they are read as that double). With
    `strict` also bytes that are not the canonical form of their value (JSON_NOT_CANONICAL).
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_exact,
        )
    except (ValueError, RecursionError) as reason:
        raise FarmError(Code.JSON_INVALID, f"{name} is not valid JSON", str(reason), detail={"file": name}) from reason
    if strict and not _is_canonical(value, data):
        raise FarmError(Code.JSON_NOT_CANONICAL, f"{name} is not canonical JSON", detail={"file": name})
    return value


def _is_canonical(value: Any, data: bytes) -> bool:
    try:
        return dumps(value) == data
    except FarmError:  # e.g. an integer beyond 53 bits: valid JSON, no canonical form
        return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate key {key!r}")
        found[key] = value
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def _exact(text: str) -> int | float:
    number = int(text)
    if abs(number) < 1 << 53:
        return number
    close = _finite(text)  # RFC 8785 numbers are doubles
    if rfc8785.dumps(close) != text.encode():
        raise ValueError(f"{text} is not what a double is written as")
    return close


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number


def to_json(value: Any) -> Any:
    """JSON value of a noun, an enum, or a tuple, list or mapping of them; a noun with `SCHEMA` carries its schema."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: to_json(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.metadata != LEFT_OUT or getattr(value, field.name) is not None
        }
        schema = getattr(type(value), "SCHEMA", None)
        return fields if schema is None else {"schema": schema, **fields}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def digest_of(value: Any) -> digest.Digest:
    """Digest of a noun's canonical bytes."""
    return digest.of_bytes(encode(value))


def encode(value: Any) -> bytes:
    """Canonical bytes of a noun: `dumps(to_json(value))`."""
    return dumps(to_json(value))


def decode(kind: type[T], data: bytes, *, name: str = "input") -> T:
    """The noun of class `kind` in canonical bytes; raises as `loads` (strict) and `from_json`.

    Also refused (JSON_NOT_CANONICAL): bytes that the noun itself would not give, e.g. an order that it normalises.
    """
    noun = from_json(kind, loads(data, strict=True, name=name), name=name)
    if encode(noun) != data:
        raise FarmError(Code.JSON_NOT_CANONICAL, f"{name} is not the canonical form of its noun", detail={"file": name})
    return noun


def from_json(kind: type[T], data: Any, *, name: str = "input") -> T:
    """The noun of class `kind` that a JSON value spells; raises `FarmError` SCHEMA_MISMATCH with the place."""
    return typing.cast(T, _read(kind, data, name))


def _read(kind: Any, data: Any, where: str) -> Any:
    if kind is Any:
        return data
    if kind is digest.Digest:
        return digest.parse(_scalar(str, data, where))
    if isinstance(kind, typing.NewType):
        return _read(kind.__supertype__, data, where)
    origin = typing.get_origin(kind)
    if origin is tuple:
        return _read_tuple(typing.get_args(kind), data, where)
    if origin in (typing.Union, types.UnionType):
        return _read_union(typing.get_args(kind), data, where)
    if dataclasses.is_dataclass(kind):
        return _read_noun(typing.cast(type, kind), data, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _read_enum(kind, data, where)
    return _scalar(kind, data, where)


def _scalar(kind: Any, data: Any, where: str) -> Any:
    if kind is float and type(data) is int:  # canonical JSON writes 1.0 as 1
        return float(data)
    if type(data) is not kind:  # exact: True is no integer
        raise _mismatch(where, f"expected {getattr(kind, '__name__', kind)}, found {type(data).__name__}")
    return data


def _read_tuple(kinds: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _mismatch(where, f"expected an array, found {type(data).__name__}")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(data)
    if len(kinds) != len(data):
        raise _mismatch(where, f"expected {len(kinds)} items, found {len(data)}")
    return tuple(
        _read(kind, item, f"{where}[{index}]") for index, (kind, item) in enumerate(zip(kinds, data, strict=True))
    )


def _read_union(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    for kind in others[:-1]:
        try:
            return _read(kind, data, where)
        except FarmError:
            continue
    return _read(others[-1], data, where)


def _read_enum(kind: type[Enum], data: Any, where: str) -> Enum:
    for member in kind:
        if type(member.value) is type(data) and member.value == data:
            return member
    raise _mismatch(where, f"{data!r} is none of {', '.join(repr(member.value) for member in kind)}")


@cache
def _fields(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@cache
def _left_out(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind) if field.metadata == LEFT_OUT)


def _read_noun(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _mismatch(where, f"expected an object, found {type(data).__name__}")
    absent = _left_out(kind) - set(data)
    fields = {name: hint for name, hint in _fields(kind).items() if name not in absent}
    schema = getattr(kind, "SCHEMA", None)
    if schema is not None and data.get("schema") != schema:
        raise _mismatch(where, f"expected schema {schema!r}, found {data.get('schema')!r}")
    expected = set(fields) | ({"schema"} if schema is not None else set())
    if wrong := sorted(expected.symmetric_difference(data)):
        verb = "missing" if wrong[0] in expected else "unknown"
        raise _mismatch(where, f"{verb} field {wrong[0]!r}")
    return kind(**{key: _read(hint, data[key], f"{where}.{key}") for key, hint in fields.items()})


def _mismatch(where: str, why: str) -> FarmError:
    return FarmError(Code.SCHEMA_MISMATCH, f"{where} does not match its schema", why, detail={"at": where})
