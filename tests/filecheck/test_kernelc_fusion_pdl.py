"""Rules as PDL: the text of one, and MLIR's own matcher finds what ours finds."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from mlir import ir
from mlir.dialects import irdl
from mlir.rewrite import PDLModule, walk_and_apply_patterns

from kernelc import media
from kernelc.fusion import library, pdl
from kernelc.fusion.candidates import Matcher
from kernelc.graph import Graph, Node
from kernelc.media.irdl import irdl_text
from tests.support.random_graphs import graphs

RULES = library.builtin()
Found = set[tuple[str, tuple[str, ...]]]
RELU6 = """\
module {
  pdl.pattern @conv_relu6_0 : benefit(3) {
    %in = pdl.operands
    %t0 = pdl.type
    %o0 = pdl.operation "media.conv"(%in : !pdl.range<value>) -> (%t0 : !pdl.type)
    %v1 = pdl.result 0 of %o0
    %t1 = pdl.type
    %o1 = pdl.operation "media.clip"(%v1 : !pdl.value) -> (%t1 : !pdl.type)
    %rule = pdl.attribute = "conv_relu6"
    %steps = pdl.attribute = ["conv", "clip"]
    %c0 = pdl.attribute = "clip.min == 0 and clip.max == 6"
    pdl.apply_native_constraint "holds"(%c0, %steps, %o0, %o1 : !pdl.attribute, !pdl.attribute, !pdl.operation, !pdl.operation)
    %own = pdl.attribute = "conv_relu6_0"
    pdl.apply_native_constraint "legal"(%own, %o0, %o1 : !pdl.attribute, !pdl.operation, !pdl.operation)
    pdl.rewrite %o1 with "fuse"(%rule, %o0, %o1 : !pdl.attribute, !pdl.operation, !pdl.operation)
  }
}
"""  # noqa: E501
FAILURE = True
"""What a native constraint returns to say that it does not hold."""


def test_the_text_of_a_rule() -> None:
    (rule,) = (rule for rule in RULES if rule.name == "conv_relu6")
    assert pdl.to_text([rule]) == RELU6


@settings(max_examples=25, deadline=None)
@given(graphs(most=8))
def test_mlir_finds_what_our_matcher_finds(graph: Graph) -> None:
    assert _found_by_mlir(graph) == _found_by_us(graph)


def _found_by_us(graph: Graph) -> Found:
    """Chains of rules, legal or not, in which no step repeats."""
    matcher = Matcher(graph, RULES)
    paths = [[node] for node in graph.nodes]
    found: Found = set()
    while paths:
        path = paths.pop()
        for rule in RULES:
            if len(path) <= len(rule.steps) and None in matcher.broken(rule, path):
                found.add((rule.name, tuple(node.name for node in path)))
        if len(path) < max(len(rule.steps) for rule in RULES):
            paths += [[*path, reader] for reader in graph.consumers[path[-1].outputs[0]]]
    return found


def _found_by_mlir(graph: Graph) -> Found:
    found: Found = set()
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        dialect = ir.Module.parse(irdl_text())
        irdl.load_dialects(dialect)
        module, patterns = ir.Module.parse(media.to_text(graph)), ir.Module.parse(pdl.to_text(RULES))
        body = module.body.operations[0].regions[0].blocks[0].operations
        inner = [one.operation for one in body if one.operation.name.startswith("media.")]
        inner = [one for one in inner if one.name not in ("media.weight", "media.constant")]
        nodes = dict(zip((str(one.result.get_name()) for one in inner), graph.nodes, strict=True))

        def node(operation: Any) -> Node:
            return nodes[str(operation.operation.result.get_name())]

        def one_of(_rewriter: Any, _results: Any, values: Any) -> bool:
            operation, names = values
            return operation.operation.name not in [ir.StringAttr(name).value for name in ir.ArrayAttr(names)]

        def holds(_rewriter: Any, _results: Any, values: Any) -> bool:
            text, steps, *operations = values
            bound: dict[str, list[Any]] = {}
            matcher, chain = Matcher(graph, ()), [node(one) for one in operations]
            for index, step in enumerate(ir.ArrayAttr(steps)):
                bound.setdefault(ir.StringAttr(step).value, []).append(matcher.facts(chain, index))
            wanted = ir.StringAttr(text).value
            constraint = next(one for rule in RULES for one in rule.constraints if one.text == wanted)
            return constraint.objection(bound) is not None

        def legal(_rewriter: Any, _results: Any, values: Any) -> bool:
            pattern, *operations = values
            rule, _, _ = ir.StringAttr(pattern).value.rpartition("_")
            found.add((rule, tuple(node(one).name for one in operations)))
            return FAILURE  # so that every pattern is tried on every operation, and nothing is rewritten

        compiled = PDLModule(patterns)
        for name, function in (("one_of", one_of), ("holds", holds), ("legal", legal)):
            compiled.register_constraint_function(name, function)
        compiled.register_rewrite_function("fuse", lambda *_: None)
        walk_and_apply_patterns(module.operation, compiled.freeze())
    return found
