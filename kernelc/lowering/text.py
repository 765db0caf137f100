"""A small writer of MLIR text: SSA names, tensor slices, loops that carry one tensor, and linalg generics.

Kernels are written as text because it reads like the MLIR a person debugs, and because the digest of the text is the
identity of a kernel: equal groups share one function.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from kernelc.lowering import count
from kernelc.schedule.work import Counter, Task

T = TypeVar("T")
Shape = tuple[int, ...]
Index = str | int
"""An index: an SSA name or a static number."""
Access = Sequence[str]
"""How a generic reads an operand: one affine expression of the loops per axis, such as "bwo" or ["p * 16 + i", "o"]."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor value: its SSA name and static shape (f32).

    `one_by_one`: its numbers are read one at a time and spread over a vector each: no vector of it takes a register.
    """

    name: str
    shape: Shape
    one_by_one: bool = False

    @property
    def type(self) -> str:
        """The MLIR type."""
        return tensor_type(self.in_memory(self.shape))

    @property
    def is_swapped(self) -> bool:
        """Whether the type has the last two axes the other way round.

        The last one is of size 1 then, as the lanes of a plain value: vectors run along the last axis of a type only.
        """
        return not self.one_by_one and len(self.shape) > 2 and self.shape[-1] == 1 and self.shape[-2] > 1

    def in_memory(self, entries: Sequence[T]) -> tuple[T, ...]:
        """Entries for each axis in the order of the type's axes."""
        return (*entries[:-2], entries[-1], entries[-2]) if self.is_swapped else tuple(entries)


def tensor_type(shape: Shape) -> str:
    """The tensor type of f32 elements with a static `shape`."""
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}f32>"


def f32(value: float) -> str:
    """A float as MLIR's bit-exact hexadecimal literal of type f32."""
    return f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"


