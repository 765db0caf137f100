"""Which buffer every value of a grouped graph gets: blocks as chosen, halos for padded readers, aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelc.graph import Graph, Group, Node
from kernelc.layout.buffer import Buffer
from kernelc.layout.geometry import conv_taps, image, is_alias, maker_of, transposed_phases
from kernelc.media.builder import MAX_TENSOR_BYTES
from kernelfarm.errors import Code, FarmError


@dataclass(frozen=True, slots=True)
class Layout:
    """`buffers` by value name; `roots` maps each value to the one whose memory it is: itself or an alias's operand.

    `block`: lanes of the target's own blocks.
    """

    buffers: Mapping[str, Buffer]
    roots: Mapping[str, str]
    block: int

    @property
    def wide(self) -> bool:
        """Whether some value in blocks no narrower than the target's fills more than half of one."""
        wide = [buffer for buffer in self.buffers.values() if buffer.lanes >= self.block]
        return any(2 * buffer.channels > buffer.lanes > 1 for buffer in wide)


def check_values(graph: Graph, groups: Sequence[Group]) -> None:
    """Refuse values without a layout by their input or node, before anything is said of their readers."""
    for name in [*(port.tensor for port in graph.inputs), *(group.output for group in groups)]:
        image(graph.tensors[name], *maker_of(graph, name))


def _check_size(graph: Graph, name: str, buffer: Buffer) -> None:
    """Refuse what passes the limit of a value only through the zero columns and lanes of its layout."""
    if buffer.bytes > MAX_TENSOR_BYTES:
        maker, detail = maker_of(graph, name)
        why = f"with {buffer.left} + {buffer.right} columns of padding, in blocks of {buffer.lanes} channels"
        raise FarmError(
            Code.MODEL_TOO_LARGE,
            f"{maker} takes more than {MAX_TENSOR_BYTES} bytes",
            f"it takes {buffer.bytes}, {why}",
            detail=detail,
        )


def assign(graph: Graph, groups: Sequence[Group], lanes: Mapping[str, int], block: int) -> Layout:
    """The layout of all values that groups read or write, with `lanes` for each memory."""
    roots = roots_of(graph, groups)
    halos: dict[str, tuple[int, int]] = {}
    for group in groups:
        if group.anchor.op in ("conv", "conv_transpose"):
            name = roots[group.anchor.inputs[0]]
            before, needed = halos.get(name, (0, 0)), _halo(group.anchor, graph, image(graph.tensors[name])[2])
            halos[name] = max(before[0], needed[0]), max(before[1], needed[1])
    buffers = {}
    for name, root in roots.items():
        buffers[name] = Buffer(*image(graph.tensors[root]), lanes[root], *halos.get(root, (0, 0)))
        _check_size(graph, root, buffers[name])
    return Layout(buffers, roots, block)


def _halo(node: Node, graph: Graph, width: int) -> tuple[int, int]:
    """Zero columns that a convolution reads before and after rows of `width`."""
    if node.op == "conv":
        taps = conv_taps(node, graph)
        return taps.left, taps.right(width, graph.result(node).static_shape[3])
    reaches = [phase.reach(width) for phase in transposed_phases(node, graph)[1]]
    return max(left for left, _ in reaches), max(right for _, right in reaches)


def roots_of(graph: Graph, groups: Sequence[Group]) -> dict[str, str]:
    """The value whose memory each value is; raises as `is_alias`."""
    roots = {port.tensor: port.tensor for port in graph.inputs}
    for group in groups:
        alias = is_alias(graph, group.anchor)
        roots[group.output] = roots[group.anchor.inputs[0]] if alias else group.output
    return roots
