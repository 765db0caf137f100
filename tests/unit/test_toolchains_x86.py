"""x86 instructions that a target's features do not cover."""

from __future__ import annotations

import pytest

from toolchains import target, x86

V3, V4 = target.load("x86-64-v3"), target.load("x86-64-v4")


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("vaesenc %ymm1, %ymm2, %ymm3", "aes"),
        ("vpclmulqdq $0x0, %xmm1, %xmm2, %xmm3", "pclmul"),
        ("sha256rnds2 %xmm1, %xmm0", "sha"),
        ("vpdpbusd %zmm1, %zmm2, %zmm3", "avx512vnni"),
        ("vpermb %zmm1, %zmm2, %zmm3", "avx512vbmi"),
        ("vaddph %zmm1, %zmm2, %zmm3", "avx512fp16"),
        ("vdpbf16ps %zmm1, %zmm2, %zmm3", "avx512bf16"),
        ("vfmaddps %xmm1, %xmm2, %xmm3, %xmm4", "fma4"),
        ("vphaddbd %xmm1, %xmm2", "xop"),
        ("rdrandq %rax", "rdrnd"),
        ("adcxq %rax, %rbx", "adx"),
        ("tdpbssd %tmm1, %tmm2, %tmm3", "amx"),
        ("addq %r17, %rax", "apx"),
    ],
)
def test_what_neither_target_has_is_found(text: str, needs: str) -> None:
    for goal in (V3, V4):
        assert x86.foreign(goal, [(text, 16)]) == [(16, f"{text} at 0x10 needs {needs}")]


@pytest.mark.parametrize(
    "text",
    [
        "vfmadd231ps (%rdi), %ymm1, %ymm2",
        "vcvtps2ph $0x0, %ymm1, %xmm1",
        "vcvtph2ps %xmm1, %ymm1",
        "vphaddd %ymm1, %ymm2, %ymm3",
        "vpshufd $0x1, %ymm1, %ymm2",
        "vpsllvd %ymm1, %ymm2, %ymm3",
        "vpcmpeqd %ymm1, %ymm2, %ymm3",
        "vpermilps $0x1, %ymm1, %ymm2",
        "vpunpckhdq %ymm1, %ymm2, %ymm3",
        "vbroadcastss %xmm1, %ymm1",
        "shlxq %rax, %rbx, %rcx",
        "lzcntl %eax, %ebx",
        "prefetcht0 (%rax)",
        "blsrq %rax, %rbx",
        "rep movsb %ds:(%rsi), %es:(%rdi)",
        "cmpxchgq %rax, (%rdi)",
        "andnps %xmm1, %xmm2",
    ],
)
def test_what_both_targets_have_is_not(text: str) -> None:
    assert x86.foreign(V3, [(text, 0)]) == []
    assert x86.foreign(V4, [(text, 0)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "serialize",
        "prefetchwt1 (%rax)",
        "xsaveopt (%rax)",
        "wrpkru",
        "fadds (%rax)",
        "hlt",
        "syscall",
        "vfrobnicateps %ymm0",
    ],
)
def test_what_no_list_names_is_refused(text: str) -> None:
    for goal in (V3, V4):
        assert x86.foreign(goal, [(text, 16)]) == [(16, f"{text} at 0x10 is not known to be of {goal.cpu.name}")]


def test_the_runtime_asks_for_more_than_a_kernel() -> None:
    assert x86.foreign(V3, [("syscall", 0), ("cpuid", 2), ("xgetbv", 4)], x86.RUNTIME) == []


def test_bextr_with_a_constant_is_another_instruction_than_with_a_register() -> None:
    assert x86.foreign(V3, [("bextrl %eax, %ebx, %ecx", 0)]) == []
    assert x86.foreign(V3, [("bextrl $0x1, %ebx, %ecx", 0)]) == [(0, "bextrl $0x1, %ebx, %ecx at 0x0 needs tbm")]


def test_masks_and_the_encoding_of_avx512_are_for_v4_alone() -> None:
    assert x86.foreign(V3, [("kmovw %eax, %k1", 0)]) == [(0, "kmovw %eax, %k1 at 0x0 needs avx512f")]
    assert x86.foreign(V4, [("kmovw %eax, %k1", 0), ("vpcompressd %zmm1, %zmm2", 4)]) == []
    assert x86.encodings(V3, [(0, 0xC5), (5, 0x62)]) == [(5, "the instruction at 0x5 is encoded as AVX-512")]
    assert x86.encodings(V4, [(5, 0x62)]) == []
