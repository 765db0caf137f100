"""Explains what a compile would do, as far as that is decided before a kernel's text is lowered."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from kernelc import fusion
from kernelc.explanation import (
    NAME,
    CastStory,
    Explanation,
    GroupStory,
    KernelStory,
    LayoutStory,
    Memory,
    Refused,
    Resting,
    RuleStory,
    StageTime,
)
from kernelc.fusion import FusionResult
from kernelc.graph import Graph
from kernelc.layout.assign import Layout
from kernelc.layout.candidates import name_of
from kernelc.layout.choice import Question, question
from kernelc.layout.optimise import Choice, choose
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
    machine = machine_of(request.target)
    choice = choose(question(graph, fused.groups, machine))
    program = build_program(graph, fused.groups, request.target)
    clock.tell("kernels", 1, 1, "")
    digests, ops = dict(stages.digests), {node.name: node.op for node in graph.nodes}
    found = Explanation(
        request.model_name,
        request.target.name,
        digests["fusion"],
        _groups(graph, fused, program.layout),
        _kernels(program, request.target.name, machine),
        _layouts(fused, machine, program, choice),
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


def _layouts(fused: FusionResult, machine: Machine, program: Program, choice: Choice) -> LayoutStory:
    """The choice beside what it would cost to have all values alike, each of those at its own best otherwise."""
    asked = choice.question

    def cost_of(demands: dict[str, tuple[int, ...]]) -> int:
        return choose(question(asked.graph, fused.groups, machine, demands)).solution.cost

    inner = [root for root in asked.memories if root not in asked.graph.input_tensors]
    return LayoutStory(
        choice.solution.cost,
        choice.solution.bound,
        cost_of({root: (1,) for root in inner if _writable(asked, root, 1)}),
        cost_of(dict.fromkeys(inner, (machine.lanes,))),
        len(asked.problem.variables),
        choice.solution.steps.width,
        tuple(sorted(Counter(name_of(places.home) for places in choice.places.values()).items())),
        _casts(program),
    )


def _writable(asked: Question, root: str, lanes: int) -> bool:
    """Whether the kernel that writes a memory can do so in these lanes."""
    writers = [name for name, group in asked.groups.items() if group.output == root]
    return all(any(form.written == lanes for form in asked.kernels[name]) for name in writers)


def _casts(program: Program) -> tuple[CastStory, ...]:
    found, layout = [], program.layout
    for group in program.groups:
        if group.anchor.op == "layout_cast":
            source, made = layout.buffers[group.inputs[0]], layout.buffers[group.output]
            names = {name for name, root in layout.roots.items() if root == group.output}
            readers = [one.name for one in program.groups if names & set(one.inputs) and one.output not in names]
            readers += [f"output {port.name}" for port in program.graph.outputs if port.tensor in names]
            before, after = name_of(source.lanes), name_of(made.lanes)
            found.append(CastStory(group.inputs[0], before, after, made.bytes, tuple(readers)))
    return tuple(found)


def _memory(layout: Layout, value: str) -> Memory:
    found = layout.buffers[value]
    return Memory(
        layout.roots[value],
        name_of(found.lanes),
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
