"""A graph under construction: each node is checked and typed as it is added, so that every finished graph is legal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kernelc.graph import AttrValue, Graph, Node, Port, Tensor, Weight
from kernelc.media.call import Call, Content, Shape, TooLarge
from kernelc.media.contents import content_of_result, content_of_weight
from kernelc.media.infer import result_type

MAX_TENSOR_BYTES = 2**31 - 1
"""A larger value is refused: indices inside a tensor stay within 32 bits."""


class GraphBuilder:
    """Collects inputs, weights and nodes; `finish` gives the graph.

    Names that the methods return are good for this builder only; the finished graph has its own.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.weights: dict[str, Weight] = {}
        self.contents: dict[str, Content | None] = {}
        self.producers: dict[str, Node] = {}
        self._inputs: list[Port] = []
        self._nodes: list[Node] = []
        self._weight_names: dict[tuple[str, str, tuple[int, ...]], str] = {}

    def input(self, name: str, dtype: str, shape: Shape) -> str:
        """Add a graph input that the model calls `name`."""
        tensor = self._tensor(f"t{len(self.tensors)}", dtype, shape)
        self._inputs.append(Port(name, tensor.name))
        return tensor.name

    def weight(self, weight: Weight) -> str:
        """Add a constant; equal ones share a name."""
        key = (weight.digest, weight.dtype, weight.shape)
        if key not in self._weight_names:
            tensor = self._tensor(f"w{len(self.weights)}", weight.dtype, weight.shape)
            self.weights[tensor.name] = weight
            self.contents[tensor.name] = content_of_weight(weight)
            self._weight_names[key] = tensor.name
        return self._weight_names[key]

    def node(self, op: str, inputs: Sequence[str], attrs: Mapping[str, AttrValue] | None = None) -> str:
        """Add a node and return the name of its result.

        Raises `Illegal`, `Undetermined` or `TooLarge` where the node has no legal type.
        """
        name = f"t{len(self.tensors)}"
        node = Node(op, f"n{len(self._nodes)}_{op}", tuple(inputs), (name,), tuple(sorted((attrs or {}).items())))
        call = self.call(node)
        dtype, shape = result_type(call)
        self._tensor(name, dtype, shape)
        self.contents[name] = content_of_result(call, dtype, shape)
        self._nodes.append(node)
        self.producers[name] = node
        return name

    def call(self, node: Node) -> Call:
        """The node with what this builder knows of its operands."""
        tensors = tuple(self.tensors[name] for name in node.inputs)
        return Call(node, tensors, tuple(self.contents.get(name) for name in node.inputs))

    def finish(self, outputs: Iterable[tuple[str, str]]) -> Graph:
        """The graph with these outputs, (model's name, value): without what no output needs, with stable names.

        Inputs are `t0`, `t1`, ...; results follow in order; weights are numbered by first use.
        """
        wanted = list(outputs)
        live = self._live(name for _, name in wanted)
        names: dict[str, str] = {}
        for port in self._inputs:
            names[port.tensor] = f"t{len(names)}"
        results = [node.outputs[0] for node in live]
        names.update({result: f"t{len(names) + index}" for index, result in enumerate(results)})
        used = dict.fromkeys(
            name for name in [*(i for node in live for i in node.inputs), *(name for _, name in wanted)]
            if name in self.weights
        )  # fmt: skip
        names.update({name: f"w{index}" for index, name in enumerate(used)})
        return Graph(
            inputs=tuple(Port(port.name, names[port.tensor]) for port in self._inputs),
            outputs=tuple(Port(name, names[value]) for name, value in wanted),
            nodes=tuple(_renamed(node, index, names) for index, node in enumerate(live)),
            tensors={new: Tensor(new, self.tensors[old].dtype, self.tensors[old].shape) for old, new in names.items()},
            weights={names[name]: self.weights[name] for name in used},
        )

    def _tensor(self, name: str, dtype: str, shape: Shape) -> Tensor:
        tensor = Tensor(name, dtype, shape)
        if tensor.is_static and tensor.bytes > MAX_TENSOR_BYTES:
            raise TooLarge(f"a value of {tensor.bytes} bytes is over the limit of {MAX_TENSOR_BYTES}")
        self.tensors[name] = tensor
        return tensor

    def _live(self, outputs: Iterable[str]) -> list[Node]:
        needed = set(outputs)
        live = []
        for node in reversed(self._nodes):
            if node.outputs[0] in needed:
                needed.update(node.inputs)
                live.append(node)
        return live[::-1]


def _renamed(node: Node, index: int, names: Mapping[str, str]) -> Node:
    inputs = tuple(names[name] for name in node.inputs)
    return Node(node.op, f"n{index}_{node.op}", inputs, (names[node.outputs[0]],), node.attrs)
