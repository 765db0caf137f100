"""What a fusion rule is: a chain of operations, what must hold of them, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelc.fusion.constraint import Constraint
from kernelc.media.ops import OPS

MAX_CHAIN = 17
"""Most operations of a group, its first one included: each may hold registers. No pattern is longer."""


@dataclass(frozen=True, slots=True)
class Step:
    """One place of a pattern: any one of `ops`, from `least` to `most` times in a row; `name` is for constraints.

    `reads` names an earlier step, of one operation, whose result is this one's other operand: the kernel keeps it.
    """

    name: str
    ops: tuple[str, ...]
    least: int = 1
    most: int = 1
    reads: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Operations in a row, each reading the result of the one before, that become one kernel.

    A step may read the result of an earlier one too: x * sigmoid(x) is x, its sigmoid, and a product that reads x.

    Of several rules for the same operations the one of the largest `benefit` is taken, then the first. `hint` is kept
    for the schedule and shown. `covers` are ids of the list of patterns.
    """

    name: str
    steps: tuple[Step, ...]
    constraints: tuple[Constraint, ...] = ()
    benefit: int = 1
    hint: str = ""
    covers: tuple[str, ...] = ()

    @property
    def lacks(self) -> tuple[str, ...]:
        """Operations that the dialect lacks, for want of which the rule rests."""
        return tuple(step.ops[0] for step in self.steps if step.least and not any(op in OPS for op in step.ops))

    @property
    def kept(self) -> frozenset[str]:
        """Names of the steps whose results later ones read again."""
        return frozenset(step.reads for step in self.steps if step.reads is not None)

    @property
    def sizes(self) -> range:
        """How many operations a chain of this rule has."""
        return range(sum(step.least for step in self.steps), sum(step.most for step in self.steps) + 1)

    def fits(self, ops: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
        """Ways in which `ops` are a chain of the pattern: how many of them each step takes, more to the first first."""
        if len(ops) in self.sizes:
            yield from _fits(self.steps, ops)

    def neighbours(self) -> Iterator[tuple[str, str]]:
        """Pairs of operations of which the second can follow the first in a chain of this rule."""
        for index, step in enumerate(self.steps):
            if step.most > 1:
                yield from ((one, other) for one in step.ops for other in step.ops)
            for after in self.steps[index + 1 :]:
                yield from ((one, other) for one in step.ops for other in after.ops)
                if after.least:
                    break


def _fits(steps: tuple[Step, ...], ops: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    if not steps:
        if not ops:
            yield ()
        return
    step, longest = steps[0], 0
    while longest < min(step.most, len(ops)) and ops[longest] in step.ops:
        longest += 1
    for count in range(longest, step.least - 1, -1):
        for rest in _fits(steps[1:], ops[count:]):
            yield count, *rest
