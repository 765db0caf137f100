"""Counts what a generic, a copy or a store of a kernel's text does (`kernelc.schedule.work`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from kernelc.schedule.work import Counter, Kind, Task

Shape = tuple[int, ...]
Access = Sequence[str]


def extents_of(operands: Sequence[tuple[Shape, Access]]) -> dict[str, int]:
    """The extent of each loop, by the operands' axes that it alone runs along."""
    return {
        name: extent
        for shape, access in operands
        for extent, name in zip(shape, access, strict=True)
        if len(name) == 1 and name.isalpha()
    }


def generic(
    work: Counter,
    dims: str,
    reductions: str,
    operands: tuple[Sequence[tuple[Shape, Access]], Sequence[Access]],
    body: Sequence[str],
    *,
    loops: bool,
) -> None:
    """A generic over `dims`; `operands` are all with their shapes, the written one last, and the accesses of those that
    lie in memory.

    `loops`: its reductions become loops around accumulators that stay in registers, whose loads the step includes.
    """
    extents = extents_of(operands[0])
    parallel = [dim for dim in dims if dim not in reductions]
    steps = prod(extents.get(dim, 1) for dim in reductions)
    shape = _vectors(parallel, extents)
    for kind, count in _operations(body).items():
        work.add(Task("reduce" if loops and kind == "multiply" else kind, *shape), count * steps)
    if loops:
        work.add(Task("exit", *shape))
        return
    if reductions == "o":
        work.add(Task("across", lanes=extents["o"]))
    accesses = [[name for name in access if name in extents] for access in operands[1]]
    written = [name for name in operands[0][-1][1] if name in extents]
    if any(sorted(access) == sorted(written) and access != written for access in accesses):
        work.add(Task("transpose", *shape))
    for access in accesses:
        work.add(*_load(parallel, access, extents))


def _operations(body: Sequence[str]) -> dict[Kind, int]:
    """How many operations of each kind the lines are; a product and the sum that takes it are one."""
    found: dict[Kind, int] = {}
    names = [line.partition(" = ")[2].split(" ", 1)[0] for line in body]
    if names == ["arith.mulf", "arith.addf"]:
        return {"multiply": 1}
    for name in names:
        kind: Kind = "divide" if name == "arith.divf" else "arithmetic"
        found[kind] = found.get(kind, 0) + 1
    return found


def _vectors(parallel: Sequence[str], extents: Mapping[str, int]) -> Shape:
    """Blocks, columns and lanes of a tile: without a loop over lanes its columns are a vector.

    What all numbers of a vector are multiplied by belongs to a column with lanes, and to a channel without.
    """
    blocks, columns, lanes = (extents[dim] if dim in parallel else 1 for dim in "bwo")
    return (blocks, columns, lanes) if "o" in parallel else (1, blocks, columns)


def _load(parallel: Sequence[str], access: Sequence[str], extents: Mapping[str, int]) -> tuple[Task, int]:
    """Vectors along the last loop of an access, if it is the tile's or all loops are in it; else single numbers."""
    whole = sorted(access) == sorted(parallel)
    vector = access[-1:] if access and (whole or access[-1] == parallel[-1]) else []
    others = [name for name in access if name not in vector]
    return Task("load", lanes=prod(extents[name] for name in vector)), prod(extents[name] for name in others)


def store(work: Counter, sizes: Shape) -> None:
    """A window of `sizes` is written: along its lanes, or else its columns."""
    lanes = sizes[-1] if sizes[-1] > 1 else sizes[-2]
    work.add(Task("store", lanes=lanes), prod(sizes) // lanes)


def move(work: Counter, lanes: int) -> None:
    """A vector is copied."""
    work.add(Task("load", lanes=lanes))
    work.add(Task("store", lanes=lanes))


def interleave(work: Counter, sources: int, lanes: int) -> None:
    """As many vectors as sources are copied, each out of all of them."""
    work.add(Task("load", lanes=lanes), sources)
    work.add(Task("arithmetic", lanes=lanes), sources * (sources - 1))
    work.add(Task("store", lanes=lanes), sources)
