"""Builds a model anew from the fields that decide what it computes. What is not copied here is gone.

So no list of fields that hold text can be out of date, fields that this version of ONNX does not know included. Nodes
and inputs keep their places: "node 5" of an error is node 5 of the file that was handed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from kernelc.frontend.binding import ANONYMOUS
from kernelc.frontend.scrub import public
from kernelc.frontend.scrub.rules import REPLACEMENT, interface_name
from kernelc.frontend.scrub.secrets import Secrets
from kernelc.frontend.scrub.tensors import Range, TensorScrubber

_Proto = onnx.AttributeProto
_PLAIN = {_Proto.INT: "i", _Proto.FLOAT: "f"}
_LISTS = {_Proto.INTS: "ints", _Proto.FLOATS: "floats"}
WORDS = frozenset(
    {
        "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", "DCR", "CRD", "nearest", "linear", "bilinear", "cubic",
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_half_pixel_for_nn", "tf_crop_and_resize", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil",
        "stretch", "not_larger", "not_smaller",
    }
)  # fmt: skip
"""The words that text attributes of supported operators take. Other operators are refused before they are read."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """An input or output, `kind` number `index` of the model, that lost its name `old`, since that held a `why`."""

    kind: str
    index: int
    old: str
    new: str
    why: str


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """`removed` counts the texts that are gone, by the kind of field; `ranges` are the bytes of its `DATA_FILE`."""

    model: onnx.ModelProto
    removed: Mapping[str, int]
    renamed: tuple[Renamed, ...]
    ranges: tuple[Range, ...]


def scrub(model: onnx.ModelProto, secrets: Secrets) -> Scrubbed:
    """The model without anything but its computation. A scrubbed model stays as it is, byte for byte.

    Raises `FarmError` for external data that cannot be placed, as `TensorScrubber.copy`.
    """
    return _Scrubber(model, secrets).run()


class _Scrubber:
    def __init__(self, model: onnx.ModelProto, secrets: Secrets) -> None:
        self._old = model
        self._secrets = secrets
        self._tensors = TensorScrubber()
        self._names = _Names(model.graph, secrets)
        self._sizes: dict[str, str] = {}

    def run(self) -> Scrubbed:
        old, new = self._old, onnx.ModelProto()
        if old.HasField("ir_version"):
            new.ir_version = old.ir_version
        used = {_domain(node.domain) for node in old.graph.node}
        for entry in old.opset_import:
            if entry.domain in ("", "ai.onnx") or entry.domain in used:
                new.opset_import.add(domain=_public(public.DOMAINS, entry.domain), version=entry.version)
        self._graph(old.graph, new.graph)
        return Scrubbed(new, _removed(old, new), tuple(self._names.renamed), self._tensors.ranges)

    def _graph(self, old: onnx.GraphProto, new: onnx.GraphProto) -> None:
        new.name = "model"
        unused = _unused(old)
        for index, tensor in enumerate(old.initializer):
            if tensor.name not in unused:
                name = self._names.of(tensor.name, "w")
                new.initializer.append(self._tensors.copy(tensor, name, f"weight {index}"))
        for info in old.input:
            if info.name not in unused:
                self._value(info, new.input.add())
        for index, node in enumerate(old.node):
            self._node(index, node, new.node.add())
        for info in old.output:
            self._value(info, new.output.add())

    def _node(self, index: int, old: onnx.NodeProto, new: onnx.NodeProto) -> None:
        new.op_type = self._operator(old.op_type)
        if old.domain:
            new.domain = _public(public.DOMAINS, old.domain)
        new.input.extend(self._names.of(name, "v") for name in old.input)
        new.output.extend(self._names.of(name, "v") for name in old.output)
        for attribute in old.attribute:
            self._attribute(attribute, new.attribute.add(), f"the constant of node {index}")

    def _attribute(self, old: onnx.AttributeProto, new: onnx.AttributeProto, what: str) -> None:
        """Attributes of other kinds keep their name and kind alone: the importer refuses them by these."""
        new.name, new.type = _public(public.attributes(), old.name), old.type
        if old.ref_attr_name:
            new.ref_attr_name = REPLACEMENT
        if old.type in _PLAIN:
            setattr(new, _PLAIN[old.type], getattr(old, _PLAIN[old.type]))
        elif old.type in _LISTS:
            getattr(new, _LISTS[old.type]).extend(getattr(old, _LISTS[old.type]))
        elif old.type == _Proto.STRING:
            new.s = old.s if old.s in _WORDS else REPLACEMENT.encode()
        elif old.type == _Proto.TENSOR:
            new.t.CopyFrom(self._tensors.copy(old.t, "", what))

    def _value(self, old: onnx.ValueInfoProto, new: onnx.ValueInfoProto) -> None:
        new.name = self._names.of(old.name, "v")
        if not old.type.HasField("tensor_type"):
            return
        kind = old.type.tensor_type
        new.type.tensor_type.elem_type = kind.elem_type
        if not kind.HasField("shape"):
            return
        new.type.tensor_type.shape.SetInParent()
        for size in kind.shape.dim:
            made = new.type.tensor_type.shape.dim.add()
            if size.HasField("dim_value"):
                made.dim_value = size.dim_value
            elif size.dim_param not in ANONYMOUS:
                made.dim_param = self._sizes.setdefault(size.dim_param, f"d{len(self._sizes)}")

    def _operator(self, name: str) -> str:
        """A misspelt operator keeps its name, so that the importer can say which one was meant."""
        kept = name in public.operators() or (public.is_misspelt(name) and not self._secrets.found(name))
        return name if kept else REPLACEMENT


class _Names:
    """New names of values: the interface's own where they may stay, numbers for all others."""

    def __init__(self, graph: onnx.GraphProto, secrets: Secrets) -> None:
        weights = {tensor.name for tensor in graph.initializer}
        inputs = [info.name for info in graph.input if info.name not in weights]
        outputs = [info.name for info in graph.output]
        why = {name: secrets.found(name) for name in (*inputs, *outputs)}
        kept = {name for name, reason in why.items() if not reason}
        self.renamed: list[Renamed] = []
        self._new = {"": "", **{name: name for name in kept}}
        for kind, names in (("input", inputs), ("output", outputs)):
            for index, name in enumerate(names):
                if name not in self._new:
                    self._new[name] = interface_name(kind, index, self._new.values())
                    self.renamed.append(Renamed(kind, index, name, self._new[name], why[name]))
        self._taken = set(self._new.values())
        self._count: Counter[str] = Counter()

    def of(self, name: str, kind: str) -> str:
        """The new name of a value; one that is new here becomes the next `kind`."""
        if name not in self._new:
            self._new[name] = next(made for made in self._numbered(kind) if made not in self._taken)
        new: str = self._new[name]
        return new

    def _numbered(self, kind: str) -> Iterable[str]:
        while True:
            self._count[kind] += 1
            yield f"{kind}{self._count[kind] - 1}"


