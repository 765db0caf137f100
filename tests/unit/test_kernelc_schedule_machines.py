"""Schedules of the machines beside x86-64: blocks, register cliffs, depthwise tiles, and memory within reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelc import fusion
from kernelc.lowering.program import build_program, machine_of
from kernelc.schedule.cost import Machine, depthwise_columns, fits
from kernelfarm.errors import Code, FarmError
from tests.support.backend_graphs import Maker
from toolchains import target

A76 = Machine(lanes=4, registers=32, l2_bytes=1 << 19, l1_bytes=1 << 16)
A9 = Machine(lanes=4, registers=16, l2_bytes=1 << 19, ports=1, l1_bytes=1 << 15)
RVV = Machine(lanes=4, registers=32, l2_bytes=1 << 19, ports=1, broadcast="scalar", l1_bytes=1 << 15)
SCALAR = Machine(lanes=4, registers=6, l2_bytes=1 << 18, split=4, l1_bytes=1 << 14)


@pytest.mark.parametrize(
    ("name", "machine"), [("aarch64", A76), ("armv7", A9), ("riscv64", RVV), ("hexagon-v67", SCALAR)]
)
def test_a_target_says_all_that_schedules_need(name: str, machine: Machine) -> None:
    assert machine_of(target.load(name)) == machine


@pytest.mark.parametrize(
    ("machine", "blocks", "columns", "inside"),
    [
        (A76, 4, 6, True), (A76, 5, 5, True), (A76, 2, 10, True), (A76, 3, 8, False), (A76, 2, 12, False),
        (A9, 4, 3, True), (A9, 6, 2, True), (A9, 3, 4, False), (A9, 2, 6, False), (A9, 1, 9, True), (A9, 1, 14, False),
        (RVV, 4, 6, True), (RVV, 4, 7, False),
        (SCALAR, 1, 4, True), (SCALAR, 4, 1, True), (SCALAR, 1, 5, False), (SCALAR, 2, 2, False),
    ],
)  # fmt: skip
def test_the_register_cliff_is_where_compiled_loops_show_it(
    machine: Machine, blocks: int, columns: int, inside: bool
) -> None:
    assert fits(machine, blocks, columns) is inside


def test_half_cycles_follow_from_ports_and_registers_per_block() -> None:
    assert [machine.multiply for machine in (A76, A9, RVV, SCALAR)] == [1, 2, 2, 4]
    assert [machine.loads(2, 3) for machine in (A76, A9, RVV, SCALAR)] == [5, 10, 10, 11]


def test_depthwise_tiles_shrink_where_inputs_would_be_loaded_again() -> None:
    # four accumulators and eight inputs leave four of sixteen registers; eight and twelve leave none
    assert depthwise_columns(A9, taps=25, kernel_width=5, stride=1, width=96) == 4
    assert depthwise_columns(A76, taps=25, kernel_width=5, stride=1, width=96) >= 8
    assert depthwise_columns(SCALAR, taps=9, kernel_width=3, stride=1, width=96) == 3


def test_memory_beyond_the_reach_of_an_index_is_refused() -> None:
    make = Maker()  # a gibibyte before and one after
    graph = make.finish(make.node("relu", make.input(1, 4, 1 << 13, 1 << 13)))
    groups = fusion.group(graph).groups
    wide = target.load("aarch64")

    with pytest.raises(FarmError) as error:
        build_program(graph, groups, target.load("armv7"))

    assert error.value.code is Code.LAYOUT_INFEASIBLE
    assert "armv7 has indices of 32 bits" in error.value.why
    assert build_program(graph, groups, wide).arena.bytes == 1 << 31


def test_a_machine_may_stand_for_the_targets_own() -> None:
    make = Maker()
    graph = make.finish(make.node("relu", make.input(1, 6, 2, 3)))
    chosen = target.load("hexagon-v67")
    narrow = replace(machine_of(chosen), lanes=2, split=2, registers=24)

    program = build_program(graph, fusion.group(graph).groups, chosen, narrow)

    assert program.layout.block == 2
