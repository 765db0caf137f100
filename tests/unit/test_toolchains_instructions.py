"""How the disassembly of each machine is read: branches, widths, constants among the code."""

from __future__ import annotations

import pytest

from toolchains import disasm, flow
from toolchains.disasm import Branch, VectorUse


def listing(*instructions: str, start: int = 0x10000, step: int = 4) -> str:
    return "\n".join(f"   {start + step * k:x}:      \t{text}" for k, text in enumerate(instructions))


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        ("aarch64", "br\tx0"),
        ("aarch64", "blr\tx16"),
        ("aarch64", "ret\tx1"),
        ("aarch64", "braa\tx0, x1"),
        ("aarch64", "blraaz\tx0"),
        ("armv7", "bx\tr0"),
        ("armv7", "bxne\tip"),
        ("armv7", "blx\tr3"),
        ("armv7", "blx\t0x10020"),
        ("armv7", "mov\tpc, r0"),
        ("armv7", "ldr\tpc, [r0]"),
        ("armv7", "ldr\tpc, [sp, #4]"),
        ("armv7", "add\tpc, pc, r1"),
        ("armv7", "ldm\tr0, {r1, pc}"),
        ("armv7", "ldmdb\tr11, {r4, r11, pc}"),
        ("riscv64", "jr\ta0"),
        ("riscv64", "jalr\ta0"),
        ("riscv64", "jalr\tt0, 0x8(a0)"),
        ("riscv64", "jr\t-0x8(t1)"),
        ("hexagon", "{ \tjumpr r0 }"),
        ("hexagon", "{ \tr0 = #0x1"[:3] + " callr r1 }"),
        ("hexagon", "{ \tif (p0) jumpr:nt r2 }"),
        ("hexagon", "{ \thintjr(r3) }"),
        ("x86-64", "jmpq\t*%rax"),
        ("x86-64", "callq\t*0x8(%rdi)"),
        ("x86-64", "lretq"),
        ("x86-64", "lretq\t$0x8"),
        ("x86-64", "iretq"),
    ],
)
def test_a_jump_through_a_register_or_memory_is_seen(machine: str, text: str) -> None:
    assert len(disasm.parse(listing(text), machine).indirect) == 1


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        ("aarch64", "ret"),
        ("aarch64", "bl\t0x11750 <.text+0x1750>"),
        ("aarch64", "b.ne\t0x10020"),
        ("aarch64", "retaa"),
        ("armv7", "bx\tlr"),
        ("armv7", "bxeq\tlr"),
        ("armv7", "pop\t{r4, r5, pc}"),
        ("armv7", "popge\t{r4, pc}"),
        ("armv7", "ldr\tpc, [sp], #4"),
        ("armv7", "bl\t0x1004c <.text+0x4c>    @ imm = #0x30"),
        ("armv7", "push\t{r11, lr}"),
        ("armv7", "add\tr0, pc, r0"),
        ("armv7", "vldr\ts0, [pc, #32]           @ 0x30 <f+0x30>"),
        ("riscv64", "ret"),
        ("riscv64", "jal\t0x10020"),
        ("riscv64", "j\t0x10020 <.text+0x20>"),
        ("hexagon", "{ \tjumpr r31 }"),
        ("hexagon", "{ \tdealloc_return }"),
        ("hexagon", "{ \tcall 0x10020 }"),
        ("hexagon", "{ \tif (p0) jumpr:nt r31 }"),
        ("x86-64", "retq"),
        ("x86-64", "callq\t0x10020"),
    ],
)
def test_a_direct_jump_and_a_return_are_none(machine: str, text: str) -> None:
    assert disasm.parse(listing(text), machine).indirect == ()


def test_a_far_call_of_riscv_is_direct_only_behind_its_address() -> None:
    far = listing("auipc\tra, 0x1", "jalr\t0x41a(ra) <.text+0x1454>", "auipc\tt1, 0x2", "jr\t-0x8(t1)")
    assert disasm.parse(far, "riscv64").indirect == ()
    assert disasm.parse(listing("auipc\tra, 0x1", "jalr\tra <.text+0x14>"), "riscv64").indirect == ()

    other = listing("auipc\tra, 0x1", "jalr\t0x41a(t0)", "nop", "jalr\t0x41a(ra)")
    assert disasm.parse(other, "riscv64").indirect == (
        Branch(0x10004, "jalr 0x41a(t0)"),
        Branch(0x1000C, "jalr 0x41a(ra)"),
    )


def test_a_far_call_of_riscv_is_none_where_its_second_half_is_jumped_at() -> None:
    # The jump skips the address: register and page need not be those of the line before
    pair = ("auipc\tt1, 0x1", "jr\t0x10(t1)")
    skipped = listing("li\tt1, 0x7", "j\t0x1000c", *pair)
    assert disasm.parse(skipped, "riscv64").indirect == (Branch(0x1000C, "jr 0x10(t1)"),)
    assert disasm.parse(listing("nop", "nop", *pair), "riscv64", entries=[0x1000C]).indirect != ()
    assert disasm.parse(listing("nop", "j\t0x10008", *pair), "riscv64").indirect == ()