_WORDS = frozenset(word.encode() for word in WORDS)


_KINDS = {
    "doc_string": "doc strings",
    "metadata_props": "metadata",
    "domain": "producer",
    "producer_name": "producer",
    "producer_version": "producer",
}


def _public(names: Collection[str], name: str) -> str:
    return name if name in names else REPLACEMENT


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _unused(graph: onnx.GraphProto) -> frozenset[str]:
    """Names of the weights that no node reads and no output is."""
    read = {name for node in graph.node for name in node.input} | {info.name for info in graph.output}
    makers = {name for node in graph.node for name in node.output}  # made twice: the importer is to see it
    return frozenset(tensor.name for tensor in graph.initializer if tensor.name) - read - makers


def _removed(old: onnx.ModelProto, new: onnx.ModelProto) -> dict[str, int]:
    """How many texts of each kind the scrubbed model lacks: doc strings, metadata, producer, names."""
    before, after = Counter(_texts(old)), Counter(_texts(new))
    counts: Counter[str] = Counter()
    for (field, text), count in before.items():
        lost = count - after[(field, text)]
        if text and lost > 0:
            counts[_KINDS.get(field, "names")] += lost
    return dict(sorted(counts.items()))


def _texts(message: Any, field_of: str = "") -> Iterable[tuple[str, str]]:
    """Every text of a message with the name of its field; of entries with keys, that of the list."""
    for field, value in message.ListFields():
        name = field_of or field.name
        if field.type == field.TYPE_STRING:
            yield from ((name, text) for text in (value if field.is_repeated else (value,)))
        elif field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                yield from _texts(part, "metadata_props" if field.name == "metadata_props" else "")
