"""The linker's map: what was kept of which input, also of an archive's members."""

from __future__ import annotations

import pytest

from kernelfarm.errors import Code, FarmError
from toolchains import linkmap

MAP = """\
             VMA              LMA     Size Align Out     In      Symbol
             2a8              2a8       24     4 .note.gnu.build-id
             2a8              2a8       24     4         <internal>:(.note.gnu.build-id)
            1850             1850     1220    16 .rodata
            1850             1850      de1     1         <internal>:(.rodata.str1.1)
            2640             2640      170    16         src-api.o:(.rodata)
            2640             2640      170     1                 media_code_name.names
            2a78             2a78       70     1         src-crypto.o:(.eh_frame+0x0)
            2ae8             2ae8       10     1         src-crypto.o:(.eh_frame+0x70)
            3af0             3af0     7b6a    16 .text
            3af0             3af0      c87    16         src-admit.o:(.text)
            3af0             3af0       10     1                 __cfi_kf_admit
            4780             4780      6ae    16         src-api.o:(.text)
            5000             5000        0     4         src-empty.o:(.text)
            5000             5000       20     4         libgpl.a(evil.o):(.text.evil)
            5020             5020        8     4         a b:c.o:(.data)
            5028             5028        8     1 . = ALIGN ( 0x1000 )
               0                0       3c     1 .riscv.attributes
               0                0       3c     1         src-api.o:(.riscv.attributes)
"""
MAP_32 = """\
     VMA      LMA     Size Align Out     In      Symbol
     38c      38c       70     4 .ARM.exidx
     38c      38c       70     4         <internal>:(.ARM.exidx)
    1104     1104      170     1         src-api.o:(.rodata)
    1104     1104      170     1                 media_code_name.names
   10004    10004       24     4         helpers.o:(.text..Lcompiler_rt.arm.__aeabi_uldivmod)
   10004    10004        0     1                 $a
       0        0       3c     1         helpers.o:(.ARM.attributes)
       0        0       3c     1         idle.o:(.ARM.attributes)
"""


def test_the_bytes_of_every_section_by_input() -> None:
    assert linkmap.read(MAP) == {
        "src-api.o": {".rodata": 0x170, ".text": 0x6AE},
        "src-crypto.o": {".eh_frame": 0x80},
        "src-admit.o": {".text": 0xC87},
        "src-empty.o": {".text": 0},
        "libgpl.a(evil.o)": {".text.evil": 0x20},
        "a b:c.o": {".data": 8},
    }


def test_the_map_of_a_32_bit_machine_has_narrower_columns() -> None:
    assert linkmap.read(MAP_32) == {
        "src-api.o": {".rodata": 0x170},
        "helpers.o": {".text..Lcompiler_rt.arm.__aeabi_uldivmod": 0x24},
        "idle.o": {},
    }


@pytest.mark.parametrize(
    "text", ["", "nothing\n", MAP.partition("\n")[2], MAP.partition("\n")[0]], ids=["empty", "other", "cut", "head"]
)
def test_a_map_that_cannot_be_read_is_not_one_of_an_empty_link(text: str) -> None:
    with pytest.raises(FarmError) as caught:
        linkmap.read(text)
    assert caught.value.code is Code.TOOL_FAILED
