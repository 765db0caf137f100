"""From groups to a program: forms and refusals, shared functions, lifetimes, the entry table."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from kernelc import fusion
from kernelc.graph import Graph
from kernelc.layout.segments import Use
from kernelc.lowering.operands import ValueOperand
from kernelc.lowering.program import Program, build_program, lifetimes
from kernelc.lowering.table import table_source
from kernelfarm.errors import Code, FarmError
from tests.support.backend_graphs import Maker
from toolchains import target


def program_of(graph: Graph, name: str = "x86-64-v4") -> Program:
    return build_program(graph, fusion.group(graph).groups, target.load(name))


def refusal(graph: Graph) -> FarmError:
    with pytest.raises(FarmError) as error:
        program_of(graph)
    return error.value


def chain() -> Graph:
    """Two equal blocks of convolution and ReLU, then a gate."""
    make = Maker()
    value = make.input(1, 16, 6, 8)
    for _ in range(2):
        value = make.node("relu", make.conv(value, 16, 1))
    gate = make.node("sigmoid", make.node("global_average_pool", value))
    return make.finish(make.node("mul", value, gate))


def test_ops_are_casts_around_the_groups() -> None:
    kinds = [op.kind for op in program_of(chain()).ops]

    assert kinds == ["layout_cast", "conv", "conv", "global_average_pool", "mul", "layout_cast"]


def test_equal_groups_share_a_function() -> None:
    program = program_of(chain())
    first, second = (op for op in program.ops if op.kind == "conv")

    assert first.kernel.symbol == second.kernel.symbol
    assert len(program.kernels) == len(program.ops) - 1


def test_operands_are_reads_then_the_write() -> None:
    conv = program_of(chain()).ops[1]

    assert [type(operand) for operand in conv.operands] == [ValueOperand, Use, Use, ValueOperand]
    # 6 x 8 pixels without halo are seen as 3 x 16: one full tile per row
    assert conv.kernel.operands == ((1, 3, 16, 16), (1, 1, 1, 16, 16), (1, 1, 1, 16), (1, 3, 16, 16))
    assert conv.kernel.tile == "1x16"


def test_no_operation_writes_what_it_reads() -> None:
    program = program_of(chain())

    def place(operand: ValueOperand) -> range:
        start = program.arena.offsets[operand.name]
        return range(start, start + program.layout.buffers[operand.name].bytes)

    for op in program.ops:
        values = [operand for operand in op.operands if isinstance(operand, ValueOperand)]
        if isinstance(op.operands[-1], ValueOperand):
            written = place(values.pop())
            assert all(place(read).stop <= written.start or written.stop <= place(read).start for read in values)


def test_a_value_lives_from_its_writer_to_its_last_reader() -> None:
    program = program_of(chain())

    found = {value.name: (value.first, value.last) for value in lifetimes(program.ops, program.layout)}

    # t0 input, t2 and t4 after the ReLUs, t6 the gate, t7 the product
    assert found == {"t0": (0, 1), "t2": (1, 2), "t4": (2, 4), "t6": (3, 4), "t7": (4, 5)}


def test_flop_counts_taps_inside_the_image() -> None:
    make = Maker()
    graph = make.finish(make.conv(make.input(1, 16, 4, 4), 16, 3, pads=(1, 1, 1, 1), group=16))

    assert program_of(graph).flop == 2 * 16 * (4 * 4 + 8 * 6 + 4 * 9)


def test_the_partition_is_block_tiles_times_rows() -> None:
    make = Maker()
    graph = make.finish(make.conv(make.input(1, 16, 5, 40), 40, 3))
    kernel = program_of(graph).ops[1].kernel

    blocks = int(kernel.tile.split("x")[0])
    assert kernel.parts == -(-3 // blocks) * 3  # three blocks of 16 lanes, three rows


@pytest.mark.parametrize(("group", "out"), [(2, 8), (4, 8)])
def test_grouped_convolution_is_refused(group: int, out: int) -> None:
    make = Maker()
    error = refusal(make.finish(make.conv(make.input(1, 4, 6, 6), out, 3, group=group)))

    assert error.code is Code.OPERATOR_NOT_LOWERED
    assert error.detail == {"node": "n0_conv", "op": "conv"}


def test_softmax_down_a_column_is_refused() -> None:
    make = Maker()
    error = refusal(make.finish(make.node("softmax", make.input(1, 4, 6, 6), axis=2)))

    assert error.code is Code.OPERATOR_NOT_LOWERED


def test_an_operator_without_a_form_is_refused_before_its_shape() -> None:
    make = Maker()
    transposed = make.node("transpose", make.input(1, 4, 6, 6), permutation=(0, 2, 3, 1))
    error = refusal(make.finish(transposed))

    assert error.code is Code.OPERATOR_NOT_LOWERED
    assert error.detail["op"] == "transpose"


def test_an_operand_that_spreads_along_rows_is_refused() -> None:
    make = Maker()
    error = refusal(make.finish(make.node("add", make.input(1, 4, 6, 6), make.weight(1, 1, 1, 6))))

    assert error.code is Code.OPERATOR_NOT_LOWERED


def test_a_pool_whose_windows_lie_in_too_many_ways_is_refused() -> None:
    make = Maker()
    pool = {"strides": (1, 1), "pads": (0, 99, 0, 99), "dilations": (1, 1), "ceil_mode": 0}
    error = refusal(make.finish(make.node("max_pool", make.input(1, 4, 1, 300), kernel=(1, 100), **pool)))

    assert error.code is Code.OPERATOR_NOT_LOWERED
    assert error.detail == {"node": "n0_max_pool", "op": "max_pool"}


def test_a_product_of_two_values_is_refused() -> None:
    make = Maker()
    error = refusal(make.finish(make.node("matmul", make.input(1, 1), make.input(1, 3))))

    assert error.code is Code.OPERATOR_NOT_LOWERED


def test_the_table_names_every_function_once_and_every_operand() -> None:
    program = program_of(chain())
    text = table_source(program)

    assert re.findall(r"^extern kf_tile (\w+);$", text, re.MULTILINE) == list(program.kernels)
    assert text.count("KF_ARENA") + text.count("KF_WEIGHTS") + text.count("KF_INPUT") + text.count("KF_OUTPUT") == sum(
        len(op.operands) for op in program.ops
    )
    assert f".arena_bytes = {program.arena.bytes}," in text
    # operands of an op follow those of the op before it
    rows = [tuple(map(int, row)) for row in re.findall(r"^ +\{\d+, (\d+), (\d+), 0, \d+\}, /\*", text, re.MULTILINE)]
    assert all(first + count == following for (first, count), (following, _) in pairwise(rows))


def test_names_reach_the_table_as_bytes() -> None:
    make = Maker()
    graph = make.finish(make.node("relu", make.input(1, 4, 2, 2)))
    text = table_source(program_of(graph))

    assert ".s = {120, 48, 121, 48}," in text  # "x0" and "y0"
    assert "{0, 2, KF_F32, 4, KF_IN, 0, {1, 4, 2, 2}, 64, {0}}," in text
    assert "{2, 2, KF_F32, 4, KF_OUT, 0, {1, 4, 2, 2}, 64, {0}}," in text


def test_targets_with_other_lanes_get_other_kernels() -> None:
    assert set(program_of(chain(), "x86-64-v3").kernels).isdisjoint(program_of(chain(), "x86-64-v4").kernels)
