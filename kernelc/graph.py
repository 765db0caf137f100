"""The frozen view of a model that all analyses of the compiler run on: tensors, nodes, weights, fusion groups.

Names are short and stable (`t3` a value, `w1` a weight, `n12_conv` a node) so that no text of the model goes on; only
graph inputs and outputs keep the model's names, because the caller of the kernels needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kernelc.symbols import Dim, SymbolicDim
from kernelfarm.digest import Digest, of_bytes

__all__ = [
    "AttrValue", "Dim", "Graph", "Group", "Node", "Port", "Spread", "SymbolicDim", "Tensor", "Weight",
    "channel_axis", "spread", "weight_of",
]  # fmt: skip

AttrValue = int | float | str | tuple[int, ...]
"""Value of an attribute; floats are float64 that hold the model's float32 exactly."""

NUMPY_TYPES: Mapping[str, np.dtype[np.generic]] = {
    "bool": np.dtype(np.bool_),
    "f16": np.dtype("<f2"),
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
    "i8": np.dtype("i1"),
    "i16": np.dtype("<i2"),
    "i32": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
    "u8": np.dtype("u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
    "u64": np.dtype("<u8"),
}
"""Element types by their name in a `Tensor`, little endian."""

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Tensor:
    """Type of a value: element type (a key of `NUMPY_TYPES`) and sizes, outermost first."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The sizes as numbers; raises `ValueError` where one is symbolic."""
        sizes = tuple(size for size in self.shape if isinstance(size, int))
        if len(sizes) != len(self.shape):
            raise ValueError(f"the shape of {self.name} is symbolic")
        return sizes

    @property
    def is_static(self) -> bool:
        """Whether every size is a number."""
        return all(isinstance(size, int) for size in self.shape)

    @property
    def elements(self) -> int:
        """Number of elements of a static tensor."""
        return prod(self.static_shape)

    @property
    def bytes(self) -> int:
        """Bytes of a static tensor, packed."""
        return self.elements * NUMPY_TYPES[self.dtype].itemsize


def channel_axis(rank: int) -> int:
    """The dimension that holds the channels of a value: the last one of a sequence [N, L, C], else dimension 1."""
    return 2 if rank == 3 else 1


Spread = Literal["none", "scalar", "channel", "whole", "other"]


def spread(shape: tuple[Dim, ...], result: tuple[Dim, ...]) -> Spread:
    """How an operand of `shape` covers a result: one number, one per channel, all of it, or otherwise."""
    if shape == result:
        return "whole"
    if shape == ():
        return "scalar"
    channel = channel_axis(len(result))
    return "channel" if shape == tuple(size if i == channel else 1 for i, size in enumerate(result)) else "other"


@dataclass(frozen=True, slots=True)
class Port:
    """A graph input or output: the model's name for the value called `tensor` inside the graph."""

    name: str
    tensor: str


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant of the model, kept outside the IR by the digest of its bytes (row major, little endian)."""

    digest: Digest
    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def array(self) -> Array:
        """The values as a read-only array over `data`."""
        return np.frombuffer(self.data, NUMPY_TYPES[self.dtype]).reshape(self.shape)

    @property
    def is_inline(self) -> bool:
        """Whether it is a shape or axis list, which IR shows in place: integers, rank <= 1, at most 16."""
        return self.dtype in ("i64", "i32") and len(self.shape) <= 1 and prod(self.shape) <= 16


def weight_of(array: Array, dtype: str) -> Weight:
    """The weight that holds `array`, converted to contiguous little-endian `dtype` bytes without a change of value."""
    exact = np.ascontiguousarray(array, NUMPY_TYPES[dtype]).reshape(array.shape)
    data = exact.tobytes()
    return Weight(of_bytes(data), dtype, tuple(int(size) for size in array.shape), data)


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of the Media dialect: `op` without "media.", operands by value name ("" for none), attributes."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: tuple[tuple[str, AttrValue], ...] = ()

    def attr(self, name: str) -> AttrValue | None:
        """The attribute's value, None where it is absent."""
        return next((value for key, value in self.attrs if key == name), None)

    def integers(self, name: str) -> tuple[int, ...]:
        """A list-of-integers attribute; raises `KeyError` where it is absent or of another type."""
        value = self.attr(name)
        if not isinstance(value, tuple):
            raise KeyError(name)
        return value

    def integer(self, name: str) -> int:
        """An integer attribute; raises `KeyError` where it is absent or of another type."""
        value = self.attr(name)
        if not isinstance(value, int):
            raise KeyError(name)
        return value

    def real(self, name: str) -> float:
        """A float attribute; raises `KeyError` where it is absent or of another type."""
        value = self.attr(name)
        if not isinstance(value, float):
            raise KeyError(name)
        return value

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the operands that are present."""
        return tuple(name for name in self.inputs if name)


@dataclass(frozen=True)
class Graph:
    """A model: nodes in topological order; `tensors` has the type of every value (inputs, weights and results) by name.

    `inputs` and `outputs` carry the model's names; all other names are the graph's own. A node has exactly one result.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    weights: Mapping[str, Weight]

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that makes each result."""
        return {output: node for node in self.nodes for output in node.outputs}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value, in order, each once."""
        found: dict[str, list[Node]] = {name: [] for name in self.tensors}
        for node in self.nodes:
            for name in dict.fromkeys(node.operands):
                found[name].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def output_tensors(self) -> frozenset[str]:
        """Names of the values that are graph outputs."""
        return frozenset(port.tensor for port in self.outputs)

    @cached_property
    def input_tensors(self) -> frozenset[str]:
        """Names of the values that are graph inputs."""
        return frozenset(port.tensor for port in self.inputs)

    def result(self, node: Node) -> Tensor:
        """Type of a node's result."""
        return self.tensors[node.outputs[0]]

    def weight_bytes(self) -> Mapping[Digest, bytes]:
        """The bytes of all weights by digest."""
        return {weight.digest: weight.data for _, weight in sorted(self.weights.items())}


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that become one kernel: the anchor, then element-wise nodes that each read the result of the one before.

    Such a node may also read the result of an earlier one of the group, which the kernel keeps for it.
    `inputs` are the values read from outside (graph inputs, weights, results of earlier groups) in order of first use;
    `output` is the only value that leaves. Groups are listed in an order in which they can run.
    """

    name: str
    anchor: Node
    epilogue: tuple[Node, ...]
    inputs: tuple[str, ...]
    output: str

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Anchor and epilogue in order."""
        return (self.anchor, *self.epilogue)
