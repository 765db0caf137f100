"""The order of the simplifications."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelc.frontend.rewrite import Rule, rewrite
from kernelc.frontend.rules import activations, fold, layer_norm, moves, normalise, spatial
from kernelc.graph import Graph

STAGES: Sequence[tuple[str, Sequence[Rule]]] = (
    ("fold", (*fold.RULES, *spatial.RULES)),
    ("batch-norm", (normalise.batch_norm,)),
    ("activations", (*activations.RULES, *layer_norm.RULES)),
    ("bias", (normalise.scale_and_bias,)),  # after the activations: x + 3 of a hard swish must not become a bias
    ("fold-again", fold.RULES),
    ("moves", moves.RULES),
)
"""Stages in order: name and rules, which are applied until nothing changes."""


def run(graph: Graph, observe: Callable[[str, Graph], None] | None = None) -> Graph:
    """The graph after all stages; `observe` is called with the name of each stage and the graph after it."""
    for name, rules in STAGES:
        graph = rewrite(graph, rules)
        if observe is not None:
            observe(name, graph)
    return graph
