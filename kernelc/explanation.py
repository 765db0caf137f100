"""How a model is fused and laid out, as plain nouns: `python -m kernelc explain` writes, `farm explain` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelfarm.digest import Digest

NAME = "explanation.json"


@dataclass(frozen=True, slots=True)
class Memory:
    """The buffer of a value (`kernelc.layout.buffer`), `bytes` large; `of` is the value whose memory it is.

    `layout` names it as `media.layout_cast` does.
    """

    of: str
    layout: str
    channels: int
    height: int
    width: int
    lanes: int
    left: int
    right: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GroupStory:
    """A group: its nodes and their operations in order, the rule that made it (None of one node), what it lets out."""

    name: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    rule: str | None
    benefit: int
    hint: str
    inputs: tuple[str, ...]
    output: str
    shape: tuple[int, ...]
    layout: Memory


@dataclass(frozen=True, slots=True)
class KernelStory:
    """A kernel of the program, in order of execution: what it does and what the performance model makes of it.

    `family` is its class (`kernelc.schedule.classes`), `symbol` its function. `half_cycles` are predicted; `bound` says
    whether arithmetic, memory or overhead takes most of them. `registers` of `most` are held by its largest tile.
    """

    name: str
    family: str
    symbol: str
    tile: str
    parts: int
    flop: int
    read: int
    written: int
    half_cycles: int
    bound: str
    registers: int
    most: int


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long a stage of the compiler took in this explanation, in microseconds: of no payload."""

    name: str
    microseconds: int


@dataclass(frozen=True, slots=True)
class RuleStory:
    """A rule that does not rest: the legal chains that it is the best rule of, and the groups that were made of them.

    `own`: it is one of the farm's.
    """

    name: str
    own: bool
    matches: int
    groups: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A node that might have joined a group and did not."""

    group: str
    node: str
    op: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resting:
    """A rule that can match nothing, for the dialect lacks these operations."""

    name: str
    lacks: tuple[str, ...]

    def describe(self) -> str:
        """The same in words."""
        return f"rule {self.name} rests: the dialect has no {', '.join(self.lacks)}"


@dataclass(frozen=True, slots=True)
class CastStory:
    """A copy of a value in another layout: how large it is, and the groups that read it or `output NAME`."""

    value: str
    before: str
    after: str
    bytes: int
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayoutStory:
    """The choice of layouts. Costs are predicted half cycles of all kernels and casts.

    `cost` is that of the choice, nothing costs less than `bound`; `plain` with every value in NCHW that some kernel
    writes so, `blocked` with all in the target's own blocks but graph inputs. `width` is the most neighbours that a
    variable had when it was eliminated. `layouts` counts the values in each layout, `casts` are in order of execution.
    """

    cost: int
    bound: int
    plain: int
    blocked: int
    variables: int
    width: int
    layouts: tuple[tuple[str, int], ...]
    casts: tuple[CastStory, ...]

    def describe(self) -> str:
        """The same in words."""
        proof = "the least" if self.cost == self.bound else f"not proved to be the least, which is {self.bound} or more"
        counts = ", ".join(f"{name} {count}" for name, count in self.layouts)
        return (
            f"layouts ({counts}): predicted {self.cost} half cycles, {proof}; "
            f"all in the target's blocks {self.blocked}, all NCHW where kernels can {self.plain}"
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """Groups in order of execution, and the kernels of those that are not mere names of memory, boundaries included.

    `fusion` is the digest of the stage of that name, as in a payload's config.json. All but `stages` is the same each
    time.
    """

    SCHEMA: ClassVar[str] = "explanation/2"
    model: str
    target: str
    fusion: Digest
    groups: tuple[GroupStory, ...]
    kernels: tuple[KernelStory, ...]
    layouts: LayoutStory
    rules: tuple[RuleStory, ...]
    refused: tuple[Refused, ...]
    resting: tuple[Resting, ...]
    stages: tuple[StageTime, ...]
