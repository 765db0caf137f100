"""The choice of layouts is the best there is: equal to trying everything, on random problems and on random graphs."""

from __future__ import annotations

from math import prod
from random import Random
from unittest import mock

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kernelc import frontend, fusion
from kernelc.graph import Graph
from kernelc.layout import eliminate
from kernelc.layout.candidates import least_vector
from kernelc.layout.conflict import conflict
from kernelc.layout.optimise import lay_out
from kernelc.layout.problem import FORBIDDEN, Pair, Problem, Variable
from kernelc.layout.solve import solve
from kernelc.lowering.program import machine_of
from kernelfarm.errors import Code, FarmError
from tests.support.backend_graphs import Maker
from tests.support.choices import asked, least_of_all, least_of_forms
from tests.support.random_graphs import graphs
from toolchains import target

COSTS = st.one_of(st.integers(0, 12), st.just(FORBIDDEN))


@st.composite
def problems(draw: st.DrawFn, *, most: int = 8) -> Problem:
    """Up to `most` variables of up to three states, with any pairs."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=most))
    variables = tuple(
        Variable(f"v{number}", tuple(draw(st.lists(COSTS, min_size=size, max_size=size))), f"v{number} is bound")
        for number, size in enumerate(sizes)
    )
    pairs = []
    for first in range(len(sizes)):
        for second in range(first):
            if draw(st.booleans()):
                row = st.lists(COSTS, min_size=sizes[second], max_size=sizes[second]).map(tuple)
                table = tuple(draw(st.lists(row, min_size=sizes[first], max_size=sizes[first])))
                pairs.append(Pair(f"v{first}", f"v{second}", table, f"v{first} beside v{second}"))
    return Problem(variables, tuple(pairs))


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([1, 20, eliminate.MOST_ENTRIES]))
def test_the_cost_is_the_least_of_all(problem: Problem, entries: int) -> None:
    with mock.patch.object(eliminate, "MOST_ENTRIES", entries):  # 1: by branches alone
        found = solve(problem)

    least = least_of_all(problem)
    assert min(found.cost, FORBIDDEN) == least
    assert found.proved or least == FORBIDDEN
    assert found.cost == problem.cost(found.states)


@settings(max_examples=60, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_does_not_matter(problem: Problem, draw: Random) -> None:
    variables, pairs = list(problem.variables), list(problem.pairs)
    draw.shuffle(variables)
    draw.shuffle(pairs)
    turned = [
        Pair(one.second, one.first, tuple(zip(*one.table, strict=True)), one.reason) if draw.random() < 0.5 else one
        for one in pairs
    ]

    assert solve(Problem(tuple(variables), tuple(turned))) == solve(problem)


@settings(max_examples=100, deadline=None)
@given(problems(most=6))
def test_a_conflict_is_as_small_as_can_be(problem: Problem) -> None:
    found = conflict(problem)

    assert bool(found) == (least_of_all(problem) >= FORBIDDEN)
    for left_out in found:
        rest = [one for one in found if one != left_out]
        assert least_of_all(_only(problem, rest)) < FORBIDDEN
    if found:
        assert least_of_all(_only(problem, list(found))) >= FORBIDDEN


def _only(problem: Problem, kept: list[Variable | Pair]) -> Problem:
    """The problem with no other constraints than these."""
    names = {one.name for one in kept if isinstance(one, Variable)}
    pairs = tuple(one for one in kept if isinstance(one, Pair))
    return Problem(
        tuple(one if one.name in names else Variable(one.name, (0,) * len(one.costs)) for one in problem.variables),
        pairs,
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(graphs(most=6))
def test_the_layouts_of_a_graph_cost_the_least_of_all_forms_of_its_kernels(graph: Graph) -> None:
    try:
        found = asked(frontend.simplify(graph))
    except FarmError as error:
        assume(error.code not in (Code.OPERATOR_NOT_LOWERED, Code.LAYOUT_INFEASIBLE))
        raise
    assume(len(found.kernels) <= 8 and prod(len(forms) for forms in found.kernels.values()) <= 3000)

    solution = solve(found.problem)

    assert solution.proved
    assert solution.cost == least_of_forms(found)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(["x86-64-v3", "x86-64-v4", "aarch64"]))
def test_no_kernel_computes_in_vectors_that_the_gate_refuses(channels: int, width: int, name: str) -> None:
    make = Maker()
    wide = make.conv(make.input(1, 24, 4, width), channels, 3, pads=(1, 1, 1, 1))
    graph = make.finish(make.node("relu", make.node("add", wide, make.input(1, channels, 4, width))))
    machine = machine_of(target.load(name))

    _, layout, choice = lay_out(graph, fusion.group(graph).groups, machine)

    for form in choice.kernels.values():
        vector = form.written if form.written > 1 else width
        assert vector >= least_vector(machine.lanes)
    assert layout.block == machine.lanes
