"""Every rule of the farm: what it takes, a near miss that it leaves, and that its kernels compute the right numbers.

The cases lie beside the rules. All graphs that rules take are compiled once, as parts of two graphs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from kernelc import frontend, fusion
from kernelc.fusion import library
from kernelc.numerics import reference
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import agree, compile_graph
from tests.support.rule_cases import Case, cases

CASES = list(cases(sorted(library.SOURCES.glob("*.yaml"))))
Pairs = Mapping[Case, list[tuple[np.ndarray, np.ndarray]]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    """For each case that is taken its outputs as compiled for x86-64-v3 beside those of the reference."""
    found: dict[Case, list[tuple[np.ndarray, np.ndarray]]] = {}
    for simplified in (False, True):
        chosen = [case for case in CASES if case.taken and case.simplified == simplified]
        make = Maker()
        parts = [case.add(make) for case in chosen]
        graph = make.finish(*(name for part in parts for name in part))
        draw = np.random.Generator(np.random.PCG64(7))
        shapes = {port.name: graph.tensors[port.tensor].static_shape for port in graph.inputs}
        given = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        expected = reference.evaluate(graph, given)
        compiled = compile_graph(
            frontend.simplify(graph) if simplified else graph, "x86-64-v3", tmp_path_factory.mktemp("rules")
        )
        pairs = zip(compiled.run(list(given.values())), (expected[port.name] for port in graph.outputs), strict=True)
        for case, part in zip(chosen, parts, strict=True):
            found[case] = [next(pairs) for _ in part]
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_takes_its_pattern_and_leaves_a_near_miss(case: Case, answers: Pairs) -> None:
    result = fusion.group(case.grouped())

    assert (case.rule in {rule.name for rule in result.rules.values()}) == case.taken, fusion.to_text(result)
    for got, wanted in answers.get(case, []):
        agree(got, wanted)


@pytest.mark.parametrize("rule", library.builtin(), ids=lambda rule: rule.name)
def test_a_rule_has_both_kinds_of_cases_and_a_pattern_that_the_dialect_knows(rule: fusion.Rule) -> None:
    assert {case.taken for case in CASES if case.rule == rule.name} == {True, False}
    assert rule.lacks == ()


def test_the_compiled_rules_are_those_of_the_sources() -> None:
    assert library.COMPILED.read_bytes() == library.compiled(), "run: python -m kernelc.fusion.rules"


def test_a_pattern_of_the_list_is_covered_by_one_rule() -> None:
    ids = [name for rule in library.builtin() for name in rule.covers]
    assert sorted(ids) == sorted(set(ids))
