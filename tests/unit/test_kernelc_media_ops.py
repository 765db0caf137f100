"""The table of operations agrees with everything that is made from it."""

from __future__ import annotations

import numpy as np
import pytest

from kernelc.fusion import capability
from kernelc.graph import Node, Tensor, weight_of
from kernelc.media.builder import GraphBuilder
from kernelc.media.call import Call, Illegal, TooLarge, Undetermined
from kernelc.media.infer import RULES, result_type
from kernelc.media.ops import ELEMENTWISE, OPS
from kernelc.numerics import exact, reference
from kernelc.symbols import symbol

HALVING = {
    "kernel": (2, 1),
    "strides": (2, 1),
    "pads": (1, 0, 0, 0),
    "dilations": (1, 1),
    "ceil_mode": 0,
}


def test_every_operation_has_a_type_rule_and_a_meaning() -> None:
    nodes = {name for name, definition in OPS.items() if definition.is_node}
    assert set(RULES) == nodes
    assert set(reference._KERNELS) == nodes
    assert set(OPS) - nodes == {"weight", "constant"}


def test_what_fusion_and_folding_take_are_operations_of_the_table() -> None:
    assert capability.EPILOGUE <= ELEMENTWISE
    assert capability.COMPUTING.isdisjoint(ELEMENTWISE)
    assert set(OPS).issuperset(capability.COMPUTING)
    assert set(exact.KERNELS) <= set(OPS)


def test_every_definition_is_documented_and_has_distinct_names() -> None:
    for definition in OPS.values():
        names = [*definition.operands, *definition.optional, definition.variadic, *(a.name for a in definition.attrs)]
        assert definition.doc.endswith(".")
        assert len(names) == len(set(names))


@pytest.mark.parametrize("op", ["weight", "constant", "nothing"])
def test_a_node_must_be_of_an_operation(op: str) -> None:
    with pytest.raises(Illegal):
        result_type(Call(Node(op, "n", ("x",), ("y",)), (Tensor("x", "f32", (1,)),), (None,)))


def test_a_builder_shares_equal_constants_and_drops_what_no_output_needs() -> None:
    build = GraphBuilder()
    x = build.input("x", "f32", (2,))
    ones = [build.weight(weight_of(np.ones(2), "f32")) for _ in range(2)]
    unused = build.weight(weight_of(np.zeros(2), "f32"))
    build.node("add", [x, unused])
    graph = build.finish([("y", build.node("add", [build.node("mul", [x, ones[0]]), ones[1]]))])
    assert ones[0] == ones[1]
    assert [(node.name, node.inputs, node.outputs) for node in graph.nodes] == [
        ("n0_mul", ("t0", "w0"), ("t1",)),
        ("n1_add", ("t1", "w0"), ("t2",)),
    ]
    assert sorted(graph.tensors) == ["t0", "t1", "t2", "w0"]


def test_a_value_over_two_gigabytes_is_refused() -> None:
    build = GraphBuilder()
    column = build.input("x", "f32", (2**15, 1))
    row = build.input("y", "f32", (1, 2**14))
    with pytest.raises(TooLarge):
        build.node("add", [column, row])


def test_a_rank_over_eight_is_refused() -> None:
    build = GraphBuilder()
    x = build.input("x", "f32", (1,) * 8)
    with pytest.raises(Illegal, match="rank 9"):
        build.node("unsqueeze", [x], {"axes": (0,)})


def test_quotients_that_double_with_each_step_are_refused() -> None:
    build = GraphBuilder()
    value = build.input("x", "f32", (1, 1, symbol("s0"), 8))
    with pytest.raises(Undetermined, match="256 symbols"):
        for _ in range(20):
            half = build.node("max_pool", [value], HALVING)
            value = build.node("concat", [value, half], {"axis": 2})


def test_a_list_of_sizes_that_grow_without_bound_is_not_followed() -> None:
    build = GraphBuilder()
    value = build.node("shape", [build.input("x", "f32", (symbol("s0"),))], {"start": 0, "end": 1})
    for index in range(70):
        more = build.input(f"i{index}", "f32", (symbol(f"a{index}"),))
        value = build.node("add", [value, build.node("shape", [more], {"start": 0, "end": 1})])
    assert build.contents[value] is None


def test_sizes_that_grow_without_bound_are_refused() -> None:
    build = GraphBuilder()
    value = build.input("x", "f32", (1, symbol("s0"), symbol("s1")))
    with pytest.raises(Undetermined, match="64 terms"):
        for index in range(64):
            more = build.input(f"i{index}", "f32", (1, symbol(f"a{index}"), symbol("s1")))
            value = build.node("concat", [value, more], {"axis": 1})
