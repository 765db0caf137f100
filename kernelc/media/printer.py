"""A graph as Media dialect text, printed by MLIR: the form that stage digests are made of."""

from __future__ import annotations

import struct
from functools import cache

from kernelc import mlir
from kernelc.graph import AttrValue, Graph, Node, Tensor, Weight
from kernelc.media.irdl import irdl_text

ELEMENT_TYPES = {"bool": "i1", **{f"u{bits}": f"ui{bits}" for bits in (8, 16, 32, 64)}}
"""MLIR's names of element types where they differ from ours."""

NAME = "media.name"
"""Attribute of a function argument or result: the model's name for it."""


def to_text(graph: Graph) -> str:
    """The graph as a verified MLIR module with one function; equal graphs give equal text; `parse` reads it back.

    Weights are named by digest only. A symbolic size is "?" in the type, spelled in the type's encoding in order.
    """
    return mlir.verify(_module(graph), [dialect_text()])


@cache
def dialect_text() -> str:
    """IRDL text of the dialect."""
    return irdl_text()


def _module(graph: Graph) -> str:
    inputs = ", ".join(
        f"%{port.tensor}: {_type(graph.tensors[port.tensor])} {{{NAME} = {quoted(port.name)}}}" for port in graph.inputs
    )
    outputs = ", ".join(
        f"{_type(graph.tensors[port.tensor])} {{{NAME} = {quoted(port.name)}}}" for port in graph.outputs
    )
    body = [_weight(name, weight, graph.tensors[name]) for name, weight in graph.weights.items()]
    body += [_node(node, graph) for node in graph.nodes]
    values = ", ".join(f"%{port.tensor}" for port in graph.outputs)
    types = ", ".join(_type(graph.tensors[port.tensor]) for port in graph.outputs)
    body.append(f"func.return {values} : {types}")
    lines = "\n".join(f"  {line}" for line in body)
    return f"func.func @main({inputs}) -> ({outputs}) {{\n{lines}\n}}\n"


def _weight(name: str, weight: Weight, tensor: Tensor) -> str:
    if weight.is_inline:
        value = _attribute(tuple(int(item) for item in weight.array.reshape(-1).tolist()))
        return f'%{name} = "media.constant"() {{value = {value}}} : () -> {_type(tensor)}'
    return f'%{name} = "media.weight"() {{digest = {quoted(weight.digest)}}} : () -> {_type(tensor)}'


def _node(node: Node, graph: Graph) -> str:
    operands = ", ".join(f"%{name}" for name in node.inputs)
    types = ", ".join(_type(graph.tensors[name]) for name in node.inputs)
    attrs = ", ".join(f"{name} = {_attribute(value)}" for name, value in node.attrs)
    dictionary = f" {{{attrs}}}" if attrs else ""
    return f'%{node.outputs[0]} = "media.{node.op}"({operands}){dictionary} : ({types}) -> {_type(graph.result(node))}'


def _type(tensor: Tensor) -> str:
    sizes = "".join(f"{size if isinstance(size, int) else '?'}x" for size in tensor.shape)
    symbols = [quoted(str(size)) for size in tensor.shape if not isinstance(size, int)]
    encoding = f", [{', '.join(symbols)}]" if symbols else ""
    return f"tensor<{sizes}{ELEMENT_TYPES.get(tensor.dtype, tensor.dtype)}{encoding}>"


def _attribute(value: AttrValue) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return f"0x{struct.pack('>d', value).hex()} : f64"  # by its bits: exact, and good for infinities
    if isinstance(value, int):
        return f"{value} : i64"
    return f"array<i64: {', '.join(str(item) for item in value)}>" if value else "array<i64>"


def quoted(text: str) -> str:
    """A string literal of MLIR: printable ASCII as it is, every other byte of the UTF-8 form as two hex digits."""
    plain = set(range(0x20, 0x7F)) - {ord('"'), ord("\\")}
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:02X}" for byte in text.encode()) + '"'