def test_the_head_line_of_a_file_with_a_hexadecimal_name_is_no_instruction() -> None:
    text = f"cafe:\tfile format elf64-x86-64\n\n{listing('nop')}"
    assert disasm.parse(text, "x86-64").addresses == (0x10000,)
    assert disasm.lines(text) == {0x10000: "nop"}


def test_widths_of_arm_and_aarch64() -> None:
    lines = listing("fmla\tv0.4s, v1.4s, v2.s[1]", "ldp\tq0, q1, [x0]", "fadd\ts0, s1, s2", "fmul\tv0.2s, v1.2s, v2.2s")
    assert disasm.parse(lines, "aarch64").vectors == (VectorUse("s", 1), VectorUse("d", 1), VectorUse("q", 2))

    lines = listing("vmla.f32\tq0, q1, d4[0]", "vld1.32\t{d16, d17}, [r0]", "vadd.f32\ts0, s1, s2", "add\tr0, r1, r2")
    assert disasm.parse(lines, "armv7").vectors == (VectorUse("s", 1), VectorUse("d", 1), VectorUse("q", 1))


def test_a_vector_instruction_of_riscv_counts_by_the_length_that_was_set() -> None:
    lines = listing(
        "vfadd.vv\tv8, v8, v9",  # nothing was set: not known to be wide
        "vsetivli\tzero, 0x4, e32, m1, ta, ma",
        "vle32.v\tv8, (a0)",
        "vfmacc.vf\tv8, fa0, v9",
        "vsetivli\tzero, 0x2, e32, mf2, ta, ma",
        "vfadd.vv\tv8, v8, v9",
        "vsetvli\tzero, a0, e32, m8, ta, ma",
        "vse32.v\tv8, (a0)",
        "fadd.s\tfa0, fa0, fa1",
    )

    assert disasm.parse(lines, "riscv64").vectors == (VectorUse("f", 1), VectorUse("part", 2), VectorUse("v", 3))


def test_packets_of_hexagon_are_taken_apart() -> None:
    facts = disasm.parse(
        "   10000: { \tr0 = add(r0,r1)\n   10004:   \tjumpr r4 }  :endloop0\n   10008: <unknown>", "hexagon"
    )

    assert facts.indirect == (Branch(0x10004, "jumpr r4"),)
    assert (facts.instructions, facts.undecoded) == (3, (0x10008,))


def test_words_between_functions_are_no_instructions() -> None:
    text = listing("<unknown>", "nop", "br\tx0")
    assert disasm.parse(text, "aarch64").undecoded == (0x10000,)
    assert disasm.parse(text, "aarch64", skip=[0x10000, 0x10008]) == disasm.CodeFacts(
        1, (), (), (), (("nop", 0x10004),), (0x10004,)
    )


def test_constants_that_control_flow_never_reaches_are_not_code() -> None:
    text = listing(
        "cmp\tr0, #0",  # 0: the entry
        "bleq\t0x10018",
        "ldr\tr0, [pc, #4]",
        "bx\tlr",
        "<unknown>",  # 10: a constant
        "bx\tr0",  # 14: a constant that looks like a branch
        "vadd.f32\tq0, q0, q1",  # 18: called
        "pop\t{r4, pc}",
    )

    facts = disasm.parse(text, "armv7", entries=[0x10000])

    assert (facts.indirect, facts.undecoded, facts.instructions) == ((), (), 6)
    assert facts.vectors == (VectorUse("q", 1),)
    assert disasm.parse(text, "armv7", entries=[0x10014]).indirect == (Branch(0x10014, "bx r0"),)


def test_code_that_runs_into_what_is_no_code_is_undecoded() -> None:
    assert disasm.parse(listing("nop", "b\t0x10020"), "armv7", entries=[0x10000]).undecoded == (0x10020,)
    for lines in ({0: "bne 0x8", 4: "bx lr", 8: "b 0x8"}, {0: "popge {r4, pc}", 4: "udf #0"}):
        steps = flow.steps(flow.units(lines, "armv7"), "armv7")
        assert flow.follow(steps, [0]).reached == lines.keys()


@pytest.mark.parametrize("machine", ["aarch64", "armv7", "hexagon", "riscv64", "x86-64"])
def test_code_that_runs_into_a_word_that_is_none_is_undecoded(machine: str) -> None:
    nop, end = {
        "aarch64": ("nop", "ret"),
        "armv7": ("nop", "bx\tlr"),
        "hexagon": ("{ nop }", "{ jumpr r31 }"),
        "riscv64": ("nop", "ret"),
        "x86-64": ("nop", "retq"),
    }[machine]
    text = listing(nop, nop, "<unknown>", end)  # the word is a function's type id
    entries = [0x10000, 0x1000C]

    assert disasm.parse(text, machine, [0x10008], entries).undecoded == (0x10008,)
    assert disasm.parse(text.replace(nop, end), machine, [0x10008], entries).undecoded == ()
