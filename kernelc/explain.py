"""Explains what a compile would do, as far as that is decided before a kernel's text is lowered."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from kernelc import fusion
from kernelc.explanation import (
    NAME,
    Explanation,
    GroupStory,
    KernelStory,
    Memory,
    Refused,
    Resting,
    RuleStory,
    StageTime,
)
from kernelc.fusion import FusionResult
from kernelc.graph import Graph
from kernelc.layout.assign import Layout
from kernelc.lowering.groups import Lowered
from kernelc.lowering.program import Program, build_program, machine_of
from kernelc.pipeline import Progress, Stages, front
from kernelc.request import Request
from kernelc.schedule import model
from kernelc.schedule.classes import class_of
from kernelc.schedule.cost import Machine
from kernelfarm import canonical, files


def explain_model(request: Request, in_dir: Path, out_dir: Path, progress: Progress) -> None:
    """Write the explanation of `in_dir`/model into `out_dir`; raises `FarmError` as `compile_model`."""
    clock = _Clock(progress)
    stages = Stages(clock.tell)
    _, graph, fused = front(request, in_dir, stages)
    program = build_program(graph, fused.groups, request.target)
    clock.tell("kernels", 1, 1, "")
    digests, ops = dict(stages.digests), {node.name: node.op for node in graph.nodes}
    found = Explanation(
        request.model_name,
        request.target.name,
        digests["fusion"],
        _groups(graph, fused, program.layout),
        _kernels(program, request.target.name, machine_of(request.target)),
        _rules(fused),
        tuple(Refused(one.group, one.node, ops[one.node], one.reason) for one in fused.refusals),
        tuple(Resting(rule.name, rule.lacks) for rule in fused.resting),
        tuple(clock.stages),
    )
    with files.coded("the explanation could not be written", out_dir / NAME):
        (out_dir / NAME).write_bytes(canonical.encode(found))


class _Clock:
    """Hears of the stages and takes the time of each; only explanations hold times."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._last = progress, time.perf_counter_ns()
        self.stages: list[StageTime] = []

    def tell(self, stage: str, done: int, total: int, what: str) -> None:
        """A stage is over."""
        now = time.perf_counter_ns()
        self.stages.append(StageTime(stage, (now - self._last) // 1000))
        self._last = now
        self._progress(stage, done, total, what)


def _kernels(program: Program, target: str, machine: Machine) -> tuple[KernelStory, ...]:
    return tuple(_kernel(op, target, machine) for op in program.ops)


def _kernel(op: Lowered, target: str, machine: Machine) -> KernelStory:
    kernel, work = op.kernel, op.kernel.work
    family = class_of(op.kind, kernel.operands)
    cost = model.cost(machine, target, family, work)
    return KernelStory(
        op.name,
        family,
        kernel.symbol,
        kernel.tile,
        kernel.parts,
        kernel.flop,
        work.read,
        work.written,
        cost.half_cycles,
        cost.bound,
        cost.registers,
        machine.registers,
    )


def _groups(graph: Graph, fused: FusionResult, layout: Layout) -> tuple[GroupStory, ...]:
    stories = []
    for group in fused.groups:
        rule = fused.rules.get(group.name)
        stories.append(
            GroupStory(
                group.name,
                tuple(node.name for node in group.nodes),
                tuple(node.op for node in group.nodes),
                None if rule is None else rule.name,
                0 if rule is None else rule.benefit,
                "" if rule is None else rule.hint,
                group.inputs,
                group.output,
                graph.tensors[group.output].static_shape,
                _memory(layout, group.output),
            )
        )
    return tuple(stories)


def _memory(layout: Layout, value: str) -> Memory:
    found = layout.buffers[value]
    return Memory(
        layout.roots[value],
        found.channels,
        found.height,
        found.width,
        found.lanes,
        found.left,
        found.right,
        found.bytes,
    )


def _rules(fused: FusionResult) -> tuple[RuleStory, ...]:
    own = {rule.name for rule in fusion.builtin()}
    made = Counter(rule.name for rule in fused.rules.values())
    return tuple(RuleStory(name, name in own, count, made[name]) for name, count in fused.matches.items())
