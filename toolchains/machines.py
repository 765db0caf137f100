"""Instruction sets: what does not differ between targets of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Machine:
    """How one instruction set is named, compiled, linked and recognised.

    `elf_machine` is e_machine, `relative` the number of its RELATIVE relocation, `landing_pad` what an indirect target
    starts with. `module_flags` are the LLVM module flags (name, behaviour, value) that IR needs for the control-flow
    notes; `compile` and `link` the flags for the same in C units and at the link. `headers` are the system's user
    headers in the zig wheel, `zig` is zig's name, `indirect` the pattern of an indirect branch in llvm-objdump's text.
    """

    elf_machine: int
    relative: int
    landing_pad: bytes
    cpu_flag: str
    module_flags: tuple[tuple[str, int, int], ...]
    compile: tuple[str, ...]
    link: tuple[str, ...]
    headers: tuple[str, ...]
    zig: str
    indirect: str


MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        "x86-64": Machine(
            elf_machine=62,
            relative=8,
            landing_pad=b"\xf3\x0f\x1e\xfa",
            cpu_flag="-march=",
            module_flags=(("cf-protection-branch", 8, 1), ("cf-protection-return", 8, 1)),
            compile=("-fcf-protection=full",),
            link=("-z", "force-ibt", "-z", "shstk", "-z", "cet-report=error"),
            headers=("x86-linux-any", "any-linux-any"),
            zig="x86_64-freestanding-none",
            indirect=r"\b(jmp|call|lcall|ljmp)[wlq]?\s+\*",
        ),
    }
)
