"""What a type rule sees of an operation: attributes, types of the operands, what is known of integer lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelc.graph import Node, Tensor
from kernelc.symbols import Dim

Shape = tuple[Dim, ...]

Content = tuple[Dim, ...]
"""The elements of an integer scalar or list that are known before the model runs, such as the value of Shape."""


class Illegal(ValueError):
    """The operation breaks a rule of the dialect; the text says which."""


class Undetermined(ValueError):
    """The type depends on a value or a symbolic size that is not known."""


class TooLarge(ValueError):
    """A value is over the limit of size."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operation with the types (and known contents) of its operands, in order."""

    node: Node
    tensors: tuple[Tensor, ...]
    contents: tuple[Content | None, ...]

    def shape(self, index: int = 0) -> Shape:
        """Shape of an operand."""
        return self.tensors[index].shape

    def content(self, index: int, what: str) -> Content:
        """Known content of an operand; raises `Undetermined` naming `what` where there is none."""
        content = self.contents[index]
        if content is None:
            raise Undetermined(f"{what} is computed from values that are known only when the model runs")
        return content

    def numbers(self, index: int, what: str) -> tuple[int, ...]:
        """Known content of an operand as plain numbers; raises `Undetermined` where it is symbolic or unknown."""
        content = self.content(index, what)
        numbers = tuple(item for item in content if isinstance(item, int))
        if len(numbers) != len(content):
            raise Undetermined(f"{what} depends on a symbolic size")
        return numbers


Rule = Callable[[Call], tuple[str, Shape]]
"""Element type and shape of the result; raises `Illegal` or `Undetermined`."""


def shape_text(shape: Shape) -> str:
    """A shape for messages, for example "1x3xs0x192"; "scalar" for rank 0."""
    return "x".join(str(size) for size in shape) or "scalar"


def require(condition: bool, reason: str) -> None:
    """Raise `Illegal` with `reason` unless `condition` holds."""
    if not condition:
        raise Illegal(reason)


def broadcast(left: Shape, right: Shape) -> Shape:
    """Shape of an element-wise result by NumPy's rule, which is ONNX's (multidirectional broadcasting)."""
    rank = max(len(left), len(right))
    padded = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    return tuple(_broadcast_size(one, other, left, right) for one, other in padded)


def _broadcast_size(one: Dim, other: Dim, left: Shape, right: Shape) -> Dim:
    if one == other or other == 1:
        return one
    if one == 1:
        return other
    if isinstance(one, int) and isinstance(other, int):
        raise Illegal(f"shapes {shape_text(left)} and {shape_text(right)} do not broadcast")
    if isinstance(one, int) != isinstance(other, int):
        return one if isinstance(one, int) else other  # a size n > 1 beside a symbol: the symbol is n or 1
    raise Undetermined(f"whether {one} and {other} are the same size is not known")
