"""What a rebuild varies around the compiler, none of which may reach the payload. Pure: the machine is not touched."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from kernelfarm import canonical
from kernelfarm.errors import Code, FarmError


class Variation(Enum):
    """One thing that differs from the first build; the value is its name for `farm rebuild --vary`."""

    DIRECTORY = "dir"
    TIME_ZONE = "tz"
    UMASK = "umask"
    LOCALE = "locale"
    HOME = "home"
    HASH_SEED = "hashseed"
    HOST_NAME = "hostname"
    CORE = "core"
    ORDER = "order"
    CPU = "cpu"


ALL = tuple(Variation)
BY_ENVIRONMENT = frozenset((Variation.TIME_ZONE, Variation.LOCALE, Variation.HOME, Variation.HASH_SEED, Variation.CPU))
"""Those that environment variables bring about, also inside a sandbox."""
DIRECTORY_NAME = "an other place, ünïcode 目录"
_HWCAPS = (
    "AVX",
    "AVX2",
    "AVX512F",
    "AVX512VL",
    "AVX512BW",
    "AVX512CD",
    "AVX512DQ",
    "FMA",
    "BMI1",
    "BMI2",
    "ERMS",
    "MOVBE",
)
_MASKED = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join(f"-{name}" for name in _HWCAPS),
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F AVX512_SKX",
    "OPENBLAS_CORETYPE": "Nehalem",
}


def parse(text: str) -> tuple[Variation, ...]:
    """The variations of "all" or a list such as "dir,tz", in the enum's order, each once; raises `FarmError` USAGE."""
    if text == "all":
        return ALL
    known = {variation.value: variation for variation in Variation}
    words = [word.strip() for word in text.split(",")]
    if unknown := sorted(set(words) - set(known)):
        raise FarmError(
            Code.USAGE,
            f"unknown variation {unknown[0]!r}",
            "--vary takes all, or words of a list",
            f"Known: all, {', '.join(known)}.",
            detail={"vary": text},
        )
    return ordered(known[word] for word in words)


def ordered(variations: Iterable[Variation]) -> tuple[Variation, ...]:
    """The variations in the order of the enum, each once."""
    chosen = set(variations)
    return tuple(variation for variation in Variation if variation in chosen)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of one compile. `environment` is laid over the runner's clean one.

    `directory` is a name for the work folder (empty = the usual one), `umask` and `cores` (how many cores, 0 = all) are
    those of the process, `reverse` lists every folder backwards and hands the inputs over in reversed order.
    """

    variations: tuple[Variation, ...]
    directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    host_name: str = ""
    cores: int = 0
    reverse: bool = False

    def launcher(self, core: int) -> tuple[str, ...]:
        """Command in front of the compiler's module and arguments; `core` is the one to stay on when `cores` is 1.

        Without -I, which would make Python ignore PYTHONHASHSEED: -s -P and the clean environment isolate as well.
        """
        settings = {
            "umask": self.umask,
            "host_name": self.host_name,
            "core": core if self.cores else -1,
            "reverse": self.reverse,
        }
        return (sys.executable, "-s", "-P", "-m", "farm.elsewhere", canonical.dumps(settings).decode())


def surroundings(
    variations: Iterable[Variation], *, locale: str = "C.UTF-8", home: str = "/nonexistent"
) -> Surroundings:
    """The surroundings in which exactly `variations` differ from those of a build."""
    chosen = ordered(variations)
    return Surroundings(
        variations=chosen,
        directory=DIRECTORY_NAME if Variation.DIRECTORY in chosen else "",
        environment=_environment(chosen, locale, home),
        umask=0o077 if Variation.UMASK in chosen else 0o022,
        host_name="another-host" if Variation.HOST_NAME in chosen else "",
        cores=1 if Variation.CORE in chosen else 0,
        reverse=Variation.ORDER in chosen,
    )


def _environment(chosen: tuple[Variation, ...], locale: str, home: str) -> dict[str, str]:
    overlay: dict[str, str] = {}
    if Variation.TIME_ZONE in chosen:
        overlay["TZ"] = "XYZ-13:45"  # a POSIX zone: needs no zone files
    if Variation.LOCALE in chosen:
        overlay |= {"LC_ALL": locale, "LANG": locale}
    if Variation.HOME in chosen:
        overlay["HOME"] = home
    if Variation.HASH_SEED in chosen:
        overlay["PYTHONHASHSEED"] = "4294967295"
    if Variation.CPU in chosen:
        overlay |= _MASKED
    return overlay
