"""The writer of MLIR text: names in order of writing, folded indices, exact constants."""

from __future__ import annotations

import pytest

from kernelc import mlir
from kernelc.lowering.text import Value, Writer, f32, tensor_type
from kernelfarm.errors import Code, FarmError


def test_floats_are_written_by_their_bits() -> None:
    assert f32(1.0) == "0x3F800000"
    assert f32(float("-inf")) == "0xFF800000"
    assert f32(0.1) == "0x3DCCCCCD"


def test_tensor_types() -> None:
    assert tensor_type((2, 16)) == "tensor<2x16xf32>"
    assert tensor_type(()) == "tensor<f32>"


def test_static_index_arithmetic_writes_nothing() -> None:
    writer = Writer()

    assert writer.add(3, -1) == 2
    assert writer.mul(3, 4) == 12
    assert writer.add("%i", 0) == "%i"
    assert writer.mul("%i", 1) == "%i"
    assert writer.lines == []


def test_dynamic_index_arithmetic_is_one_operation() -> None:
    writer = Writer()

    name = writer.add(writer.mul("%row", 2), -1)

    assert writer.lines == ["%v1 = arith.muli %row, %i2 : index", "%v2 = arith.addi %v1, %in1 : index"]
    assert name == "%v2"


def test_a_rank_reducing_slice_keeps_the_named_axes() -> None:
    writer = Writer()

    part = writer.slice(Value("%x", (2, 5, 9, 16)), [0, "%r", 3, 0], (1, 1, 4, 16), [2, 3], (1, 1, 2, 1))

    assert part.shape == (4, 16)
    assert writer.lines == [
        "%v1 = tensor.extract_slice %x[0, %r, 3, 0][1, 1, 4, 16][1, 1, 2, 1] : tensor<2x5x9x16xf32> to tensor<4x16xf32>"
    ]


def test_a_written_function_is_a_legal_module() -> None:
    writer = Writer()
    x, out = Value("%x", (8, 16)), Value("%out", (8, 16))

    def row(index: str, current: Value) -> Value:
        source = writer.slice(x, [index, 0], (1, 16), [1])
        target = writer.slice(current, [index, 0], (1, 16), [1])
        lines = [f"%s = arith.mulf %a0, {writer.scalar(2.0)} : f32"]
        return writer.insert(
            writer.generic("o", [(source, "o")], target, "o", lines, "%s"), current, [index, 0], (1, 16)
        )

    result = writer.loop(0, 8, 1, out, row)
    text = writer.function("group", [x], out, result) + "\n}\n"

    assert "linalg.generic" in mlir.verify(text)


def test_equal_kernels_have_equal_text() -> None:
    def text() -> str:
        writer = Writer()
        out = Value("%out", (16,))
        return writer.function("group", [], out, writer.generic("o", [], out, "o", [], writer.scalar(1.5)))

    assert text() == text()


def test_text_that_is_no_mlir_is_refused_with_its_place() -> None:
    with pytest.raises(FarmError) as error:
        mlir.verify("module {\n  nonsense\n}")

    assert error.value.code is Code.MLIR_REJECTED
    assert error.value.detail["line"] == 2
