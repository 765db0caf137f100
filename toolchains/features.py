"""CPU features that a device may be asked for: bits in the payload header, probed by runtime/src/cpu_<machine>.c."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

_X86_64 = (
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "movbe", "f16c", "fma", "avx", "avx2", "bmi1", "bmi2", "lzcnt",
    "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl",
)  # fmt: skip
"""Position = bit number. Append only: headers in the field carry these numbers. The other lists: the kernel's names."""
_AARCH64 = (
    "fp", "asimd", "aes", "pmull", "sha1", "sha2", "crc32", "atomics", "fphp", "asimdhp", "asimdrdm", "lrcpc",
    "asimddp", "sve", "bti", "i8mm", "bf16",
)  # fmt: skip
_ARMV7 = ("vfpv3", "neon", "vfpd32", "vfpv4", "idiva")
_RISCV64 = ("v",)
_HEXAGON = ("v67",)

_BITS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        machine: MappingProxyType({name: bit for bit, name in enumerate(listed)})
        for machine, listed in (
            ("aarch64", _AARCH64),
            ("armv7", _ARMV7),
            ("hexagon", _HEXAGON),
            ("riscv64", _RISCV64),
            ("x86-64", _X86_64),
        )
    }
)


def known(machine: str) -> tuple[str, ...]:
    """Names of the features of a machine, by bit number; none for an unknown machine."""
    return tuple(_BITS.get(machine, {}))


def mask(machine: str, features: Iterable[str]) -> int:
    """64-bit mask of features; every name must be known."""
    bits = _BITS[machine]
    return sum(1 << bits[name] for name in set(features))


def names(machine: str, mask: int) -> tuple[str, ...]:
    """Names of the bits of a mask; an unnamed bit reads "bit N"."""
    by_bit = {bit: name for name, bit in _BITS.get(machine, {}).items()}
    return tuple(by_bit.get(bit, f"bit {bit}") for bit in range(64) if mask >> bit & 1)
