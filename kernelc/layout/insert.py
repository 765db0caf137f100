"""Casts where neighbours differ: the grouped graph with a `media.layout_cast` for every copy that was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernelc.graph import Graph, Group, Node, Port, Tensor
from kernelc.layout.candidates import name_of
from kernelc.layout.choice import Places, Question, out_of
from kernelc.layout.forms import Form
from kernelc.schedule.cost import Machine


@dataclass(frozen=True, slots=True)
class Placed:
    """The graph and its groups with casts among them, each just before its first reader; `lanes` of each memory."""

    graph: Graph
    groups: tuple[Group, ...]
    lanes: Mapping[str, int]


def insert(
    asked: Question,
    groups: Sequence[Group],
    machine: Machine,
    places: Mapping[str, Places],
    kernels: Mapping[str, Form],
) -> Placed:
    """Forward over the groups: what a kernel reads in another layout than its home's is read from a cast of it."""
    work = _Insertion(asked, {root: found.home for root, found in places.items()})
    for group in groups:
        form = kernels.get(group.name)
        work.groups.append(group if form is None else work.rewired(group, form))
    outputs = []
    for port in asked.graph.outputs:
        root = asked.roots.get(port.tensor)
        tensor = port.tensor
        if root is not None:
            tensor = work.copy_of(tensor, out_of(asked.graph, machine, tensor, places[root]))
        outputs.append(Port(port.name, tensor))
    nodes = tuple(node for group in work.groups for node in group.nodes)
    graph = replace(asked.graph, outputs=tuple(outputs), nodes=nodes, tensors=dict(work.tensors))
    return Placed(graph, tuple(work.groups), work.lanes)


class _Insertion:
    """The groups so far, the values that were added, and the lanes of every memory."""

    def __init__(self, asked: Question, lanes: Mapping[str, int]) -> None:
        self.asked = asked
        self.groups: list[Group] = []
        self.tensors: dict[str, Tensor] = dict(asked.graph.tensors)
        self.lanes: dict[str, int] = dict(lanes)
        self.made: dict[tuple[str, int], str] = {}

    def copy_of(self, name: str, lanes: int) -> str:
        """A value in other lanes: itself, an earlier cast of it, or a new one; aliases of it are named anew."""
        root = self.asked.roots[name]
        if lanes == self.lanes[root]:
            return name
        if (name, lanes) not in self.made:
            self.made[name, lanes] = self._add(name, root, lanes)
        return self.made[name, lanes]

    def _add(self, name: str, root: str, lanes: int) -> str:
        layout = name_of(lanes)
        new = f"{name}_{layout.lower()}"
        if name == root:
            node = Node("layout_cast", f"{new}_layout_cast", (name,), (new,), (("layout", layout),))
            self.lanes[new] = lanes
        else:
            alias = self.asked.graph.producers[name]
            source = self.copy_of(alias.inputs[0], lanes)
            node = Node(alias.op, f"{new}_{alias.op}", (source,), (new,), alias.attrs)
        self.tensors[new] = replace(self.tensors[name], name=new)
        self.groups.append(Group(node.name, node, (), node.inputs, new))
        return new

    def rewired(self, group: Group, form: Form) -> Group:
        """A group that reads its values in the layouts of its form."""
        anchor = self._node(group, group.anchor, form.read)
        epilogue = tuple(self._node(group, node, form.written) for node in group.epilogue)
        outside = [name for node in (anchor, *epilogue) for name in node.operands]
        inner = {node.outputs[0] for node in group.nodes}
        return replace(
            group, anchor=anchor, epilogue=epilogue,
            inputs=tuple(dict.fromkeys(name for name in outside if name not in inner)),
        )  # fmt: skip

    def _node(self, group: Group, node: Node, lanes: int) -> Node:
        def read(name: str) -> str:
            return self.copy_of(name, lanes) if name in group.inputs and name in self.asked.roots else name

        return replace(node, inputs=tuple(read(name) for name in node.inputs))
