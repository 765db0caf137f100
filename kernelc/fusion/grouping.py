"""Groups of an anchor and the element-wise nodes after it.

The anchor decides the loops of the kernel; each epilogue node takes the element that the node before it just made, so
that it costs no pass over memory. A node joins the group of the node before it where nothing in `_objections` speaks
against it. Every other operand of an epilogue node is a constant, a graph input, or made before the anchor; hence
groups in the order of their anchors are in an order in which they can run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelc.graph import Graph, Group, Node
from kernelc.media.call import shape_text

COMPUTING = frozenset(
    {"conv", "conv_transpose", "matmul", "global_average_pool", "max_pool", "average_pool", "resize", "softmax"}
)
"""Anchors with loops of their own."""
EPILOGUE = frozenset({"add", "sub", "mul", "div", "relu", "clip", "sigmoid", "hard_sigmoid", "hard_swish"})
"""Element-wise operations that can follow an anchor; they are anchors too where nothing takes them in."""
MAX_EPILOGUE = 16
"""Longer chains are cut: each node may hold registers."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that did not join the group of the node before it, and why."""

    group: str
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class FusionResult:
    """Groups in execution order, which hold every node once, and refusals in the order in which they were met."""

    groups: tuple[Group, ...]
    refusals: tuple[Refusal, ...]


def group(graph: Graph) -> FusionResult:
    """The groups of a graph; the same graph gives the same groups."""
    position = {node.name: index for index, node in enumerate(graph.nodes)}
    taken: set[str] = set()
    groups: list[Group] = []
    refusals: list[Refusal] = []
    for anchor in graph.nodes:
        if anchor.name in taken:
            continue
        name = f"g{len(groups)}_{anchor.op}"
        chain = [anchor]
        while (following := _next(graph, chain, position)) is not None:
            node, objections = following
            if objections:
                refusals += [Refusal(name, node_name, reason) for node_name, reason in objections]
                break
            chain.append(node)
        taken.update(node.name for node in chain)
        groups.append(Group(name, anchor, tuple(chain[1:]), _inputs(chain), chain[-1].outputs[0]))
    return FusionResult(tuple(groups), tuple(refusals))


def to_text(result: FusionResult) -> str:
    """The result as lines of text: what a stage digest is made of and what `farm explain` shows."""
    lines = [
        f"{entry.name}: {' + '.join(node.name for node in entry.nodes)} ({', '.join(entry.inputs)}) -> {entry.output}"
        for entry in result.groups
    ]
    lines += [f"refused {refusal.node} after {refusal.group}: {refusal.reason}" for refusal in result.refusals]
    return "".join(f"{line}\n" for line in lines)


def _next(graph: Graph, chain: list[Node], position: dict[str, int]) -> tuple[Node, list[tuple[str, str]]] | None:
    """The node that could join the chain with the objections to it; None where no element-wise node follows."""
    readers = graph.consumers[chain[-1].outputs[0]]
    candidates = [node for node in readers if node.op in EPILOGUE]
    if not candidates:
        return None
    objections = [
        (node.name, reason) for node in candidates if (reason := next(_objections(graph, chain, node, position), None))
    ]
    return candidates[0], objections


def _objections(graph: Graph, chain: list[Node], node: Node, position: dict[str, int]) -> Iterator[str]:
    """Why the node may not join; nothing where it may."""
    anchor, value = chain[0], chain[-1].outputs[0]
    if anchor.op not in COMPUTING | EPILOGUE:
        yield f"{anchor.op} takes no epilogue"
    if value in graph.output_tensors:
        yield f"{value} is a graph output and must be written"
    if len(graph.consumers[value]) > 1:
        yield f"{value} is read by {len(graph.consumers[value])} nodes and must be written"
    if node.inputs.count(value) > 1:
        yield f"it reads {value} more than once"
    if graph.result(node).shape != graph.tensors[value].shape:
        yield f"it changes the shape of {value} to {shape_text(graph.result(node).shape)}"
    if len(chain) > MAX_EPILOGUE:
        yield f"the group has {MAX_EPILOGUE} epilogue nodes already"
    for name in node.inputs:
        if name == value or name in graph.weights or name in graph.input_tensors:
            continue
        if position[graph.producers[name].name] > position[anchor.name]:
            yield f"its operand {name} is made after the anchor {anchor.name}"
    yield from _operand_objections(graph, node, value)


def _operand_objections(graph: Graph, node: Node, value: str) -> Iterator[str]:
    """An operand must be of the result's shape, or a scalar, or one number per channel (dimension 1)."""
    shape = graph.tensors[value].shape
    per_channel = tuple(size if index == 1 else 1 for index, size in enumerate(shape))
    for name in node.inputs:
        if name != value and graph.tensors[name].shape not in ((), shape, per_channel):
            found = shape_text(graph.tensors[name].shape)
            yield f"its operand {name} of shape {found} is neither whole, nor per channel, nor a scalar"


def _inputs(chain: list[Node]) -> tuple[str, ...]:
    made = {node.outputs[0] for node in chain}
    return tuple(dict.fromkeys(name for node in chain for name in node.inputs if name not in made))
