"""What holds of every group, whatever rule made it: G1 to G7 of the list of patterns, by data flow on the frozen graph.

A group lets one value out, the result of its last node, on which every node of it bears. Then no two groups can wait
for each other: were A to read what B lets out and B what A lets out, each of the two values would bear on itself. So
it is enough to look at one group at a time, and any choice of legal groups that share no node can run.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property

from kernelc.graph import Graph, Node, Tensor

COMPUTED_SHAPES = frozenset({"shape", "dynamic_reshape"})
"""Operations whose result, or its shape, is computed from shapes or values."""
MOVING = frozenset(
    {
        *("reshape", "flatten", "squeeze", "unsqueeze", "transpose", "rearrange", "depth_to_space", "slice", "concat"),
        "gather",
    }
)
"""Operations beside which a value has one layout, and another beyond."""


class Flow:
    """Which nodes bear on which, as bits by position in the graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.position: Mapping[str, int] = {node.name: index for index, node in enumerate(graph.nodes)}

    @cached_property
    def _before(self) -> tuple[int, ...]:
        """For each node those that bear on it."""
        found: list[int] = []
        for node in self.graph.nodes:
            bits = 0
            for producer in self.producers(node):
                bits |= found[producer] | 1 << producer
            found.append(bits)
        return tuple(found)

    def producers(self, node: Node) -> list[int]:
        """Positions of the nodes whose results a node reads."""
        makers = (self.graph.producers.get(name) for name in node.operands)
        return [self.position[maker.name] for maker in makers if maker is not None]

    def first_of_all(self, node: Node, value: str) -> bool:
        """Whether all nodes that read a value wait for this one of them."""
        bit = 1 << self.position[node.name]
        others = [reader for reader in self.graph.consumers[value] if reader.name != node.name]
        return all(self._before[self.position[reader.name]] & bit for reader in others)

    def returning(self, nodes: Sequence[Node]) -> Node | None:
        """A node outside that waits for one of `nodes` while another of them waits for it; None where there is none."""
        inside = 0
        for node in nodes:
            inside |= 1 << self.position[node.name]
        for node in nodes:
            for producer in self.producers(node):
                if not inside >> producer & 1 and self._before[producer] & inside:
                    return self.graph.nodes[producer]
        return None


def objections(flow: Flow, nodes: Sequence[Node], on_chip_bytes: int = 0, kept: Container[str] = ()) -> Iterator[str]:
    """Why `nodes`, in order, may not be a group, most telling reason first; nothing where they may.

    `kept` are values that a kernel keeps for several readers, all of which the caller knows to be in the group.
    `on_chip_bytes` is the size of the target's on-chip memory, 0 where it has none to plan for.
    """
    graph, inside = flow.graph, {node.name for node in nodes}
    for node in nodes[:-1]:
        value = node.outputs[0]
        if value in graph.output_tensors:
            yield f"{value} is a graph output and must be written"  # G6
        readers = graph.consumers[value]
        if value in kept:
            continue
        if len(readers) > 1:
            yield f"{value} is read by {len(readers)} nodes and must be written"  # G1
        elif any(reader.name not in inside for reader in readers):
            yield f"{value} is read outside and must be written"
    for node in nodes:
        if node.op in COMPUTED_SHAPES:
            yield f"{node.op} computes a shape"  # G4
        if node.op in MOVING:
            yield f"{node.op} takes no epilogue" if node is nodes[0] else f"{node.op} changes the layout"  # G5
    first = graph.result(nodes[0]).dtype
    for node in nodes[1:]:
        if graph.result(node).dtype != first:
            yield f"{node.op} makes {graph.result(node).dtype} of {first}"  # G7
    outside = flow.returning(nodes)
    if outside is not None:
        yield f"{outside.name} outside waits for the group and the group for it"  # G2
    needed = footprint(graph, nodes) if on_chip_bytes else 0
    if needed > on_chip_bytes:
        yield f"one row of what it works on takes {needed} bytes, on chip are {on_chip_bytes}"  # G3


def footprint(graph: Graph, nodes: Sequence[Node]) -> int:
    """Least bytes that a kernel of `nodes` holds at once: a row of the result and of each whole operand, twice each."""
    result = graph.result(nodes[-1])
    made = {node.outputs[0] for node in nodes}
    whole = {
        name
        for node in nodes[1:]
        for name in node.operands
        if name not in made and graph.tensors[name].shape == result.shape
    }
    return 2 * _row_bytes(result) * (1 + len(whole)) if result.is_static else 0


def _row_bytes(tensor: Tensor) -> int:
    rows = tensor.static_shape[2] if len(tensor.static_shape) == 4 else 1
    return tensor.bytes // max(1, rows)
