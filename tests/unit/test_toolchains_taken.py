"""Addresses of code that code computes, by machine, from instructions written out."""

from __future__ import annotations

import struct

import pytest

from toolchains import flow, taken
from toolchains.taken import Taken

START = 0x10000
CODE = [(START, bytes(0x1000))]
FAR = [(START, bytes(0x20000))]


def found(machine: str, *lines: str, code: taken.Code = CODE, step: int = 4) -> list[tuple[int, int]]:
    """(offset of the instruction, offset of what it takes) in code whose instructions are `step` bytes long."""
    units = flow.units({START + step * k: text for k, text in enumerate(lines)}, machine)
    return [(each.at - START, each.to - START) for each in taken.find(units, machine, code)]


@pytest.mark.parametrize(
    ("text", "to"),
    [
        ("leaq 0x20(%rip), %rdi", 0x28),
        ("leaq -0x8(%rip), %r12", 0),
        ("leaq (%rip), %rax", 8),
        ("leal 0x20(%rip), %edi", 0x28),
        ("leaq 0x20(%eip), %rdi", 0x28),
    ],
)
def test_x86_counts_from_the_instruction_behind(text: str, to: int) -> None:
    assert found("x86-64", text, "retq", step=8) == [(0, to)]


@pytest.mark.parametrize("text", ["leaq 0x20(%rax), %rdi", "movq 0x20(%rip), %rdi", "callq 0x10008", "jmp 0x10000"])
def test_loads_and_direct_branches_of_x86_take_nothing(text: str) -> None:
    assert found("x86-64", text, "retq") == []


def test_what_lies_outside_of_code_is_data() -> None:
    assert found("x86-64", "leaq -0x8000(%rip), %rdi", "leaq 0x8000(%rip), %rsi", "retq") == []
    assert found("aarch64", "adr x8, 0x1560", "adrp x9, 0x20000", "add x9, x9, #0x10") == []
    assert found("riscv64", "auipc a0, 0x10", "addi a0, a0, 0x10") == []
    assert found("hexagon", "{ r5 = add(pc,##0xffff0449) }") == []


def test_aarch64_takes_by_adr() -> None:
    assert found("aarch64", "adr x8, 0x10040", "nop") == [(0, 0x40)]


def test_aarch64_takes_by_a_page_and_what_lies_in_it() -> None:
    assert found("aarch64", "adrp x0, 0x10000 <>", "add x0, x0, #0x18", "ret") == [(4, 0x18)]
    assert found("aarch64", "adrp x8, 0x10000", "mov x1, x2", "add x2, x8, #0x18", "ret") == [(8, 0x18)]
    assert found("aarch64", "adrp x8, 0xe000", "add x8, x8, #0x2, lsl #12") == [(4, 0)]
    assert found("aarch64", "adrp x8, 0x11000", "sub x8, x8, #0x10") == [(4, 0xFF0)]


def test_one_page_of_aarch64_may_serve_twice() -> None:
    lines = "adrp x8, 0x10000", "add x0, x8, #0x18", "ldr x2, [x8, #0x40]", "add x1, x8, #0x20", "ret"

    assert found("aarch64", *lines) == [(4, 0x18), (12, 0x20)]


def test_a_page_of_aarch64_that_is_loaded_from_is_no_address() -> None:
    assert found("aarch64", "adrp x8, 0x10000", "ldr q0, [x8, #0x40]", "mov x8, x1", "ret") == []


@pytest.mark.parametrize("behind", [("mov x0, x8",), ("mov x8, x1",), ("ldr x1, [x8]",), ("b 0x10400",), ()])
def test_a_page_of_aarch64_that_nothing_is_added_to_counts_as_it_stands(behind: tuple[str, ...]) -> None:
    assert found("aarch64", "nop", "adrp x8, 0x10000", *behind) == [(4, 0)]


def test_a_register_of_aarch64_with_another_value_is_no_page() -> None:
    lines = "adrp x8, 0x10000", "add x0, x8, #0x18", "ldr x8, [x1]", "add x1, x8, #0x20", "ret"

    assert found("aarch64", *lines) == [(4, 0x18)]


