"""Typed reading of a node's attributes; what no handler asked for is refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

from kernelc.frontend.site import Site, shown

_Proto = onnx.AttributeProto
_INT, _FLOAT, _STRING = _Proto.INT, _Proto.FLOAT, _Proto.STRING
_INTS, _FLOATS, _TENSOR = _Proto.INTS, _Proto.FLOATS, _Proto.TENSOR
_FIELDS = {_INT: "i", _FLOAT: "f", _STRING: "s", _INTS: "ints", _FLOATS: "floats", _TENSOR: "t"}


class Attributes:
    """The attributes of one node; each getter raises `FarmError` GRAPH_INVALID where the type is another."""

    def __init__(self, site: Site, protos: Iterable[Any]) -> None:
        self._site = site
        self._left: dict[str, Any] = {}
        for proto in protos:
            if proto.name in self._left:
                raise site.invalid(f"attribute {shown(proto.name)} is given twice")
            if proto.ref_attr_name:
                raise site.unsupported(f"attribute {shown(proto.name)} refers to a function's")
            self._left[proto.name] = proto

    def integer(self, name: str, default: int | None = None) -> int:
        """An int; required where there is no default."""
        value = self._take(name, _INT)
        return int(self._required(name, default) if value is None else value)

    def real(self, name: str, default: float | None = None) -> float:
        """A float32, as the float64 that equals it."""
        value = self._take(name, _FLOAT)
        return float(self._required(name, default) if value is None else value)

    def text(self, name: str, default: str | None = None) -> str:
        """A string."""
        value = self._take(name, _STRING)
        if value is None:
            return str(self._required(name, default))
        try:
            return str(value.decode())
        except UnicodeDecodeError as reason:
            raise self._site.invalid(f"attribute {name} is not UTF-8") from reason

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A list of ints."""
        value = self._take(name, _INTS)
        return tuple(int(item) for item in (self._required(name, default) if value is None else value))

    def optional_integers(self, name: str) -> tuple[int, ...] | None:
        """A list of ints, or None where it is absent."""
        return self.integers(name) if name in self._left else None

    def reals(self, name: str) -> tuple[float, ...]:
        """A list of float32."""
        return tuple(float(item) for item in self._required(name, self._take(name, _FLOATS)))

    def tensor(self, name: str) -> onnx.TensorProto:
        """A tensor."""
        return self._required(name, self._take(name, _TENSOR))

    def has(self, name: str) -> bool:
        """Whether the attribute is given (and not read yet)."""
        return name in self._left

    def ignore(self, *names: str) -> None:
        """Attributes that do not change the meaning of what is imported."""
        for name in names:
            self._left.pop(name, None)

    def finish(self) -> None:
        """Raise unless every attribute was read."""
        for name in sorted(self._left):
            raise self._site.invalid(f"{shown(name)} is not an attribute of this operator")

    def _take(self, name: str, kind: int) -> Any:
        proto = self._left.pop(name, None)
        if proto is None:
            return None
        if proto.type != kind:
            given = _Proto.AttributeType.Name(proto.type) if proto.type in _Proto.AttributeType.values() else "unknown"
            wanted = _Proto.AttributeType.Name(kind)
            raise self._site.invalid(f"attribute {name} is of type {given}; it must be {wanted}")
        return getattr(proto, _FIELDS[kind])

    def _required(self, name: str, value: Any) -> Any:
        if value is None:
            raise self._site.invalid(f"attribute {name} is missing")
        return value
