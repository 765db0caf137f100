"""What the passes make of a kernel: accumulators are vectors through all loops, and nothing is allocated or copied."""

from __future__ import annotations

import re

import pytest

from kernelc import mlir
from kernelc.layout.buffer import Buffer
from kernelc.layout.movement import Digit, Movement
from kernelc.layout.window import Taps
from kernelc.lowering import contraction, depthwise, elementwise, llvm, rearrange
from kernelc.lowering.contraction import Contraction
from kernelc.lowering.depthwise import Depthwise
from kernelc.lowering.elementwise import Elementwise
from kernelc.lowering.kernel import Kernel
from kernelc.lowering.steps import Step
from kernelfarm.errors import Code, FarmError
from toolchains import target

RELU = (Step("relu"),)


def convolution(lanes: int = 16, blocks: int = 4, columns: int = 6) -> Kernel:
    """3 x 3, 20 to 64 channels, 12 x 12, pads of 1: full and partial channel blocks, border rows."""
    x = Buffer(20, 12, 12, lanes, left=1, right=1)
    y = Buffer(64, 12, 12, lanes, left=2, right=2)
    taps = Taps(3, 3, 1, 1, 1, 1, top=1, left=1, rows=12, outputs=12)
    return contraction.lower(Contraction(x, y, taps, True, RELU, blocks, columns))


def after(kernel: Kernel, wanted: str) -> str:
    """Text of the module after one stage."""
    found: dict[str, str] = {}
    mlir.run(kernel.text, llvm.stages(64), inspect=found.__setitem__)
    return found[wanted]


def in_order(text: str, *patterns: str) -> None:
    """Every pattern matches, each after the one before it."""
    position = 0
    for pattern in patterns:
        match = re.compile(pattern).search(text, position)
        assert match, f"no {pattern!r} after position {position}"
        position = match.end()


def test_the_payload_is_a_bias_a_chain_of_taps_and_an_epilogue() -> None:
    in_order(
        convolution().text,
        r"func\.func private @group\(%x: tensor<2x12x14x16xf32> \{bufferization\.writable = false\}",
        r"scf\.for",  # block tiles
        r"scf\.for",  # rows
        r"scf\.for",  # columns
        r"linalg\.generic .*ins\(%\w+ : tensor<4x16xf32>\) outs\(%\w+ : tensor<4x6x16xf32>\)",
        r"scf\.for %\w+ = %\w+ to %\w+ step %i1 iter_args\(%\w+ = %\w+\) -> \(tensor<4x6x16xf32>\)",  # kernel rows
        r"attrs = \{reduce_3_1\}",
        r"attrs = \{reduce_3_1\}",
        r"arith\.cmpf olt",
        r"tensor\.insert_slice",
        r"transform\.named_sequence @__transform_main",
    )


def test_accumulators_are_vectors_through_all_reduction_loops() -> None:
    text = after(convolution(), "hoisted")

    in_order(
        text,
        r"vector\.broadcast .* to vector<6x4x16xf32>",  # the bias is where accumulation starts
        r"scf\.for .* iter_args\(%\w+ = %\w+\) -> \(vector<4x6x16xf32>\)",  # kernel rows
        r"scf\.for .* iter_args\(%\w+ = %\w+\) -> \(vector<4x6x16xf32>\)",  # channels
        r"arith\.mulf .* fastmath<contract> : vector<4x6x16xf32>",
        r"arith\.addf .* fastmath<contract> : vector<4x6x16xf32>",
        r"vector\.transfer_write",
    )
    assert "linalg." not in text
    assert "tensor.empty" not in text


@pytest.mark.parametrize("lanes", [16, 8])
def test_no_allocation_and_no_copy_is_left(lanes: int) -> None:
    text = after(convolution(lanes, *((4, 6) if lanes == 16 else (4, 3))), "bufferised")

    assert not re.search(r"memref\.(alloc|alloca|copy|dealloc)", text)
    assert "tensor<" not in text


def test_border_rows_need_no_code_of_their_own() -> None:
    text = after(convolution(), "bufferised")

    in_order(text, r"arith\.maxsi %\w+, %c0 : index", r"arith\.minsi %\w+, %c3 : index")
    assert text.count("arith.cmpf olt") == 1  # one column tile, one block tile: one epilogue


def test_depthwise_taps_of_a_row_are_one_straight_line() -> None:
    x = Buffer(32, 9, 16, 16, left=2, right=2)
    y = Buffer(32, 9, 16, 16)
    taps = Taps(5, 5, 1, 1, 1, 1, top=2, left=2, rows=9, outputs=9)
    text = after(depthwise.lower(Depthwise(x, y, taps, True, RELU, 8)), "hoisted")

    in_order(text, r"iter_args\(%\w+ = %\w+\) -> \(vector<8x16xf32>\)", *[r"arith\.addf .*vector<8x16xf32>"] * 5)
    assert text.count("fastmath<contract> : vector<8x16xf32>") == 10


def test_a_kernel_function_returns_nothing_and_takes_bare_pointers() -> None:
    text = after(convolution(), "llvm")

    assert re.search(r"llvm\.func @group\((%\w+: !llvm\.ptr[^,]*, ){4}%\w+: i64, %\w+: i64\) attributes", text), text[
        :400
    ]


def test_a_tile_that_is_too_large_is_an_error_of_the_compiler() -> None:
    buffer = Buffer(16, 4, 260, 16)
    kernel = elementwise.lower(Elementwise(buffer, buffer, RELU, columns=260))  # 260 x 16 elements

    with pytest.raises(FarmError) as error:
        llvm.lower(kernel, target.load("x86-64-v4"))

    assert error.value.code is Code.VECTOR_TOO_LARGE
    assert "260x16" in error.value.what


def test_rows_taken_in_turn_are_whole_vectors_that_are_shuffled() -> None:
    columns = (Digit(32, (0, 0, 1)), Digit(3, (1, 0, 0)))
    spread = Movement(((Digit(2, (9, 0, 0)),), (Digit(4, (0, 1, 0)), Digit(3, (3, 0, 0))), columns), (0, 0, 0))

    kernel = rearrange.lower(rearrange.Rearrange(Buffer(18, 4, 32, 1), Buffer(2, 12, 96, 1), spread, 16))
    text = after(kernel, "llvm")

    assert text.count("llvm.load") == text.count("llvm.store") == 2 * 3  # for each of two channels
    assert set(re.findall(r"llvm\.(?:load|store) .*?(vector<\w+>)", text)) == {"vector<16xf32>"}
    assert text.count("llvm.shufflevector") == 2 * 3 * 2


def test_the_hyperbolic_tangent_is_arithmetic_on_vectors_and_calls_nothing() -> None:
    y = Buffer(32, 4, 12, 16)
    text = after(elementwise.lower(Elementwise(y, y, (Step("tanh"),), 6)), "llvm")

    assert "llvm.call" not in text and "llvm.func @tanh" not in text
    assert set(re.findall(r"llvm\.fdiv .* : (.*)", text)) == {"vector<16xf32>"}
    assert set(re.findall(r"llvm\.or .* : (.*)", text)) == {"vector<16xi32>"}
