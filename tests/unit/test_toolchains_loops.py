"""Which arithmetic runs again and again, by straight runs of code."""

from __future__ import annotations

from toolchains import disasm
from toolchains.loops import Run, Use

START = 0x10000


def runs(*instructions: str) -> tuple[Run, ...]:
    """Of x86-64 code whose instructions lie four bytes apart; `{3}` stands for the address of the fourth."""
    places = [f"{START + 4 * k:#x}" for k in range(len(instructions))]
    text = "\n".join(f"  {place}:\t{line.format(*places)}" for place, line in zip(places, instructions, strict=True))
    return disasm.parse(text.replace("  0x", "  "), "x86-64", entries=[START]).loops


def test_arithmetic_outside_of_loops_does_not_count() -> None:
    assert runs("vaddss %xmm0, %xmm1, %xmm1", "jne {3}", "vaddss %xmm0, %xmm1, %xmm1", "retq") == ()


def test_a_loop_is_what_lies_between_a_jump_and_a_target_before_it() -> None:
    found = runs("vmulps %ymm0, %ymm1, %ymm1", "vmulss %xmm0, %xmm1, %xmm1", "vmovss %xmm0, (%rdi)", "jne {1}", "retq")

    assert found == (Run((Use("xmm", 1, START + 4, "vmulss %xmm0, %xmm1, %xmm1"),), innermost=True),)


def test_a_branch_that_may_never_run_is_a_run_of_its_own() -> None:
    scalar, vector = "vaddss %xmm0, %xmm1, %xmm1", "vaddps %ymm0, %ymm1, %ymm1"

    found = runs("testq %rax, %rax", "jne {4}", scalar, "jmp {5}", vector, "decq %rcx", "jne {0}", "retq")

    assert [[use.register_class for use in run.uses] for run in found] == [["xmm"], ["ymm"]]


def test_a_loop_around_another_one_is_not_innermost() -> None:
    scalar, vector = "vaddss %xmm0, %xmm1, %xmm1", "vaddps %ymm0, %ymm1, %ymm1"

    found = runs(vector, "jne {0}", scalar, "jne {0}", "retq")
    assert [run.innermost for run in found] == [True, True]

    found = runs("xorl %eax, %eax", vector, "jne {1}", scalar, "jne {0}", "retq")
    assert [(run.uses[0].register_class, run.innermost) for run in found] == [("ymm", True), ("xmm", False)]


def test_what_is_called_may_be_called_from_a_loop() -> None:
    found = runs("callq {3}", "retq", "int3", "vaddss %xmm0, %xmm1, %xmm1", "retq")

    assert [run.uses[0].address for run in found] == [START + 12]
