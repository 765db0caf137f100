"""The table of handlers, filled by the `operator` decorator, and what a handler is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelc.frontend.attributes import Attributes
from kernelc.frontend.site import Site
from kernelc.frontend.tensors import TensorReader
from kernelc.graph import AttrValue, Tensor, weight_of
from kernelc.media.builder import GraphBuilder


class NodeImport:
    """A node of the model under import: its operands by the builder's names (None where absent), its attributes.

    `outputs` is how many outputs it has.
    """

    def __init__(
        self,
        site: Site,
        builder: GraphBuilder,
        inputs: Sequence[str | None],
        attributes: Attributes,
        reader: TensorReader,
        outputs: int,
    ) -> None:
        self.site = site
        self.builder = builder
        self.attributes = attributes
        self.reader = reader
        self.outputs = outputs
        self._inputs = inputs

    def operands(self, least: int, most: int | None = None) -> list[str | None]:
        """The operands, padded with None to `most`; the first `least` must be present."""
        most = least if most is None else most
        if len(self._inputs) > most:
            raise self.site.invalid(f"it has {len(self._inputs)} inputs; the operator takes {most} at most")
        padded = [*self._inputs, *[None] * (most - len(self._inputs))]
        if any(name is None for name in padded[:least]):
            raise self.site.invalid(f"it lacks an input; the operator takes {least} at least")
        return padded

    def required(self, count: int) -> list[str]:
        """Exactly `count` operands, all present."""
        return [name for name in self.operands(count) if name is not None]

    def variadic(self) -> list[str]:
        """One operand or more, all present."""
        if not self._inputs or None in self._inputs:
            raise self.site.invalid("it lacks an input")
        return [name for name in self._inputs if name is not None]

    def tensor(self, name: str) -> Tensor:
        """Type of a value."""
        return self.builder.tensors[name]

    def emit(self, op: str, inputs: Sequence[str], attrs: Mapping[str, AttrValue] | None = None) -> str:
        """Add a Media node and return its result."""
        with self.site.guarded():
            return self.builder.node(op, inputs, attrs)

    def constant(self, array: NDArray[Any], dtype: str) -> str:
        """A constant of the importer's own."""
        return self.builder.weight(weight_of(array, dtype))

    def list_constant(self, items: Sequence[int]) -> str:
        """A list of i64."""
        return self.constant(np.array(items, np.int64), "i64")

    def value_of(self, name: str) -> NDArray[Any] | None:
        """The elements of a constant, None for a computed value."""
        weight = self.builder.weights.get(name)
        return None if weight is None else weight.array

    def integers_of(self, name: str, what: str) -> tuple[int, ...]:
        """Elements of an integer list that must be known now; raises SHAPE_NOT_INFERRED naming `what` otherwise."""
        content = self.builder.contents.get(name)
        numbers = tuple(item for item in content or () if isinstance(item, int))
        if content is None or len(numbers) != len(content):
            why = f"{what} must be a constant list of integers"
            raise self.site.unsupported(why)
        return numbers

    def axis(self, value: int, rank: int, *, negative: bool = True) -> int:
        """An axis as a number >= 0; raises GRAPH_INVALID outside the rank."""
        if not (-rank if negative else 0) <= value < rank:
            raise self.site.invalid(f"axis {value} is outside rank {rank}")
        return value % rank


Handler = Callable[[NodeImport], str | tuple[str, ...]]
"""Adds the Media nodes of one ONNX node; returns the value of its first output, or those of the first ones in order."""

H = TypeVar("H", bound=Handler)
_HANDLERS: dict[str, list[tuple[int, Handler]]] = {}


def operator(name: str, since: int) -> Callable[[H], H]:
    """Register a handler of ONNX operator `name` for operator sets from `since` up to the next handler's."""

    def register(handler: H) -> H:
        _HANDLERS.setdefault(name, []).append((since, handler))
        _HANDLERS[name].sort(key=lambda entry: entry[0])
        return handler

    return register


def supported() -> tuple[str, ...]:
    """Names of all supported operators, sorted."""
    return tuple(sorted(_HANDLERS))


def versions_of(name: str) -> tuple[int, ...]:
    """The operator sets from which each handler of a supported operator holds, ascending."""
    return tuple(since for since, _ in _HANDLERS[name])


def handler_of(name: str, opset: int) -> Handler | None:
    """The handler of an operator at an operator set version; None where it is unknown or came later."""
    return next((handler for since, handler in reversed(_HANDLERS.get(name, [])) if since <= opset), None)


def since_of(name: str) -> int | None:
    """The operator set that a supported operator came with; None for an unsupported one."""
    return _HANDLERS[name][0][0] if name in _HANDLERS else None