def _turns(low: Index, high: Index, step: int) -> Fraction:
    """Turns of a loop; raises `ValueError` where a bound is no number."""
    if isinstance(low, str) or isinstance(high, str):
        raise ValueError(f"nobody says how often the loop from {low} to {high} turns")
    return Fraction(max(0, -(-(high - low) // step)))


@dataclass(slots=True)
class Writer:
    """Text of one function body. Names are numbered in the order of writing, so equal kernels have equal text.

    `work` counts what the text does; `windows` are the names of tensors that lie in memory.
    """

    lines: list[str] = field(default_factory=list)
    maps: dict[str, str] = field(default_factory=dict)
    indices: dict[int, str] = field(default_factory=dict)
    scalars: dict[str, str] = field(default_factory=dict)
    names: int = 0
    work: Counter = field(default_factory=Counter)
    windows: set[str] = field(default_factory=set)

    def fresh(self) -> str:
        """A new SSA name."""
        self.names += 1
        return f"%v{self.names}"

    def line(self, text: str) -> None:
        """Append one operation that has no result to name."""
        self.lines.append(text)

    def define(self, text: str) -> str:
        """Append an operation and give its result's name."""
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def index(self, value: Index) -> str:
        """An index as an SSA name; constants are written once, at the head of the function."""
        if isinstance(value, str):
            return value
        return self.indices.setdefault(value, f"%i{'n' if value < 0 else ''}{abs(value)}")

    def scalar(self, value: float) -> str:
        """An f32 constant as an SSA name; constants are written once, at the head of the function."""
        return self.scalars.setdefault(f32(value), f"%f{len(self.scalars)}")

    def add(self, left: Index, right: Index) -> Index:
        """left + right, folded where both are static or one is zero."""
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        if right == 0:
            return left
        if left == 0:
            return right
        return self.define(f"arith.addi {self.index(left)}, {self.index(right)} : index")

    def mul(self, left: Index, right: int) -> Index:
        """left * right, folded where possible."""
        if isinstance(left, int):
            return left * right
        return left if right == 1 else self.define(f"arith.muli {left}, {self.index(right)} : index")

    def binary(self, op: str, left: Index, right: Index) -> str:
        """Another index operation of the arith dialect, such as `maxsi`."""
        return self.define(f"arith.{op} {self.index(left)}, {self.index(right)} : index")

    def empty(self, shape: Shape) -> Value:
        """An undefined tensor."""
        return Value(self.define(f"tensor.empty() : {tensor_type(shape)}"), shape)

    def slice(
        self, source: Value, offsets: Sequence[Index], sizes: Shape, keep: Sequence[int], strides: Shape | None = None
    ) -> Value:
        """A rank-reducing `tensor.extract_slice`: of `sizes`, only the dimensions `keep` stay in the result."""
        shape = tuple(sizes[axis] for axis in keep)
        text = self._window(source, offsets, sizes, strides)
        name = self.define(f"tensor.extract_slice {source.name}{text} : {source.type} to {tensor_type(shape)}")
        self.windows.add(name)
        return Value(name, shape)

    def insert(
        self, part: Value, whole: Value, offsets: Sequence[Index], sizes: Shape, strides: Shape | None = None
    ) -> Value:
        """A rank-expanding `tensor.insert_slice` of `part` into `whole`."""
        text = self._window(whole, offsets, sizes, strides)
        count.store(self.work, sizes)
        name = self.define(f"tensor.insert_slice {part.name} into {whole.name}{text} : {part.type} into {whole.type}")
        return Value(name, whole.shape)

    def _window(self, value: Value, offsets: Sequence[Index], sizes: Shape, strides: Shape | None) -> str:
        lists: tuple[Sequence[Index], ...] = (offsets, sizes, strides or (1,) * len(sizes))
        return "".join(f"[{', '.join(map(str, value.in_memory(entries)))}]" for entries in lists)

    def generic(
        self, dims: str, inputs: Sequence[tuple[Value, Access]], output: Value, access: Access, body: Sequence[str],
        result: str, reductions: str = "", tag: str = "",
    ) -> Value:  # fmt: skip
        """A `linalg.generic` over the one-letter loops `dims`; an access is the affine expression of each axis.

        In `body` the inputs are %a0, %a1, ... and the output's element is %acc; `result` is what is yielded; the loops
        in `reductions` reduce. `tag` names an attribute that the transform sequence matches.
        """
        maps = ", ".join(self._map(dims, entry) for entry in [*(entry for _, entry in inputs), access])
        kinds = ", ".join('"reduction"' if dim in reductions else '"parallel"' for dim in dims)
        self._count(dims, inputs, (output, access), body, reductions, tag)
        names = ", ".join(value.name for value, _ in inputs)
        types = ", ".join(value.type for value, _ in inputs)
        ins = f" ins({names} : {types})" if inputs else ""
        attributes = f" attrs = {{{tag}}}" if tag else ""
        arguments = "".join(f"%a{number}: f32, " for number in range(len(inputs))) + "%acc: f32"
        name = self.fresh()
        self.lines.append(
            f"{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}{ins}"
            f" outs({output.name} : {output.type}){attributes} {{"
        )
        self.lines.append(f"^bb0({arguments}):")
        self.lines += [*body, f"linalg.yield {result} : f32", f"}} -> {output.type}"]
        return Value(name, output.shape)

    def _count(
        self,
        dims: str,
        inputs: Sequence[tuple[Value, Access]],
        written: tuple[Value, Access],
        body: Sequence[str],
        reductions: str,
        tag: str,
    ) -> None:
        """A generic's work; its output is read where the body says so and no register holds it yet."""
        read = [*inputs, written] if any("%acc" in line for line in body) else inputs
        shapes = [(value.shape, entry) for value, entry in (*inputs, written)]
        stored = [entry for value, entry in read if value.name in self.windows]
        count.generic(self.work, dims, reductions, (shapes, stored), body, loops=bool(tag))

    def _map(self, dims: str, access: Access) -> str:
        text = f"affine_map<({', '.join(dims)}) -> ({', '.join(access)})>"
        return self.maps.setdefault(text, f"#m{len(self.maps)}")

    def move(
        self, source: Value, read: Sequence[Index], read_axis: int,
        target: Value, written: Sequence[Index], written_axis: int, extent: int,
    ) -> Value:  # fmt: skip
        """`target` after a copy of `extent` elements along one axis of each side, through one vector."""
        count.move(self.work, extent)
        return self._store(self._load(source, read, read_axis, extent), target, written, written_axis, extent)

    def interleave(
        self, source: Value, reads: Sequence[Sequence[Index]], target: Value, written: Sequence[Index], axis: int,
        extent: int,
    ) -> Value:  # fmt: skip
        """`target` after a copy of `extent` elements along `axis` from each place of `reads`, one of each in turn.

        Vectors stay as long as those that are read, since some back ends split others: each that is written takes its
        numbers from one after another.
        """
        count.interleave(self.work, len(reads), extent)
        held = [self._load(source, read, axis, extent) for read in reads]
        kind = f"vector<{extent}xf32>"
        for number in range(len(reads)):
            # (place, origin) of each number; those of the first origin are put in place with those of the second
            places = [divmod(number * extent + lane, len(reads)) for lane in range(extent)]
            found = held[0]
            for origin in range(1, len(reads)):
                mask = [
                    extent + place if own == origin else place if own == 0 and origin == 1 else lane
                    for lane, (place, own) in enumerate(places)
                ]
                found = self.define(f"vector.shuffle {found}, {held[origin]} {mask} : {kind}, {kind}")
            where = (*written[:axis], self.add(written[axis], number * extent), *written[axis + 1 :])
            target = self._store(found, target, where, axis, extent)
        return target

    def _load(self, source: Value, at: Sequence[Index], axis: int, extent: int) -> str:
        places = self._places(source.in_memory(at))
        return self.define(
            f"vector.transfer_read {source.name}[{places}], {self.scalar(0.0)} {{in_bounds = [true],"
            f" permutation_map = {self._axis_map(source, axis)}}} : {source.type}, vector<{extent}xf32>"
        )

    def _store(self, held: str, target: Value, at: Sequence[Index], axis: int, extent: int) -> Value:
        places = self._places(target.in_memory(at))
        name = self.define(
            f"vector.transfer_write {held}, {target.name}[{places}] {{in_bounds = [true],"
            f" permutation_map = {self._axis_map(target, axis)}}} : vector<{extent}xf32>, {target.type}"
        )
        return Value(name, target.shape)

    def _places(self, indices: Sequence[Index]) -> str:
        return ", ".join(self.index(index) for index in indices)

    def _axis_map(self, value: Value, axis: int) -> str:
        dims = [f"x{number}" for number in range(len(value.shape))]
        text = f"affine_map<({', '.join(dims)}) -> ({value.in_memory(dims)[axis]})>"
        return self.maps.setdefault(text, f"#m{len(self.maps)}")

    def loop(
        self, low: Index, high: Index, step: int, carried: Value, body: Callable[[str, Value], Value],
        turns: Fraction | None = None,
    ) -> Value:  # fmt: skip
        """`scf.for` that carries one tensor: `body(induction variable, tensor)` returns the next one.

        `turns` is how often it turns on average over the whole partition, where its bounds are not static.
        """
        name, variable = self.fresh(), self.fresh()
        inner = Value(self.fresh(), carried.shape)
        self.lines.append(
            f"{name} = scf.for {variable} = {self.index(low)} to {self.index(high)} step {self.index(step)}"
            f" iter_args({inner.name} = {carried.name}) -> ({carried.type}) {{"
        )
        before, turns = self.work.times, _turns(low, high, step) if turns is None else turns
        self.work.times *= turns
        self.work.add(Task("turn"))
        after = body(variable, inner)
        self.work.times = before
        self.lines += [f"scf.yield {after.name} : {after.type}", "}"]
        return Value(name, carried.shape)

    def function(self, name: str, reads: Sequence[Value], written: Value, result: Value) -> str:
        """The text of the function, its maps and constants: reads, then the written tensor, then the part range."""
        arguments = [f"{value.name}: {value.type} {{bufferization.writable = false}}" for value in reads]
        arguments.append(f"{written.name}: {written.type} {{bufferization.writable = true}}")
        head = [f"{alias} = {text}" for text, alias in self.maps.items()]
        constants = [f"{name_} = arith.constant {value} : index" for value, name_ in sorted(self.indices.items())]
        constants += [f"{name_} = arith.constant {text} : f32" for text, name_ in self.scalars.items()]
        return "\n".join([
            *head,
            "module attributes {transform.with_named_sequence} {",
            f"func.func private @{name}({', '.join(arguments)}, %begin: index, %end: index) -> {result.type} {{",
            *constants, *self.lines, f"return {result.name} : {result.type}", "}",
        ])  # fmt: skip
