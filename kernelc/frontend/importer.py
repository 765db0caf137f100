"""From a decoded ONNX model to a typed graph of the Media dialect."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from kernelc.frontend import operators
from kernelc.frontend.attributes import Attributes
from kernelc.frontend.binding import Declared, bind, replaced
from kernelc.frontend.operators.registry import NodeImport, since_of
from kernelc.frontend.read import opset_of
from kernelc.frontend.scrub.rules import REPLACEMENT
from kernelc.frontend.site import Site, shown
from kernelc.frontend.tensors import MAX_RANK, MAX_WEIGHT_BYTES, TensorReader, dtype_of
from kernelc.graph import Graph
from kernelc.media.builder import GraphBuilder
from kernelc.media.call import TooLarge
from kernelfarm.errors import Code, FarmError

MAX_NAME = 127
"""Longest name of a graph input or output in bytes of UTF-8: the device tells longer ones cut (media_engine.h)."""
MAX_PORTS = 256
"""Most graph inputs and outputs together: the device takes no more (KF_MAX_TENSORS)."""


def import_model(
    model: onnx.ModelProto, folder: Path, shapes: Mapping[str, tuple[int, ...]], *, allow_symbolic: bool = False
) -> Graph:
    """The model's graph with every value typed; external data is read from `folder`.

    Constants are weights, defaults of inputs (initializers of the same name) constants. Declared shapes of results are
    not trusted: all are inferred. So a shape given in place of one that the model fixes holds for the whole graph, or
    is refused with SHAPE_MISMATCH where an operator contradicts it.

    Raises `FarmError` with the codes of `kernelc.frontend.load`.
    """
    return _Importer(model, folder).run(shapes, allow_symbolic)


class _Importer:
    def __init__(self, model: onnx.ModelProto, folder: Path) -> None:
        self._graph = model.graph
        self._opset = opset_of(model)
        self._reader = TensorReader(folder, MAX_WEIGHT_BYTES)
        self._builder = GraphBuilder()
        self._values: dict[str, str] = {}  # the model's name of a value -> the builder's
        self._absent: dict[str, str] = {}  # outputs that are not computed -> why

    def run(self, shapes: Mapping[str, tuple[int, ...]], allow_symbolic: bool) -> Graph:
        for tensor in self._graph.initializer:
            if not tensor.name or tensor.name in self._values:
                raise _invalid(f"the weight name {shown(tensor.name)} is empty or given twice")
            self._values[tensor.name] = self._builder.weight(self._reader.read(tensor))
        other_shapes = self._inputs(shapes, allow_symbolic)
        try:
            for index in _execution_order(self._graph, set(self._values)):
                self._node(index)
        except FarmError as reason:
            if other_shapes and reason.code in (Code.GRAPH_INVALID, Code.SHAPE_NOT_INFERRED):
                raise _not_consistent(other_shapes, reason) from reason
            raise
        return self._builder.finish(self._outputs())

    def _inputs(self, shapes: Mapping[str, tuple[int, ...]], allow_symbolic: bool) -> str:
        """Add the inputs; in words, which of the given shapes replace sizes that the model fixes."""
        declared = [_declared(info) for info in self._graph.input if info.name not in self._values]
        if len(declared) + len(self._graph.output) > MAX_PORTS:
            what = f"the model has {len(declared)} inputs and {len(self._graph.output)} outputs"
            raise FarmError(Code.MODEL_TOO_LARGE, what, f"the limit is {MAX_PORTS} together")
        names = [entry.name for entry in declared]
        if len(set(names)) != len(names):
            raise _invalid("two graph inputs have the same name")
        bound = bind(declared, shapes, allow_symbolic=allow_symbolic)
        for entry, shape in zip(declared, bound, strict=True):
            try:
                self._values[entry.name] = self._builder.input(entry.name, entry.dtype, shape)
            except TooLarge as reason:
                what = f"input {shown(entry.name)} is too large"
                raise FarmError(Code.MODEL_TOO_LARGE, what, str(reason), "Give a smaller --shape.") from reason
        return replaced(declared, bound)

    def _node(self, index: int) -> None:
        proto = self._graph.node[index]
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        site = Site(index, proto.name, proto.op_type, domain, self._opset)
        handler = None if domain else operators.handler_of(proto.op_type, self._opset)
        if handler is None:
            raise _unknown(site)
        inputs = [self._value(site, name) for name in proto.input]
        attributes = Attributes(site, proto.attribute)
        node = NodeImport(site, self._builder, inputs, attributes, self._reader, len(proto.output))
        result = handler(node)
        attributes.finish()
        results = (result,) if isinstance(result, str) else result
        if not any(proto.output[: len(results)]):
            raise site.invalid("it has no output")
        self._values.update({name: value for name, value in zip(proto.output, results, strict=False) if name})
        rest = enumerate(proto.output[len(results) :], len(results))
        self._absent.update({name: f"output {i} of {site}" for i, name in rest if name})

    def _value(self, site: Site, name: str) -> str | None:
        if not name:
            return None
        if name in self._absent:
            raise site.unsupported(f"it reads {self._absent[name]}, which is not computed")
        return self._values[name]

    def _outputs(self) -> list[tuple[str, str]]:
        outputs: dict[str, str] = {}
        for info in self._graph.output:
            _check_name(info.name, "output")
            if info.name in self._absent:
                why = f"it is {self._absent[info.name]}, which is not computed"
                raise FarmError(Code.OPERATOR_FORM_UNSUPPORTED, f"graph output {shown(info.name)} is unsupported", why)
            if info.name not in self._values:
                raise _invalid(f"graph output {shown(info.name)} is computed by no node")
            if info.name in outputs:
                raise _invalid(f"two graph outputs have the name {shown(info.name)}")
            outputs[info.name] = self._values[info.name]
        return list(outputs.items())


def _declared(info: onnx.ValueInfoProto) -> Declared:
    _check_name(info.name, "input")
    what = f"input {shown(info.name)}"
    if not info.type.HasField("tensor_type"):
        raise FarmError(
            Code.DTYPE_UNSUPPORTED, f"{what} is not a tensor", "sequences, maps and optionals are not taken"
        )
    kind = info.type.tensor_type
    dtype = dtype_of(kind.elem_type, what)
    if not kind.HasField("shape"):
        raise _invalid(f"{what} has no shape, not even a rank")
    if len(kind.shape.dim) > MAX_RANK:
        raise _invalid(f"{what} has rank {len(kind.shape.dim)}; the limit is {MAX_RANK}")
    return Declared(info.name, dtype, tuple(_size(dim) for dim in kind.shape.dim))


def _size(dim: Any) -> int | str:
    """A negative size is one that the exporter did not know."""
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else ""
    return str(dim.dim_param)


def _check_name(name: str, kind: str) -> None:
    if not name or len(name.encode()) > MAX_NAME or not name.isprintable():
        raise _invalid(f"the {kind} name {shown(name)} is empty, over {MAX_NAME} bytes, or not printable")


def _execution_order(graph: onnx.GraphProto, known: set[str]) -> list[int]:
    """Indices of the nodes in an order in which each value is made before it is read; the file's own where that is one.

    Raises `FarmError` GRAPH_INVALID for a value made twice, one made by nobody, and a cycle.
    """
    makers: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name in makers or name in known:
                raise _invalid(f"two nodes or inputs make the value {shown(name)}", node=index)
            if name:
                makers[name] = index
    readers: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for index, node in enumerate(graph.node):
        names = {name for name in node.input if name and name not in known}
        for name in sorted(names - makers.keys()):
            raise _invalid(f"node {index} {shown(node.name)} reads {shown(name)}, which nothing makes", node=index)
        sources = {makers[name] for name in names}
        waiting[index] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(index)
    ready = [index for index, count in waiting.items() if count == 0]  # in order, hence a heap
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers.get(index, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) != len(graph.node):
        index = min(index for index, count in waiting.items() if count > 0)
        raise _invalid(f"node {index} {shown(graph.node[index].name)} depends on its own result", node=index)
    return order


def _unknown(site: Site) -> FarmError:
    since = since_of(site.operator) if not site.domain else None
    if since is not None:
        why = f"it came with operator set {since}; the model declares {site.opset}"
        return site.error(Code.OPERATOR_UNKNOWN, why, "Export the model with a newer operator set.")
    advice = f"Export the model with supported operators: {', '.join(operators.supported())}."
    if site.operator == REPLACEMENT:
        why = "ONNX has no operator of that name, which was scrubbed; node numbers are those of your file"
        return site.error(Code.OPERATOR_UNKNOWN, why, advice)
    near = difflib.get_close_matches(site.operator[:80], operators.supported(), 1, 0.0)[0]
    error = site.error(Code.OPERATOR_UNKNOWN, f"the nearest supported operator is {near}", advice)
    error.detail["nearest"] = near
    return error


def _not_consistent(replacements: str, reason: FarmError) -> FarmError:
    """The error of a graph that holds for its declared sizes only."""
    return FarmError(
        Code.SHAPE_MISMATCH,
        "the graph is not consistent with the shape given in place of the one that the model fixes",
        f"{replacements}; then {reason.what}: {reason.why}",
        "Give the declared shape, or export the model with dynamic sizes.",
        detail=reason.detail,
    )


def _invalid(why: str, **detail: int) -> FarmError:
    return FarmError(
        Code.GRAPH_INVALID, "the model's graph is invalid", why, "Check it with onnx.checker.", detail=detail
    )