def test_riscv_takes_by_two_parts() -> None:
    assert found("riscv64", "auipc a0, 0x0", "addi a0, a0, 0x10", "ret") == [(4, 0x10)]
    assert found("riscv64", "nop", "auipc a1, 0x1", "li a0, 0x1", "addi a2, a1, -0x800") == [(12, 0x804)]
    assert found("riscv64", "auipc a1, 0xfffff", "addi a2, a1, 0x7ff", code=[(0xF000, bytes(0x2000))]) == [(4, -0x801)]


@pytest.mark.parametrize(
    "text", ["jalr 0x10(a0)", "jalr a0 <+0x14>", "jr 0x0(a0)", "ld a1, 0x10(a0)", "sd a1, -0x8(a0)"]
)
def test_a_far_branch_of_riscv_and_a_load_take_nothing(text: str) -> None:
    assert found("riscv64", "auipc a0, 0x0", text, "ret") == []


@pytest.mark.parametrize("text", ["mv a1, a0", "sd a0, 0x8(sp)", "ld a1, 0x0(a0)", "li a0, 0x1"])
def test_the_first_part_of_riscv_counts_as_it_stands_when_nothing_completes_it(text: str) -> None:
    assert found("riscv64", "nop", "auipc a0, 0x0", text) == [(4, 4)]


def literals(*words: int, at: int) -> taken.Code:
    """Code of zeros with these words at an offset."""
    held = bytearray(0x1000)
    struct.pack_into(f"<{len(words)}I", held, at, *words)
    return [(START, bytes(held))]


def test_armv7_takes_by_a_literal() -> None:
    code = literals(0x18, 0xFFFFFFF0, at=0x40)

    assert found("armv7", "ldr r0, [pc, #0x38]", "add r0, pc, r0", code=code) == [(4, 0x24)]
    assert found("armv7", "ldr r1, [pc, #0x3c]", "nop", "addne r2, r1, pc", code=code) == [(8, 0)]
    assert found("armv7", "ldr r0, [pc, #0x38]", "ldr r1, [pc, r0]", code=code) == []


def test_armv7_takes_by_moved_halves() -> None:
    assert found("armv7", "movw r0, #0x20", "add r0, pc, r0") == [(4, 0x2C)]
    assert found("armv7", "movw r0, #0x20", "movt r0, #0x1", "add r0, pc, r0", code=FAR) == [(8, 0x10030)]
    assert found("armv7", "movw r0, #0xfff8", "movt r0, #0xffff", "add r0, pc, r0") == [(8, 8)]


@pytest.mark.parametrize(
    ("text", "to"),
    [
        ("add r0, pc, #0x20", 0x28),
        ("add r0, pc, #32", 0x28),
        ("sub r0, pc, #8", 0),
        ("subne r0, pc, #4", 4),
        ("mov r0, pc", 8),
    ],
)
def test_armv7_takes_by_a_number(text: str, to: int) -> None:
    assert found("armv7", text) == [(0, to)]


def test_what_armv7_adds_to_pc_counts_as_pc_when_it_is_not_known() -> None:
    assert found("armv7", "ldr r0, [pc, #0x38]", "ldr r0, [r1]", "add r0, pc, r0") == [(8, 0x10)]


def test_hexagon_counts_from_the_start_of_the_packet() -> None:
    packets = "{ nop }", "{ r3 = #0x1", "immext(#0x0)", "r0 = add(pc,##0x10)", "jumpr r31 }"

    assert found("hexagon", *packets) == [(12, 0x14)]
    assert found("hexagon", "{ nop }", "{ r0 = add(pc,#0x8) }", "{ r1 = pc }") == [(4, 0xC), (8, 8)]


def test_only_what_runs_takes_an_address() -> None:
    lines = {START: "adr x0, 0x10010", START + 4: "ret", START + 8: "adr x1, 0x10020"}
    units = flow.units(lines, "aarch64")

    assert taken.find(units, "aarch64", CODE, {START, START + 4}) == (Taken(START, START + 0x10),)
