"""Shapes of the graph's inputs: as the model declares them, with sizes given by `--shape` put in."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelc.frontend.site import shown
from kernelc.symbols import Dim, symbol
from kernelfarm.errors import Code, FarmError

ANONYMOUS = frozenset({"", "?", "-1", "None", "none"})
"""Names of sizes that exporters give to every unknown size: two of them need not be the same size."""


@dataclass(frozen=True, slots=True)
class Declared:
    """An input as the model declares it: each size a number, a name, or "" where nothing is said."""

    name: str
    dtype: str
    sizes: tuple[int | str, ...]

    def __str__(self) -> str:
        return "x".join(str(size) if isinstance(size, int) else "?" for size in self.sizes)


def bind(
    inputs: Sequence[Declared], shapes: Mapping[str, tuple[int, ...]], *, allow_symbolic: bool = False
) -> tuple[tuple[Dim, ...], ...]:
    """The shape of each input. A shape under the name "" is that of the only input, or of the only dynamic one.

    A given shape also replaces sizes that the model fixes: `replaced` tells them, since the graph may not follow.

    Raises `FarmError` SHAPE_MISMATCH where a given shape does not fit, SHAPE_MISSING where a size stays open (unless
    `allow_symbolic`: then it becomes a symbol s0, s1, ... in order of appearance; equal names are one symbol).
    """
    given = _named(inputs, shapes)
    sizes: dict[str, tuple[int, str]] = {}
    for declared in inputs:
        if declared.name in given:
            _check(declared, given[declared.name], sizes)
    symbols: dict[str, Dim] = {name: size for name, (size, _) in sizes.items()}
    counter = _Counter()
    bound: list[tuple[Dim, ...]] = []
    for declared in inputs:
        if declared.name in given:
            bound.append(given[declared.name])
            continue
        shape = tuple(_size(size, symbols, counter) for size in declared.sizes)
        if not allow_symbolic and not all(isinstance(size, int) for size in shape):
            raise _missing(declared)
        bound.append(shape)
    return tuple(bound)


def replaced(inputs: Sequence[Declared], bound: Sequence[tuple[Dim, ...]]) -> str:
    """Which given shapes replace sizes that the model fixes, in words; "" where none does."""
    texts = [
        f"input {shown(declared.name)} is declared {declared} and given as {'x'.join(map(str, shape))}"
        for declared, shape in zip(inputs, bound, strict=True)
        if any(isinstance(wanted, int) and wanted != size for wanted, size in zip(declared.sizes, shape, strict=True))
    ]
    return ", ".join(texts)


class _Counter:
    def __init__(self) -> None:
        self.next = 0

    def symbol(self) -> Dim:
        self.next += 1
        return symbol(f"s{self.next - 1}")


def _size(size: int | str, symbols: dict[str, Dim], counter: _Counter) -> Dim:
    if isinstance(size, int):
        return size
    if size in ANONYMOUS:
        return counter.symbol()
    if size not in symbols:
        symbols[size] = counter.symbol()
    return symbols[size]


def _named(inputs: Sequence[Declared], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    given = {name: shape for name, shape in shapes.items() if name}
    if "" in shapes:
        candidates = (
            list(inputs) if len(inputs) == 1 else [i for i in inputs if any(isinstance(s, str) for s in i.sizes)]
        )
        if len(candidates) != 1:
            raise _mismatch("a shape without a name is given", f"the model has {_listed(i.name for i in inputs)}")
        name = candidates[0].name
        if name in given:
            why = "once by its name and once without one"
            raise _mismatch(f"the shape of input {shown(name)} is given twice", why, "Leave one of them out.")
        given[name] = shapes[""]
    names = [declared.name for declared in inputs]
    for name in sorted(set(given) - set(names)):
        near = difflib.get_close_matches(name, names, 1)
        hint = f"Did you mean {shown(near[0])}?" if near else ""
        raise _mismatch(f"the model has no input {shown(name)}", f"it has {_listed(names)}", hint)
    return given


def _listed(names: Iterable[str]) -> str:
    listed = [shown(name) for name in names]
    kind = "input" if len(listed) == 1 else "inputs"
    return f"the {kind} {', '.join(listed[:8])}{', ...' if len(listed) > 8 else ''}" if listed else "no input"


def _check(declared: Declared, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]) -> None:
    what = f"the shape given for input {shown(declared.name)} does not fit"
    if len(shape) != len(declared.sizes):
        raise _mismatch(what, f"it has {len(shape)} sizes; the model declares {declared} ({len(declared.sizes)} sizes)")
    for index, (size, wanted) in enumerate(zip(shape, declared.sizes, strict=True)):
        if size < 1:
            raise _mismatch(what, f"size {index} is {size}; it must be 1 at least")
        if isinstance(wanted, int):
            continue  # a size that differs replaces it
        if wanted in ANONYMOUS:
            continue
        known, by = sizes.setdefault(wanted, (size, declared.name))
        if known != size:
            why = f"size {index} is {size}; the model says that it equals one of input {shown(by)}, which is {known}"
            raise _mismatch(what, why)


def _missing(declared: Declared) -> FarmError:
    option = f"--shape {declared.name}={declared}"
    return FarmError(
        Code.SHAPE_MISSING,
        f"input {shown(declared.name)} has open sizes",
        f"the model declares {declared}",
        f"Give its shape: {option} with a number for each ?.",
        detail={"input": declared.name, "declared": str(declared), "option": option},
    )


def _mismatch(what: str, why: str, next_step: str = "") -> FarmError:
    return FarmError(Code.SHAPE_MISMATCH, what, why, next_step)
