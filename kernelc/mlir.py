"""The MLIR bindings, wrapped: the only module that imports `mlir`.

The bindings are built with assertions, so misuse aborts the process: call these functions in a compile child only.
Every function parses its text, verifies it, and verifies again after each pass pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import irdl
from mlir.dialects.llvm import translate_module_to_llvmir
from mlir.passmanager import PassManager

from kernelfarm.errors import Code, FarmError


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass pipeline: `name` for messages and digests, `pipeline` as `builtin.module(...)` text.

    Top-level operations called `erase` are dropped afterwards (a transform schedule that has done its work).
    """

    name: str
    pipeline: str
    erase: str = ""


def verify(text: str, dialects: Sequence[str] = ()) -> str:
    """The module `text` as MLIR prints it, after parsing and verifying; `dialects` are IRDL texts to load first.

    Raises `FarmError` MLIR_REJECTED with MLIR's diagnostics.
    """
    with _context(dialects):
        return str(_parse("text", text))


def run(text: str, stages: Sequence[Stage], *, inspect: Callable[[str, str], None] | None = None) -> str:
    """The module after all `stages`; `inspect(stage name, module text)` sees the module after each of them."""
    with _context(()):
        module = _parse("text", text)
        _run(module, stages, inspect)
        return str(module)


def to_llvm(text: str, stages: Sequence[Stage], *, inspect: Callable[[str, str], None] | None = None) -> str:
    """LLVM IR text of a module that `stages` bring down to the llvm dialect."""
    with _context(()):
        module = _parse("text", text)
        _run(module, stages, inspect)
        return str(translate_module_to_llvmir(module.operation))


@dataclass(frozen=True, slots=True)
class TensorType:
    """A ranked tensor type: element type as MLIR prints it, sizes (None for "?"), strings of an array as encoding."""

    element: str
    sizes: tuple[int | None, ...]
    encoding: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a function as plain data; operands and results are numbers of values, arguments coming first."""

    name: str
    operands: tuple[int, ...]
    results: tuple[TensorType | None, ...]
    attributes: Mapping[str, Any]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function with one block: argument and result attributes hold the strings only."""

    name: str
    arguments: tuple[TensorType | None, ...]
    argument_attributes: tuple[Mapping[str, str], ...]
    result_attributes: tuple[Mapping[str, str], ...]
    operations: tuple[Operation, ...]


def read_function(text: str, dialects: Sequence[str]) -> Function:
    """The only function of the module `text`, as plain data with places in the text.

    Raises `FarmError` MLIR_REJECTED, with line and column in its detail, where the text does not parse or verify or
    holds anything but one function of one block.
    """
    with _context(dialects):
        module = _parse("text", text)
        tops = list(module.body.operations)
        if len(tops) != 1 or tops[0].operation.name != "func.func" or len(tops[0].regions[0].blocks) != 1:
            place = _place(module.operation)
            raise FarmError(Code.MLIR_REJECTED, "the module is not one function of one block", detail=place)
        function = tops[0]
        block = function.regions[0].blocks[0]
        numbers = {argument: index for index, argument in enumerate(block.arguments)}
        operations = tuple(_read_operation(entry.operation, numbers) for entry in block.operations)
        return Function(
            ir.StringAttr(function.attributes["sym_name"]).value,
            tuple(_read_type(argument.type) for argument in block.arguments),
            _read_strings(function, "arg_attrs", len(block.arguments)),
            _read_strings(function, "res_attrs", len(operations[-1].operands)),
            operations,
        )


def _read_operation(operation: Any, numbers: dict[Any, int]) -> Operation:
    operands = tuple(numbers[value] for value in operation.operands)
    for result in operation.results:
        numbers[result] = len(numbers)
    attributes = {str(name): _read_attribute(operation.attributes[name]) for name in operation.attributes}
    place = _place(operation)
    results = tuple(_read_type(result.type) for result in operation.results)
    return Operation(operation.name, operands, results, attributes, place["line"], place["column"])


def _place(operation: Any) -> dict[str, int]:
    """Line and column, from 1; an operation without a place of its own is at the start."""
    return {"line": max(int(operation.location.start_line), 1), "column": max(int(operation.location.start_col), 1)}


def _read_type(kind: Any) -> TensorType | None:
    if not isinstance(kind, ir.RankedTensorType):
        return None
    sizes = tuple(None if kind.is_dynamic_dim(index) else int(kind.get_dim_size(index)) for index in range(kind.rank))
    encoding = kind.encoding
    names = [ir.StringAttr(item).value for item in encoding] if isinstance(encoding, ir.ArrayAttr) else []
    return TensorType(str(kind.element_type), sizes, tuple(names))


def _read_attribute(attribute: Any) -> Any:
    """int, float, str, or tuple of int; the attribute's text in a list for any other kind."""
    if isinstance(attribute, ir.IntegerAttr) and str(attribute.type) == "i64":
        return int(attribute.value)
    if isinstance(attribute, ir.FloatAttr) and str(attribute.type) == "f64":
        return float(attribute.value)
    if isinstance(attribute, ir.StringAttr):
        return str(attribute.value)
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return tuple(int(item) for item in attribute)
    return [str(attribute)]


def _read_strings(function: Any, name: str, count: int) -> tuple[Mapping[str, str], ...]:
    if name not in function.attributes:
        return ({},) * count
    dictionaries = [ir.DictAttr(entry) for entry in ir.ArrayAttr(function.attributes[name])]
    return tuple(
        {entry.name: ir.StringAttr(entry.attr).value for entry in dictionary if isinstance(entry.attr, ir.StringAttr)}
        for dictionary in dictionaries
    )


@contextmanager
def _context(dialects: Sequence[str]) -> Iterator[None]:
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)  # the farm runs several children; threads would only add memory
        for text in dialects:
            irdl.load_dialects(_parse("dialect", text))
        yield


def _parse(name: str, text: str) -> Any:
    try:
        module = ir.Module.parse(text)
        module.operation.verify()
    except ir.MLIRError as reason:
        first = next(iter(reason.error_diagnostics), None)
        place = {"line": first.location.start_line, "column": first.location.start_col} if first else {}
        raise FarmError(Code.MLIR_REJECTED, f"MLIR rejects the {name}", str(reason), detail=place) from reason
    return module


def _run(module: Any, stages: Sequence[Stage], inspect: Callable[[str, str], None] | None) -> None:
    for stage in stages:
        try:
            PassManager.parse(stage.pipeline).run(module.operation)
            for operation in [entry.operation for entry in module.body.operations]:
                if operation.name == stage.erase:
                    operation.erase()
            module.operation.verify()
        except (ir.MLIRError, ValueError) as reason:
            raise FarmError(Code.MLIR_REJECTED, f"MLIR rejects the stage {stage.name!r}", str(reason)) from reason
        if inspect is not None:
            inspect(stage.name, str(module))
