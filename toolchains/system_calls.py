"""Instructions that ask something of the system or of its registers: a kernel needs none of them, the runtime few.

The disassembler knows them as forms with a number, whatever the processor: `sb` of Armv8.5 reads as a write to a
register without a name. On x86-64 they are in no list of names (`toolchains.x86`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

_NEVER = re.compile(r"(?!)")
KERNELS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "aarch64": re.compile(r"^(?:msrr?|mrrs|mrs|sys[lp]?|svc|hvc|smc|dc|ic|at|tlbip?|wf[ei]t?|drps|dcps\d)(?: |$)"),
        "armv7": re.compile(r"^(?:svc|hvc|smc|m[cr]rr?2?|mr[cs]2?|mrrc2?|msr|cdp2?|ldc|stc|cps|setend|wf[ei]|rfe|srs)"),
        "hexagon": re.compile(r"\btrap[01]\b"),
        "riscv64": re.compile(r"^(?:ecall|[ms]ret|wfi|sfence)|^csr\w* (?!\w+, vlenb$)"),  # a spill asks for vlenb
        "x86-64": _NEVER,
    }
)
PRODUCTS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "aarch64": re.compile(r"^(?:msrr? (?!FPCR\b)|(?:mrrs|sys[lp]?|hvc|smc|drps|dcps\d)(?: |$)|mrs \w+, S\d_)"),
        "armv7": _NEVER,
        "hexagon": _NEVER,
        "riscv64": _NEVER,
        "x86-64": _NEVER,
    }
)


def refused(pattern: re.Pattern[str], forms: Iterable[tuple[str, int]]) -> list[tuple[int, str]]:
    """(address, why) of each instruction, given as (text, address), that the pattern is about."""
    why = "asks something of the system"
    return [(address, f"{text} at {address:#x} {why}") for text, address in forms if pattern.search(text)]
