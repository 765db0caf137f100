"""Instruction sets: what does not differ between targets of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Machine:
    """How one instruction set is named, compiled, linked and recognised.

    `bits` is the width of a pointer, `elf_machine` e_machine, `elf_flags` e_flags
    of code that claims nothing beyond its target, `relative` the number of its RELATIVE relocation, `rela`
    whether relocations carry their addend. `landing_pads` are the instructions that an indirect target may start with
    (none: the machine has no such thing), `notes` the names of the property note's bits for the forward and the return
    edge. `codegen` are flags of every unit, `compile` of C units, `baseline` of those for the oldest
    supported CPU, `link` of the link; `headers` are the system's user
    headers in the zig wheel; `zig` and `zig_cpu` name the machine and its oldest supported CPU to zig.

    `helpers`: it lacks instructions that C has, such as division, for which compilers call functions. `literals`:
    constants stand among the code. `debian`: only Debian's llvm-19 disassembles it. `objdump` are the disassembler's
    flags where no target is meant, `baseline_objdump` those for the oldest supported CPU.
    `trap` is the exit status of a program that KCFI stops.
    """

    bits: int
    elf_machine: int
    elf_flags: int
    relative: int
    rela: bool
    landing_pads: tuple[bytes, ...]
    notes: tuple[str, ...]
    cpu_flag: str
    codegen: tuple[str, ...]
    compile: tuple[str, ...]
    baseline: tuple[str, ...]
    link: tuple[str, ...]
    headers: tuple[str, ...]
    zig: str
    zig_cpu: str
    helpers: bool
    literals: bool
    debian: bool
    objdump: tuple[str, ...]
    baseline_objdump: tuple[str, ...]
    trap: int


_SIGILL, _SIGTRAP = 128 + 4, 128 + 5
CFI_FAIL = 86
"""Exit status of the runtime's own `cfi_fail`, where a trap instruction would not end the program."""

MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        "aarch64": Machine(
            bits=64,
            elf_machine=183,
            elf_flags=0,
            relative=1027,
            rela=True,
            landing_pads=(b"\x5f\x24\x03\xd5", b"\x3f\x23\x03\xd5"),  # bti c; paciasp, which is one too
            notes=("bti", "pac"),
            cpu_flag="-mcpu=",
            codegen=(),
            compile=("-mbranch-protection=standard", "-mno-outline-atomics"),
            baseline=(),
            link=("-z", "force-bti", "-z", "pac-plt"),
            headers=("aarch64-linux-any", "any-linux-any"),
            zig="aarch64-freestanding-none",
            zig_cpu="generic",
            helpers=False,
            literals=False,
            debian=False,
            objdump=("--mattr=+all",),
            baseline_objdump=("--mcpu=generic",),
            trap=_SIGTRAP,
        ),
        "armv7": Machine(
            bits=32,
            elf_machine=40,
            elf_flags=0x05000000,  # EABI 5
            relative=23,
            rela=False,
            landing_pads=(),
            notes=(),
            cpu_flag="-mcpu=",
            codegen=(),
            compile=("-marm",),
            baseline=("-mfpu=vfpv3-d16",),
            link=(),
            headers=("arm-linux-any", "any-linux-any"),
            zig="arm-freestanding-eabihf",
            zig_cpu="generic+v7a+vfp3d16-neon-d32-thumb_mode",
            helpers=True,
            literals=True,
            debian=False,
            objdump=("--mattr=+armv7-a,+neon,+vfp4,+d32,+hwdiv-arm,+mp,-thumb-mode",),
            baseline_objdump=(
                "--mcpu=generic",
                "--mattr=+armv7-a,+vfp3d16,-neon,-vfp4,-d32,-hwdiv-arm,-hwdiv,-thumb-mode",
            ),
            trap=_SIGILL,
        ),
        "hexagon": Machine(
            bits=32,
            elf_machine=164,
            elf_flags=0x67,  # v67, or the disassembler knows other versions too
            relative=35,
            rela=True,
            landing_pads=(),
            notes=(),
            cpu_flag="-mcpu=",
            # The software pipeliner and the loop alignment of this back end made wrong code at -O2.
            codegen=("-mllvm", "-enable-pipeliner=false", "-mllvm", "-disable-hexagon-loop-align"),
            compile=(),
            baseline=(),
            link=(),
            headers=("hexagon-linux-any", "any-linux-any"),
            zig="hexagon-freestanding-none",
            zig_cpu="hexagonv67",
            helpers=True,
            literals=False,
            debian=True,
            objdump=("--mcpu=hexagonv67",),
            baseline_objdump=("--mcpu=hexagonv67",),
            trap=CFI_FAIL,
        ),
        "riscv64": Machine(
            bits=64,
            elf_machine=243,
            elf_flags=0,
            relative=3,
            rela=True,
            landing_pads=(),
            notes=(),
            cpu_flag="-mcpu=",
            # Outlined functions return through another register, which looks like, and is, an unchecked jump.
            # Functions lie at multiples of four, so that the id before them is read by an aligned load.
            codegen=("-march=rv64gc", "-mno-outline", "-mllvm", "-align-all-functions=2"),
            compile=("-mabi=lp64d", "-mno-relax"),
            baseline=(),
            link=(),
            headers=("riscv-linux-any", "any-linux-any"),
            zig="riscv64-freestanding-none",
            zig_cpu="generic_rv64+m+a+f+d+c+zicsr+zifencei-relax",
            helpers=False,
            literals=False,
            debian=True,
            objdump=("--mattr=+m,+a,+f,+d,+c,+v,+zicsr,+zifencei,+zba,+zbb,+zbs",),
            baseline_objdump=("--mattr=+m,+a,+f,+d,+c,+zicsr,+zifencei,-v,-zba,-zbb,-zbs",),
            trap=_SIGTRAP,
        ),
        "x86-64": Machine(
            bits=64,
            elf_machine=62,
            elf_flags=0,
            relative=8,
            rela=True,
            landing_pads=(b"\xf3\x0f\x1e\xfa",),  # endbr64
            notes=("ibt", "shstk"),
            cpu_flag="-march=",
            codegen=(),
            compile=("-fcf-protection=full",),
            baseline=(),
            link=("-z", "force-ibt", "-z", "shstk", "-z", "cet-report=error"),
            headers=("x86-linux-any", "any-linux-any"),
            zig="x86_64-freestanding-none",
            zig_cpu="x86_64",
            helpers=False,
            literals=False,
            debian=False,
            objdump=(),
            baseline_objdump=(),
            trap=_SIGILL,
        ),
    }
)
