"""Explains what a compile would do, as far as that is decided before anything is lowered."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kernelc import fusion
from kernelc.explanation import NAME, Explanation, GroupStory, Memory, Refused, Resting, RuleStory
from kernelc.fusion import FusionResult
from kernelc.graph import Graph
from kernelc.layout.assign import Layout, assign
from kernelc.lowering.program import machine_of
from kernelc.pipeline import Progress, Stages, front
from kernelc.request import Request
from kernelfarm import canonical, files


def explain_model(request: Request, in_dir: Path, out_dir: Path, progress: Progress) -> None:
    """Write the explanation of `in_dir`/model into `out_dir`; raises `FarmError` as `compile_model`."""
    stages = Stages(progress)
    _, graph, fused = front(request, in_dir, stages)
    layout = assign(graph, fused.groups, machine_of(request.target).lanes)
    digests, ops = dict(stages.digests), {node.name: node.op for node in graph.nodes}
    found = Explanation(
        request.model_name,
        request.target.name,
        digests["fusion"],
        _groups(graph, fused, layout),
        _rules(fused),
        tuple(Refused(one.group, one.node, ops[one.node], one.reason) for one in fused.refusals),
        tuple(Resting(rule.name, rule.lacks) for rule in fused.resting),
    )
    with files.coded("the explanation could not be written", out_dir / NAME):
        (out_dir / NAME).write_bytes(canonical.encode(found))


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
