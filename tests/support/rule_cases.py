"""The tests that fusion rules carry: small graphs that a rule takes and near misses that it leaves.

A graph is a list of lines such as "y = clip(c, min=0.0, max=6.0)": an operation of the dialect on values, with its
attributes. A name that no line makes is an input of shape SHAPE, or of the case's `shapes`; values that no line reads
are outputs. `const(1, 8, 1, 1)` and `scalar(3)` are constants; what `conv`, `conv_transpose`, `norm` (batch norm),
`max_pool` and `resize` leave out is in `_DEFAULTS` and the functions below.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernelc import frontend
from kernelc.fusion import library, schema
from kernelc.graph import Graph
from tests.support.backend_graphs import Maker

SHAPE = (1, 8, 6, 7)
KEYS = {"takes", "leaves", "shapes", "simplified"}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "max_pool": {"kernel": (2, 2), "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "ceil_mode": 0},
}


@dataclass(frozen=True)
class Case:
    """A graph that the rule called `rule` takes (`taken`) or leaves; `simplified` before it is grouped."""

    rule: str
    number: int
    taken: bool
    lines: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(hash=False)
    simplified: bool

    def __str__(self) -> str:
        return f"{self.rule}-{self.number}-{'takes' if self.taken else 'leaves'}"

    def graph(self) -> Graph:
        """The graph as it is written."""
        make = Maker()
        return make.finish(*self.add(make))

    def grouped(self) -> Graph:
        """The graph that fusion sees."""
        return frontend.simplify(self.graph()) if self.simplified else self.graph()

    def add(self, make: Maker) -> list[str]:
        """Add the lines to a graph under construction and give its outputs."""
        return _Lines(make, self.shapes).run(self.lines)


def cases(paths: Sequence[Path]) -> Iterator[Case]:
    """The cases of all rules of rule files, in order."""
    for path in paths:
        for _, rule in schema.entries(library.read(path)):
            for number, test in enumerate(rule.get("tests", [])):
                assert set(test) <= KEYS and len({"takes", "leaves"} & set(test)) == 1, (
                    f"{rule['name']}: {sorted(test)}"
                )
                shapes = {name: tuple(sizes) for name, sizes in test.get("shapes", {}).items()}
                lines = tuple(test.get("takes") or test["leaves"])
                yield Case(rule["name"], number, "takes" in test, lines, shapes, test.get("simplified", False))


class _Lines:
    def __init__(self, make: Maker, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._make, self._shapes = make, shapes
        self._values: dict[str, str] = {}
        self._read: set[str] = set()

    def run(self, lines: Sequence[str]) -> list[str]:
        for line in lines:
            statement = ast.parse(line).body[0]
            assert isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name), line
            self._values[statement.targets[0].id] = self._call(statement.value)
        return [value for value in self._values.values() if value not in self._read]

    def _call(self, call: ast.expr) -> str:
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        attrs = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        op = call.func.id
        if op in ("const", "scalar"):
            return self._constant(op, [ast.literal_eval(argument) for argument in call.args])
        operands = [self._operand(argument) for argument in call.args]
        self._read.update(operands)
        if op == "norm":
            return self._norm(operands[0])
        if op in ("conv", "conv_transpose"):
            strides = {"strides": (1, 1), "pads": (1, 1, 1, 1)}
            return getattr(self._make, op)(operands[0], 8, 3, **strides | attrs)  # type: ignore[no-any-return]
        if op == "resize":
            return self._make.resize(operands[0], **attrs)
        return self._make.node(op, *operands, **{**_DEFAULTS.get(op, {}), **attrs})

    def _operand(self, argument: ast.expr) -> str:
        if isinstance(argument, ast.Call):
            return self._call(argument)
        assert isinstance(argument, ast.Name)
        if argument.id not in self._values:
            value = self._make.input(*self._shapes.get(argument.id, SHAPE))
            self._values[argument.id] = value
            self._read.add(value)
        return self._values[argument.id]

    def _constant(self, op: str, numbers: Sequence[float]) -> str:
        if op == "scalar":
            return self._make.constant(numbers[0])
        draw = np.random.Generator(np.random.PCG64(len(numbers)))
        sizes = [int(number) for number in numbers]
        return self._make.constant(
            draw.choice([-1, 1], sizes) * (0.5 + draw.random(sizes))
        )  # a divisor too: not near 0

    def _norm(self, value: str) -> str:
        channels = self._make.builder.tensors[value].static_shape[1]
        scale, bias, mean = (self._make.weight(channels) for _ in range(3))
        variance = self._make.constant(0.5 + np.arange(channels) / channels)
        return self._make.node("batch_norm", value, scale, bias, mean, variance, epsilon=1e-5)
