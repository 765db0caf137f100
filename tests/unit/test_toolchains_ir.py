"""What is written into LLVM IR text: module flags, attributes, and the end of a failed check."""

from __future__ import annotations

import pytest

from kernelfarm.errors import Code, FarmError
from toolchains import ir, target

MODULE = 'attributes #0 = { nounwind "x"="y" }\n!llvm.module.flags = !{!0}\n!0 = !{i32 8, !"PIC Level", i32 2}\n'


def test_a_flag_is_a_number_or_a_text() -> None:
    assert ir.flag(7, 8, "branch-target-enforcement", 1) == '!7 = !{i32 8, !"branch-target-enforcement", i32 1}'
    assert ir.flag(8, 1, "target-abi", "lp64d") == '!8 = !{i32 1, !"target-abi", !"lp64d"}'


def test_only_flags_that_are_missing_are_added() -> None:
    riscv64 = target.load("riscv64")

    once = ir.add_module_flags(MODULE, riscv64)

    assert once == MODULE.replace("!{!0}", "!{!0, !1}") + '!1 = !{i32 1, !"target-abi", !"lp64d"}\n'
    assert ir.add_module_flags(once, riscv64) == once
    assert ir.add_module_flags(MODULE, target.load("armv7")) == MODULE


def test_ir_without_a_list_of_flags_is_refused() -> None:
    with pytest.raises(FarmError) as caught:
        ir.add_module_flags("", target.load("riscv64"))
    assert caught.value.code is Code.TOOL_OUTPUT


def test_every_function_gets_the_attributes() -> None:
    assert ir.add_attributes(MODULE, target.load("aarch64")).startswith(
        'attributes #0 = { nounwind "x"="y" "no-jump-tables"="true" "branch-target-enforcement"'
        ' "sign-return-address"="non-leaf" "sign-return-address-key"="a_key" }\n'
    )


def test_a_failed_check_calls_a_function_instead_of_going_on() -> None:
    text = "trap:\n  tail call void @llvm.debugtrap() #3, !x !1\n  br label %go\ndeclare void @llvm.debugtrap() #1\n"

    assert ir.replace_trap(text, "kf_cfi_fail") == (
        "trap:\n  tail call void @kf_cfi_fail(), !x !1\n  br label %go\ndeclare void @kf_cfi_fail()\n"
    )


@pytest.mark.parametrize(
    "text", ["define void @f() {}\n", "call void @llvm.debugtrap()\ninvoke @llvm.debugtrap() to\n"]
)
def test_a_unit_without_a_check_or_with_one_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(FarmError) as caught:
        ir.replace_trap(text, "kf_cfi_fail")
    assert caught.value.code is Code.TOOL_OUTPUT


HELPERS = """\
@__divdi3 = weak_odr hidden alias i64 (i64, i64), ptr @rt.div
@__divtf3 = weak_odr hidden alias void (ptr), ptr @rt.tf
define private i64 @rt.div(i64 %0, i64 %1) unnamed_addr #0 {
define private void @rt.tf(ptr %0) unnamed_addr #0 {
declare void @llvm.trap() #1
"""


def test_a_library_without_what_nobody_calls() -> None:
    assert ir.aliases(HELPERS) == {"__divdi3", "__divtf3"}
    assert ir.with_aliases(HELPERS, {"__divdi3", "memcpy"}) == HELPERS.replace(HELPERS.splitlines(True)[1], "")
    assert ir.with_aliases(HELPERS, ir.aliases(HELPERS)) == HELPERS


def test_a_library_that_offers_a_function_itself_is_refused() -> None:
    with pytest.raises(FarmError) as caught:
        ir.aliases(HELPERS + "define hidden i64 @__moddi3(i64 %0) #0 {\n")
    assert caught.value.code is Code.TOOL_OUTPUT
    assert "__moddi3" in caught.value.why
