"""Where our time goes, by group, beside what onnxruntime's profile says of the same convolutions.

Its other operators cannot be matched one to one (they are fused otherwise), so they are compared by kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import PEERS
from benchmarks.peers.client import RefusedError, Server
from benchmarks.prepared import Prepared
from benchmarks.records import GroupTime
from farm import explain, shapes
from farm import measure as farm_measure
from farm.config import Config
from farm.measure import Question
from farm.rule_files import NO_RULES
from tests.support.models import PackagedModel

MOST = 6
"""Convolutions that are shown: those on which most time is lost to onnxruntime."""
_KINDS: Mapping[str, str] = {
    "AveragePool": "pool",
    "ConvTranspose": "conv_transpose",
    "Gemm": "matmul",
    "GlobalAveragePool": "pool",
    "LayerNormalization": "layer_norm",
    "MatMul": "matmul",
    "MaxPool": "pool",
    "ReduceMean": "pool",
    "ReorderInput": "layout_cast",
    "ReorderOutput": "layout_cast",
    "Resize": "resize",
    "Softmax": "softmax",
    "Upsample": "resize",
}
_OURS: Mapping[str, str] = {
    "average_pool": "pool",
    "global_average_pool": "pool",
    "max_pool": "pool",
    "reduce_mean": "pool",
}
_KEPT = ("conv", "conv_transpose", "layer_norm", "layout_cast", "matmul", "pool", "resize", "softmax")
Conv = tuple[tuple[int, ...], Mapping[str, Any]]


def beside(
    settings: Config, ready: Prepared, model: PackagedModel, cores: Sequence[int], path: Path, kept: Path
) -> list[GroupTime]:
    """Sums by kind, then the convolutions that lose most; `path` is the model's file. Raises `FarmError`."""
    config = ready.payload.config["groups"]
    question = Question(path, ready.payload.target, shapes.parse([model.shape]))
    told = explain.explain(settings, path, question.target, question.options, NO_RULES)
    times = [part.nanoseconds for part in farm_measure.measure(settings, question, told).parts]
    made = {group.name: group.shape for group in told.groups}
    nodes = _nodes(ready, cores, kept)
    return judge(config, times, made, nodes)


def judge(
    config: Sequence[Mapping[str, Any]],
    times: Sequence[int],
    made: Mapping[str, tuple[int, ...]],
    nodes: Sequence[Mapping[str, Any]],
) -> list[GroupTime]:
    """The rows. Pure: `config` are a payload's groups, `times` theirs in ns, `made` the shapes that groups make."""
    ours: dict[str, float] = defaultdict(float)
    flop: dict[str, float] = defaultdict(float)
    theirs: dict[str, float] = defaultdict(float)
    for group, took in zip(config, times, strict=True):
        kind = _kind(_OURS.get(group["kind"], group["kind"]))
        ours[kind] += took / 1000
        flop[kind] += group["flop"]
    for node in nodes:
        theirs["conv" if _is_conv(node) else _kind(_KINDS.get(node["op"], ""))] += node["us"]
    rows = [
        GroupTime(f"all {kind}", kind, "", ours[kind], theirs.get(kind), flop[kind] / max(1.0, 1000 * ours[kind]))
        for kind in sorted(ours, key=lambda kind: -ours[kind])
    ]
    rows += [GroupTime(f"all {kind}", kind, "", 0.0, theirs[kind], 0.0) for kind in sorted(set(theirs) - set(ours))]
    return rows + _convs(config, times, made, nodes)[:MOST]


def _kind(name: str) -> str:
    return name if name in _KEPT else "other"


def _is_conv(node: Mapping[str, Any]) -> bool:
    return node["op"] in ("Conv", "FusedConv")


def _convs(
    config: Sequence[Mapping[str, Any]],
    times: Sequence[int],
    made: Mapping[str, tuple[int, ...]],
    nodes: Sequence[Mapping[str, Any]],
) -> list[GroupTime]:
    """Convolutions of both in order, matched by the shape of what they make; where most is lost comes first."""
    waiting: dict[tuple[int, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for node in filter(_is_conv, nodes):
        waiting[_blocks(node["made"][0])].append(node)
    rows = []
    for group, took in zip(config, times, strict=True):
        if group["kind"] != "conv" or group["name"] not in made:
            continue
        shape = made[group["name"]]
        queue = waiting[_blocks(shape)]
        peer = queue.pop(0) if queue else None
        kind = "conv" if peer is None else "conv " + "x".join(str(size) for size in peer["shapes"][1])
        rows.append(
            GroupTime(
                group["name"],
                kind,
                "x".join(str(size) for size in shape),
                took / 1000,
                None if peer is None else peer["us"],
                group["flop"] / took,
            )
        )
    return sorted(rows, key=lambda row: (row.peer_us or 0) - row.ours_us)


def _blocks(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with channels as whole blocks of 16: onnxruntime names padded ones."""
    return tuple(-(-size // 16) if axis == 1 else size for axis, size in enumerate(shape))


def _nodes(ready: Prepared, cores: Sequence[int], kept: Path) -> list[Mapping[str, Any]]:
    subject = ready.subject
    try:
        with Server(PEERS[0], cores, ready.work / "profile.log") as server:
            server.load(subject.fixed, subject.inputs, subject.outputs, threads=len(cores), folder=kept)
            return list(server.ask("nodes")["nodes"])
    except RefusedError:
        return []
