"""Moves of elements as one operation: what transposes, slices, reshapes and others make of a value is a `rearrange`."""

from __future__ import annotations

from kernelc.frontend.rewrite import Rebuild
from kernelc.graph import AttrValue, Node
from kernelc.media import views
from kernelc.media.infer import result_type
from kernelc.media.rules_data import depth_in_space, slice_range
from kernelc.media.views import View

_MOVES = ("rearrange", "reshape", "transpose")


def move(build: Rebuild, node: Node, old: Node) -> str | None:
    """A transpose, slice, reshape or depth_to_space of a static value is a rearrange of the value behind all moves.

    Where these and it are no view together, it is one of its operand.
    """
    if node.op not in ("depth_to_space", "reshape", "slice", "transpose"):
        return None
    value = build.tensor(node.inputs[0])
    _, result = result_type(build.call(node))
    if not value.is_static or not all(isinstance(size, int) and size > 0 for size in result):
        return None
    shape = tuple(size for size in result if isinstance(size, int))
    for source, before in (_behind(build, node.inputs[0]), (value.name, views.whole(value.static_shape))):
        view = _view(build, node, before)
        if view is not None:
            return _moved(build, node, old, source, view, shape)
    return None


def _view(build: Rebuild, node: Node, before: View) -> View | None:
    """What the node makes of the view `before` of some value, which is its operand; None where that is no view."""
    shape = build.tensor(node.inputs[0]).static_shape
    if node.op == "transpose":
        return views.transposed(before, shape, node.integers("permutation"))
    if node.op == "depth_to_space":
        return views.transposed(before, *depth_in_space(shape, node.integer("block"), str(node.attr("mode"))))
    return before if node.op == "reshape" else views.sliced(before, shape, _ranges(build, node))


def _behind(build: Rebuild, name: str) -> tuple[str, View]:
    """The value that the moves before `name` begin with, and the view of it that `name` is."""
    producer = build.builder.producers.get(name)
    if producer is not None and producer.op == "reshape":
        return _behind(build, producer.inputs[0])
    if producer is not None and producer.op == "rearrange":
        return producer.inputs[0], View(
            producer.integers("sizes"), producer.integers("strides"), producer.integer("offset")
        )
    return name, views.whole(build.tensor(name).static_shape)


def _ranges(build: Rebuild, node: Node) -> list[range]:
    """The indices that a slice takes of each dimension."""
    call = build.call(node)
    sizes = call.tensors[0].static_shape
    ranges = [range(size) for size in sizes]
    starts, ends, axes, steps = (call.numbers(index, "a slice bound") for index in range(1, 5))
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        ranges[axis % len(sizes)] = slice_range(sizes[axis % len(sizes)], start, end, step)
    return ranges


def _moved(build: Rebuild, node: Node, old: Node, source: str, view: View, shape: tuple[int, ...]) -> str | None:
    """A view of `source` as a node, or as none; None where that is the node itself."""
    tensor = build.tensor(source)
    if not view.is_whole(tensor.elements):
        attrs: dict[str, AttrValue] = {"sizes": view.sizes, "strides": view.strides, "shape": shape}
        attrs["offset"] = view.offset
        return build.emit("rearrange", [source], attrs)
    if tensor.shape == shape:
        return build.replaced(source, old)
    return (
        None if node.op == "reshape" and node.inputs[0] == source else build.emit("reshape", [source], {"shape": shape})
    )


def joined_views(build: Rebuild, node: Node, old: Node) -> str | None:
    """A concat of moves of one value that follow each other is one move: space to depth by slices, for one."""
    if node.op != "concat" or len(node.inputs) < 2 or not _all_moved(build, node):
        return None
    found = [_behind(build, name) for name in node.inputs]
    shapes = {build.tensor(name).static_shape for name in node.inputs}
    if len({source for source, _ in found}) > 1 or len(shapes) > 1:
        return None
    view = views.joined([view for _, view in found], shapes.pop(), node.integer("axis"))
    shape = tuple(size for size in result_type(build.call(node))[1] if isinstance(size, int))
    return None if view is None else _moved(build, node, old, found[0][0], view, shape)


def transpose_before_concat(build: Rebuild, node: Node, old: Node) -> str | None:
    """A transpose of a concat of moved values, which nothing else reads, is a concat of transposes: those are moves."""
    concat = build.producer(node.inputs[0], "concat") if node.op == "transpose" else None
    if concat is None or not build.feeds_only(old, 0) or not _all_moved(build, concat):
        return None
    order = node.integers("permutation")
    values = [build.emit("transpose", [name], {"permutation": order}) for name in concat.inputs]
    return build.emit("concat", values, {"axis": order.index(concat.integer("axis"))})


def _all_moved(build: Rebuild, node: Node) -> bool:
    """Whether a move makes each operand of a node."""
    makers = [build.builder.producers.get(name) for name in node.inputs]
    return all(maker is not None and maker.op in _MOVES for maker in makers)


RULES = (transpose_before_concat, joined_views, move)
