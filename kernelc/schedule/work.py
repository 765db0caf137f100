"""What a kernel does, counted: no machine and no clock. `kernelc.schedule.model` puts a price on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, Literal

Kind = Literal[
    "reduce", "exit", "tile", "multiply", "arithmetic", "divide", "across", "transpose", "load", "store", "turn"
]
"""`reduce`: a step of a reduction loop, one multiply-add of each accumulator; `exit`: such a loop was left; `tile`: a
tile was begun; `multiply`: a multiply-add outside such loops (a depthwise tap); `arithmetic`, `divide`: others of the
kind; `across`: lanes combined into one; `transpose`: rows became columns; `load`, `store`; `turn`: a turn of a loop."""


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """One step on `blocks` x `columns` vectors of `lanes` numbers."""

    kind: Kind
    blocks: int = 1
    columns: int = 1
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Work:
    """How often a kernel does what, over its whole partition, and the bytes of each operand, the written one last."""

    tasks: tuple[tuple[Task, int], ...]
    operands: tuple[int, ...]

    @property
    def read(self) -> int:
        """Bytes of what it reads, each once."""
        return sum(self.operands[:-1])

    @property
    def written(self) -> int:
        """Bytes of what it writes."""
        return self.operands[-1]

    def to_json(self) -> dict[str, Any]:
        """Compact JSON."""
        tasks = [[task.kind, task.blocks, task.columns, task.lanes, count] for task, count in self.tasks]
        return {"tasks": tasks, "operands": list(self.operands)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Work:
        """What `to_json` wrote."""
        tasks = tuple((Task(kind, *shape), count) for kind, *shape, count in data["tasks"])
        return cls(tasks, tuple(data["operands"]))


class Counter:
    """Counts tasks while the text of a kernel is written; `times` is how often the text here runs.

    A loop over the kernel rows inside an image turns less often at its borders: on average by a fraction.
    """

    def __init__(self) -> None:
        self.times = Fraction(1)
        self._found: dict[Task, Fraction] = {}

    def add(self, task: Task, count: int = 1) -> None:
        """`count` more of a task each time."""
        if count:
            self._found[task] = self._found.get(task, Fraction(0)) + self.times * count

    def work(self, operands: tuple[tuple[int, ...], ...]) -> Work:
        """All that was counted, for f32 operands of these shapes."""
        tasks = tuple((task, round(count)) for task, count in sorted(self._found.items()))
        return Work(tasks, tuple(4 * prod(shape) for shape in operands))
