"""What the post-pass adds to LLVM IR, and what it refuses."""

from __future__ import annotations

import re

import pytest

from kernelc.lowering import llvm
from kernelc.lowering.kernel import Kernel
from kernelc.schedule.work import Work
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
NOTHING = Work((), (0,))
KERNEL = Kernel("module {}", ((4, 16), (4, 16)), parts=1, tile="1x1", flop=0, work=NOTHING)


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


@pytest.mark.parametrize("size", ["16", "257", "%size"])
def test_a_copy_that_could_become_a_call_is_refused(size: str) -> None:
    error = refusal(f"  call void @llvm.memcpy.p0.p0.i64(ptr %1, ptr %2, i64 {size}, i1 false)")

    assert error.code is Code.IR_UNEXPECTED


def test_a_kernel_with_other_arguments_than_its_operands_is_refused() -> None:
    kernel = Kernel("module {}", ((4, 16),), parts=1, tile="1x1", flop=0, work=NOTHING)
    with pytest.raises(FarmError) as error:
        llvm.finish(IR.replace("BODY", ""), kernel, target.load("x86-64-v3"))

    assert error.value.code is Code.IR_UNEXPECTED


def test_ir_of_another_form_is_refused() -> None:
    with pytest.raises(FarmError) as error:
        llvm.finish("define void @other() {\n}\n", KERNEL, target.load("x86-64-v3"))

    assert error.value.code is Code.IR_UNEXPECTED


def test_the_symbol_comes_from_the_text_alone() -> None:
    other = Kernel("module {}", ((1,),), parts=9, tile="4x4", flop=5, work=NOTHING)

    assert other.symbol == KERNEL.symbol
    assert re.fullmatch(r"kf_[0-9a-f]{16}", KERNEL.symbol)


def test_where_indices_have_32_bits_pointers_lie_four_bytes_apart_and_the_range_is_cut() -> None:
    text = llvm.finish(IR.replace("i64", "i32").replace("BODY", ""), KERNEL, target.load("armv7"))

    assert "define hidden void @" in text and "(ptr %ctx, i64 %begin, i64 %end)" in text  # the ABI has 64 everywhere
    assert "  %a1 = getelementptr inbounds ptr, ptr %operands, i32 1" in text
    assert "  %p1 = load ptr, ptr %a1, align 4" in text
    assert "  %first = trunc i64 %begin to i32" in text
    assert "call void @group(ptr %p0, ptr %p1, i32 %first, i32 %last)" in text


def test_a_kernel_with_indices_of_another_width_is_refused() -> None:
    with pytest.raises(FarmError) as error:
        finished(name="armv7")

    assert error.value.code is Code.IR_UNEXPECTED


def test_functions_and_modules_say_what_the_target_needs() -> None:
    arm = finished(name="aarch64")
    riscv = finished(name="riscv64")

    assert '"branch-target-enforcement" "sign-return-address"="non-leaf"' in arm
    assert '!{i32 8, !"branch-target-enforcement", i32 1}' in arm
    assert '!{i32 1, !"target-abi", !"lp64d"}' in riscv
    assert "cf-protection" not in arm + riscv


def test_the_passes_have_one_width_of_index() -> None:
    wide, narrow = (" ".join(stage.pipeline for stage in llvm.stages(bits)) for bits in (64, 32))

    assert "index-bitwidth" not in wide
    assert narrow.count("index-bitwidth=32") == 5  # memref, func, arith, index and cf
    assert "entry-point=memory" in narrow
