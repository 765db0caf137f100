"""Media dialect text as a graph.

MLIR checks syntax and structure, then the types and attribute ranges of every operation are checked here; each error
has the line and column of its operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod

import numpy as np

from kernelc import mlir, symbols
from kernelc.graph import NUMPY_TYPES, Graph, Weight, weight_of
from kernelc.media.builder import GraphBuilder
from kernelc.media.call import Illegal, Shape, TooLarge, Undetermined, require, shape_text
from kernelc.media.ops import OPS
from kernelc.media.printer import ELEMENT_TYPES, NAME, dialect_text
from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

_DTYPES = {ELEMENT_TYPES.get(name, name): name for name in NUMPY_TYPES}


def parse(text: str, weights: Mapping[Digest, bytes]) -> Graph:
    """The graph that `text` describes; `weights` holds the bytes of every `media.weight` by digest.

    Raises `FarmError` MEDIA_REJECTED where MLIR does not accept the text and MEDIA_INVALID where an operation breaks a
    rule of the dialect; both have line and column (from 1) in their detail.
    """
    try:
        function = mlir.read_function(text, [dialect_text()])
    except FarmError as error:
        place = f"line {error.detail.get('line', 1)}, column {error.detail.get('column', 1)}"
        raise FarmError(Code.MEDIA_REJECTED, f"{place}: not media text", error.why, detail=error.detail) from error
    return _Reader(weights).read(function)


@contextmanager
def _located(operation: mlir.Operation) -> Iterator[None]:
    try:
        yield
    except (Illegal, Undetermined, TooLarge, FarmError) as reason:
        what = f"line {operation.line}, column {operation.column}: {operation.name} is invalid"
        place = {"line": operation.line, "column": operation.column}
        raise FarmError(Code.MEDIA_INVALID, what, str(reason), detail=place) from reason


class _Reader:
    def __init__(self, weights: Mapping[Digest, bytes]) -> None:
        self._bytes = weights
        self._builder = GraphBuilder()
        self._names: list[str] = []  # of values, by MLIR's number of the value

    def read(self, function: mlir.Function) -> Graph:
        *body, last = function.operations
        with _located(last):  # an argument has no place of its own; the return is the function's only sure operation
            for kind, attributes in zip(function.arguments, function.argument_attributes, strict=True):
                self._names.append(self._builder.input(_port_name(attributes), *_dtype_and_shape(kind)))
        for operation in body:
            with _located(operation):
                self._names.append(self._operation(operation))
        with _located(last):
            require(last.name == "func.return", "the function must end in func.return")
            names = [_port_name(attributes) for attributes in function.result_attributes]
            values = [self._names[number] for number in last.operands]
            return self._builder.finish(zip(names, values, strict=True))

    def _operation(self, operation: mlir.Operation) -> str:
        if operation.name == "tensor.cast":  # of a variadic's operand: see the printer
            return self._names[operation.operands[0]]
        namespace, _, name = operation.name.partition(".")
        require(namespace == "media", "only media operations are allowed")
        declared = _dtype_and_shape(operation.results[0])
        if not OPS[name].is_node:
            return self._constant(name, operation, *declared)
        inputs = [self._names[number] for number in operation.operands]
        result = self._builder.node(name, inputs, operation.attributes)
        tensor = self._builder.tensors[result]
        wanted = f"{tensor.dtype} {shape_text(tensor.shape)}"
        given = f"{declared[0]} {shape_text(declared[1])}"
        require((tensor.dtype, tensor.shape) == declared, f"the result is declared {given}; it is {wanted}")
        return result

    def _constant(self, name: str, operation: mlir.Operation, dtype: str, shape: Shape) -> str:
        sizes = tuple(size for size in shape if isinstance(size, int))
        require(sizes == shape, "a constant has a static shape")
        require(set(operation.attributes) == {attr.name for attr in OPS[name].attrs}, "it has one attribute")
        if name == "weight":
            return self._builder.weight(self._weight(operation.attributes["digest"], dtype, sizes))
        value = operation.attributes["value"]
        require(isinstance(value, tuple) and len(value) == prod(sizes), f"the value must have {prod(sizes)} numbers")
        require(dtype in ("i64", "i32") and len(sizes) <= 1, "an inline constant is a scalar or list of i64 or i32")
        limits = np.iinfo(NUMPY_TYPES[dtype].str)
        require(all(limits.min <= item <= limits.max for item in value), f"a number does not fit {dtype}")
        weight = weight_of(np.array(value, NUMPY_TYPES[dtype]).reshape(sizes), dtype)
        require(weight.is_inline, "an inline constant has too many numbers")
        return self._builder.weight(weight)

    def _weight(self, given: object, dtype: str, shape: tuple[int, ...]) -> Weight:
        key = digest.parse(str(given))
        data = self._bytes.get(key)
        if data is None:
            raise Illegal(f"there are no bytes for {key}")
        size = prod(shape) * NUMPY_TYPES[dtype].itemsize
        require(len(data) == size, f"the weight has {len(data)} bytes; its type asks for {size}")
        require(digest.of_bytes(data) == key, f"the bytes are not those of {key}")
        return Weight(key, dtype, shape, data)


def _port_name(attributes: Mapping[str, str]) -> str:
    require(NAME in attributes, f"an argument or result lacks {NAME}")
    return attributes[NAME]


def _dtype_and_shape(kind: mlir.TensorType | None) -> tuple[str, Shape]:
    require(kind is not None, "only ranked tensors are allowed")
    assert kind is not None
    require(kind.element in _DTYPES, f"element type {kind.element} is not supported")
    unknown = sum(size is None for size in kind.sizes)
    require(len(kind.encoding) == unknown, f"{unknown} sizes are dynamic, {len(kind.encoding)} are spelled")
    spelled = iter(kind.encoding)
    try:
        shape = tuple(symbols.parse(next(spelled)) if size is None else size for size in kind.sizes)
    except ValueError as reason:
        raise Illegal(str(reason)) from reason
    return _DTYPES[kind.element], shape
