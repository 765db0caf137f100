"""What KCFI's check before the call of a kernel looks like on each machine, as llvm-objdump shows it.

Of a match, `skip` is where a good check goes on, which must be the call; `fail` (Hexagon) where a bad one goes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from toolchains.elf import TILE_TYPE

WINDOW = 20
"""Instructions, the call included, among which the check stands."""
_HIGH, _LOW = TILE_TYPE >> 16, TILE_TYPE & 0xFFFF
_UPPER = (TILE_TYPE + 0x800) >> 12
_REST = TILE_TYPE - (_UPPER << 12)
_BYTES = tuple(TILE_TYPE & 0xFF << shift for shift in (0, 8, 16, 24))


def _lines(*patterns: str) -> re.Pattern[str]:
    return re.compile("^" + "\n".join(patterns) + r"\Z", re.MULTILINE)


_XORS = [rf"eors? (?P=id), (?P=id), #{value}" for value in _BYTES]

CHECKS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "aarch64": _lines(
            r"ldur (?P<id>w1[67]), \[(?P<to>x\d+), #-0x4\]",
            rf"movk (?P<want>w1[67]), #{_LOW:#x}",
            rf"movk (?P=want), #{_HIGH:#x}, lsl #16",
            r"cmp (?P=id), (?P=want)",
            r"b\.eq 0x(?P<skip>[0-9a-f]+)",
            r"brk #0x82[0-9a-f]{2}",
            r"blr (?P=to)",
        ),
        "armv7": re.compile(
            r"^(?:(?P<push>(?:stmdb sp!,|push) \{(?P<saved>\w+)\})\n)?"
            r"bic (?P<id>r\d+), (?P<to>r\d+), #1\n"
            r"ldr (?P=id), \[(?P=id), #-0x4\]\n" + "\n".join(_XORS) + r"\n(?(push)(?:ldm sp!,|pop) \{(?P=saved)\}\n|)"
            r"beq (?:#)?0x(?P<skip>[0-9a-f]+)\n"
            r"udf #\S+\n"
            r"blx (?P=to)\Z",
            re.MULTILINE,
        ),
        "hexagon": re.compile(
            r"^r(?P<to>\d+) = r(?P<from>\d+)\n"
            r"(?:(?!if|call|jump|r(?P=to) |r(?P=from) ).*\n){0,3}"
            r"r(?P<id>\d+) = memw\(r(?P=from)\+#-0x4\)\n"
            r"(?:(?!if|call|jump|r(?P=to) |r(?P=id) ).*\n){0,3}"
            rf"p(?P<same>\d) = cmp\.eq\(r(?P=id),##{TILE_TYPE:#x}\)\n"
            r"(?:(?!if|call|jump|r(?P=to) |p(?P=same) ).*\n){0,3}"
            r"if \(!p(?P=same)\) jump:nt 0x(?P<fail>[0-9a-f]+)\n"
            r"callr r(?P=to)\Z",
            re.MULTILINE,
        ),
        "riscv64": _lines(
            r"lw (?P<id>\w+), -0x4\((?P<to>\w+)\)",
            rf"lui (?P<want>\w+), {_UPPER:#x}",
            rf"addiw (?P=want), (?P=want), {_REST:#x}",
            r"beq (?P=id), (?P=want), 0x(?P<skip>[0-9a-f]+)",
            r"ebreak",
            r"jalr (?P=to)",
        ),
        "x86-64": _lines(
            rf"movl \${-TILE_TYPE & 0xFFFFFFFF:#x}, %(?P<id>r1[01]d)",
            r"addl -0x4\((?P<to>%\w+)\), %(?P=id)",
            r"je 0x(?P<skip>[0-9a-f]+)",
            r"ud2",
            r"callq \*(?P=to)",
        ),
    }
)
TRAPS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "aarch64": re.compile(r"\A(?:(?:bti c|hint #0x22|paciasp|hint #0x19)\n)?brk #0x1$", re.MULTILINE),
        "armv7": re.compile(r"\A(?:udf|trap)\b"),
        "hexagon": re.compile(r"\Aimmext\(#0xbadc0fc0\)\nr27:26 = memd\(##0xbadc0fee\)"),
        "riscv64": re.compile(r"\A(?:unimp|ebreak)$", re.MULTILINE),
        "x86-64": re.compile(r"\A(?:endbr64\n)?ud2$", re.MULTILINE),
    }
)
"""How a function starts that is nothing but a trap."""
