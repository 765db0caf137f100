"""A graph as Media dialect text, printed by MLIR: the form that stage digests are made of."""

from __future__ import annotations

import struct
from functools import cache

from kernelc import mlir
from kernelc.graph import AttrValue, Graph, Node, Tensor, Weight
from kernelc.media.irdl import irdl_text
from kernelc.media.ops import OPS

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
    body += [line for node in graph.nodes for line in _node(node, graph)]
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


def _node(node: Node, graph: Graph) -> list[str]:
    """The operation, after casts of its operands where it is variadic and they differ in type.

    IRDL gives all of a variadic's operands one type: where their types differ, it is that with all sizes open.
    """
    names, kinds = [f"%{name}" for name in node.inputs], [_type(graph.tensors[name]) for name in node.inputs]
    casts: list[str] = []
    if OPS[node.op].variadic and len(set(kinds)) > 1:
        tensor = graph.result(node)
        common = f"tensor<{'?x' * len(tensor.shape)}{_element(tensor)}>"
        given, names = names, [f"%{node.outputs[0]}_{number}" for number in range(len(names))]
        casts = [
            f"{name} = tensor.cast {value} : {kind} to {common}"
            for name, value, kind in zip(names, given, kinds, strict=True)
        ]
        kinds = [common] * len(kinds)
    operands, types = ", ".join(names), ", ".join(kinds)
    attrs = ", ".join(f"{name} = {_attribute(value)}" for name, value in node.attrs)
    dictionary = f" {{{attrs}}}" if attrs else ""
    result = _type(graph.result(node))
    return [*casts, f'%{node.outputs[0]} = "media.{node.op}"({operands}){dictionary} : ({types}) -> {result}']


def _type(tensor: Tensor) -> str:
    sizes = "".join(f"{size if isinstance(size, int) else '?'}x" for size in tensor.shape)
    symbols = [quoted(str(size)) for size in tensor.shape if not isinstance(size, int)]
    encoding = f", [{', '.join(symbols)}]" if symbols else ""
    return f"tensor<{sizes}{_element(tensor)}{encoding}>"


def _element(tensor: Tensor) -> str:
    return ELEMENT_TYPES.get(tensor.dtype, tensor.dtype)


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
