"""What the post-pass adds to LLVM IR, and what it refuses."""

from __future__ import annotations

import re

import pytest

from kernelc.lowering import llvm
from kernelc.lowering.kernel import Kernel
from kernelfarm.errors import Code, FarmError
from toolchains import target

IR = """\
; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"

define void @group(ptr %0, ptr %1, i64 %2, i64 %3) {
  ret void
}
BODY
!llvm.module.flags = !{!0}

!0 = !{i32 2, !"Debug Info Version", i32 3}
"""
KERNEL = Kernel("module {}", ((4, 16), (4, 16)), parts=1, tile="1x1", flop=0)


def finished(body: str = "", name: str = "x86-64-v4") -> str:
    return llvm.finish(IR.replace("BODY", body), KERNEL, target.load(name))


def refusal(body: str) -> FarmError:
    with pytest.raises(FarmError) as error:
        finished(body)
    return error.value


def test_the_tile_function_loads_its_operands_and_has_the_kcfi_type() -> None:
    text = finished()

    assert f"define hidden void @{KERNEL.symbol}(ptr %ctx, i64 %begin, i64 %end) #900 !kcfi_type !9000 {{" in text
    assert "!9000 = !{i32 1774936839}" in text
    assert "  %p1 = load ptr, ptr %a1, align 8" in text
    assert "call void @group(ptr %p0, ptr %p1, i64 %begin, i64 %end)" in text


def test_the_kernel_itself_is_private_and_its_operands_do_not_alias() -> None:
    assert "define internal void @group(ptr noalias %0, ptr noalias %1, i64 %2, i64 %3) #900 {" in finished()


def test_every_function_carries_the_cpu() -> None:
    text = finished()

    assert all("#900" in line for line in text.splitlines() if line.startswith("define"))
    assert '"target-cpu"="x86-64-v4"' in text
    assert re.search(r'"target-features"="[^"]*\+avx512f[^"]*-prefer-256-bit', text)
    assert '"target-cpu"="x86-64-v3"' in finished(name="x86-64-v3")


def test_module_flags_ask_for_checked_control_flow() -> None:
    text = finished()
    flags = re.search(r"^!llvm\.module\.flags = !\{(.*)\}$", text, re.MULTILINE)

    assert flags is not None
    assert flags.group(1).split(", ") == ["!0", "!9001", "!9002", "!9003", "!9004", "!9005"]
    for flag in (
        '!{i32 4, !"kcfi", i32 1}', '!{i32 4, !"cfi-normalize-integers", i32 1}', '!{i32 8, !"PIC Level", i32 2}',
        '!{i32 8, !"cf-protection-branch", i32 1}', '!{i32 8, !"cf-protection-return", i32 1}',
    ):  # fmt: skip
        assert flag in text


def test_no_name_of_the_builder_stays() -> None:
    assert 'source_filename = "kernel"' in finished()


@pytest.mark.parametrize("name", ["malloc", "memrefCopy", "expf"])
def test_a_call_of_another_function_is_refused(name: str) -> None:
    error = refusal(f"declare ptr @{name}(i64)")

    assert error.code is Code.IR_UNEXPECTED
    assert f"@{name}" in error.what


def test_a_small_copy_is_left_to_the_back_end() -> None:
    copy = "  call void @llvm.memcpy.p0.p0.i64(ptr %1, ptr %2, i64 256, i1 false)"

    assert copy in finished(copy)


@pytest.mark.parametrize("size", ["257", "%size"])
def test_a_copy_that_could_become_a_call_is_refused(size: str) -> None:
    error = refusal(f"  call void @llvm.memcpy.p0.p0.i64(ptr %1, ptr %2, i64 {size}, i1 false)")

    assert error.code is Code.IR_UNEXPECTED


def test_a_kernel_with_other_arguments_than_its_operands_is_refused() -> None:
    kernel = Kernel("module {}", ((4, 16),), parts=1, tile="1x1", flop=0)
    with pytest.raises(FarmError) as error:
        llvm.finish(IR.replace("BODY", ""), kernel, target.load("x86-64-v3"))

    assert error.value.code is Code.IR_UNEXPECTED


def test_ir_of_another_form_is_refused() -> None:
    with pytest.raises(FarmError) as error:
        llvm.finish("define void @other() {\n}\n", KERNEL, target.load("x86-64-v3"))

    assert error.value.code is Code.IR_UNEXPECTED


def test_the_symbol_comes_from_the_text_alone() -> None:
    other = Kernel("module {}", ((1,),), parts=9, tile="4x4", flop=5)

    assert other.symbol == KERNEL.symbol
    assert re.fullmatch(r"kf_[0-9a-f]{16}", KERNEL.symbol)
