"""What the passes make of a kernel for indices of 32 bits, for blocks of one channel, and for a maximum with NaN."""

from __future__ import annotations

import re

import pytest

from kernelc.layout.buffer import Buffer
from kernelc.layout.window import Taps
from kernelc.lowering import contraction, elementwise, llvm, softmax
from kernelc.lowering.contraction import Contraction
from kernelc.lowering.elementwise import Elementwise
from kernelc.lowering.kernel import Kernel
from kernelc.lowering.softmax import Softmax
from kernelc.lowering.steps import Step, with_maximum
from toolchains import target

RELU = (Step("relu"),)


def convolution(lanes: int, blocks: int = 2, columns: int = 3) -> Kernel:
    """3 x 3 with a bias and ReLU on odd sizes."""
    x, y = Buffer(6, 5, 9, lanes, left=1, right=1), Buffer(2 * lanes, 5, 9, lanes)
    taps = Taps(3, 3, 1, 1, 1, 1, top=1, left=1, rows=5, outputs=5)
    return contraction.lower(Contraction(x, y, taps, True, RELU, blocks, columns))


@pytest.mark.parametrize("name", ["armv7", "hexagon-v67"])
def test_addresses_have_32_bits_where_pointers_have(name: str) -> None:
    text = llvm.lower(convolution(4), target.load(name))
    kernel = text[text.index("@group(") : text.index("define hidden")]

    assert re.search(r"getelementptr .*float, ptr %\w+, i32 %\w+", kernel)
    assert not re.search(r"(add|mul|sub|sdiv|icmp \w+|phi) i64", kernel)


def test_vectors_are_loaded_with_the_alignment_of_one_number() -> None:
    text = llvm.lower(convolution(4), target.load("armv7"))

    aligned = set(re.findall(r"(?:load|store) <4 x float>.*align (\d+)", text))
    assert aligned == {"4"}


@pytest.mark.parametrize("kernel", [convolution(1), convolution(1, 1, 1)], ids=["tile", "one-number"])
def test_a_block_of_one_channel_accumulates_in_registers(kernel: Kernel) -> None:
    text = llvm.lower(kernel, target.load("hexagon-v67"))

    assert "alloca" not in text
    assert "phi " in text


def test_softmax_of_one_channel_per_block_has_no_lanes_to_combine() -> None:
    buffer = Buffer(7, 1, 1, 1)
    text = llvm.lower(softmax.lower_channels(Softmax(buffer, buffer, ())), target.load("hexagon-v67"))

    assert "shufflevector" not in text


def test_bounds_are_a_maximum_that_keeps_nan_where_the_target_says_so() -> None:
    buffer = Buffer(4, 2, 8, 4)
    kernel = elementwise.lower(Elementwise(buffer, buffer, (Step("clip", (-1.0, 6.0)),), 8))

    assert kernel.text.count("arith.cmpf") == 2
    assert "arith.cmpf" not in with_maximum(kernel.text)
    for name, form in (("aarch64", r"@llvm\.maximum\.v4f32"), ("riscv64", r"fcmp olt <4 x float>")):
        assert re.search(form, llvm.lower(kernel, target.load(name))), name
