"""The engine of the simplifications: a graph is rebuilt node by node, and rules say what a node becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from kernelc.graph import AttrValue, Graph, Node, Tensor, Weight, weight_of
from kernelc.media.builder import GraphBuilder
from kernelc.media.call import Call

Array = NDArray[Any]
MAX_ROUNDS = 16
"""Every rule makes the graph smaller or nearer to its canonical form; one that needs more rounds is left as it is."""


class Rebuild:
    """One pass over a graph. Rules see nodes with operands already rebuilt; names are those of the new graph."""

    def __init__(self, graph: Graph) -> None:
        self._old = graph
        self._names: dict[str, str] = {}
        self._output_values: set[str] = set()
        self.builder = GraphBuilder()

    def run(self, rules: Sequence[Rule]) -> Graph:
        """The new graph: for each node the first rule that answers decides, else it stays."""
        old = self._old
        for port in old.inputs:
            tensor = old.tensors[port.tensor]
            self._names[port.tensor] = self.builder.input(port.name, tensor.dtype, tensor.shape)
        self._names.update({name: self.builder.weight(weight) for name, weight in old.weights.items()})
        for node in old.nodes:
            moved = Node(node.op, node.name, tuple(self._names[name] for name in node.inputs), node.outputs, node.attrs)
            answer = next((found for rule in rules if (found := rule(self, moved, node)) is not None), None)
            result = self.emit(moved.op, moved.inputs, dict(moved.attrs)) if answer is None else answer
            self._names[node.outputs[0]] = result
            if node.outputs[0] in old.output_tensors:
                self._output_values.add(result)
        return self.builder.finish((port.name, self._names[port.tensor]) for port in old.outputs)

    def emit(self, op: str, inputs: Sequence[str], attrs: Mapping[str, AttrValue] | None = None) -> str:
        """Add a node to the new graph."""
        return self.builder.node(op, inputs, attrs)

    def tensor(self, name: str) -> Tensor:
        """Type of a value."""
        return self.builder.tensors[name]

    def producer(self, name: str, op: str) -> Node | None:
        """The node that makes a value, if it is of this operation."""
        node = self.builder.producers.get(name)
        return node if node is not None and node.op == op else None

    def constant(self, array: Array, dtype: str) -> str:
        """A new constant."""
        return self.builder.weight(weight_of(array, dtype))

    def weight(self, name: str) -> Weight | None:
        """The constant of this name."""
        return self.builder.weights.get(name)

    def scalar(self, name: str) -> float | None:
        """The value of a float constant of one element."""
        weight = self.builder.weights.get(name)
        if weight is None or weight.array.size != 1 or not weight.dtype.startswith("f"):
            return None
        return float(weight.array.reshape(()))

    def call(self, node: Node) -> Call:
        """The node with the types of its operands."""
        return self.builder.call(node)

    def feeds_only(self, old: Node, index: int) -> bool:
        """Whether this operand of the node (as it is in the old graph) is read by nothing else and leaves no output."""
        name = old.inputs[index]
        alone = self._old.consumers[name] == (old,) and old.inputs.count(name) == 1
        return alone and name not in self._old.output_tensors

    def old_producer(self, old: Node, index: int) -> Node | None:
        """The node of the old graph that makes this operand of a node of the old graph."""
        return self._old.producers.get(old.inputs[index])

    def replaced(self, name: str, old: Node) -> str:
        """`name` as the node's result, copied where that must be a value of its own."""
        return self.emit("identity", [name]) if self.must_stay(name, old) else name

    def must_stay(self, name: str, old: Node) -> bool:
        """Whether `name` may not replace the node's result: no output is an input, a constant or another output."""
        if old.outputs[0] not in self._old.output_tensors:
            return False
        return name not in self.builder.producers or name in self._output_values


Rule = Callable[[Rebuild, Node, Node], "str | None"]
"""(rebuild, node with new operands, node of the old graph) -> the new value that replaces its result, or None."""


def rewrite(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """The graph after passes of these rules, until nothing changes."""
    for _ in range(MAX_ROUNDS):
        changed = Rebuild(graph).run(rules)
        if changed == graph:
            break
        graph = changed
    return graph
