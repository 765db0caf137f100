"""Settings of the farm, from environment variables; none of them may reach an output or a key."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from containers.process import Limits
from kernelfarm import paths
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home

MIB = 1 << 20
LEASE_S = 20.0
_MOST = 1 << 40
"""Far above every sense, and far below where the system's limits, in bytes or seconds, overflow."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one process.

    `ledger`: a SQLite file or the address of a database. `lease_s`: seconds that a worker may be silent before another
    takes its run over. `max_attempts`: workers that one run may wear out. `poll_s`: seconds between two looks at the
    ledger while a build waits. `ci`: nobody looks on, so that what could not be tried counts as a failure.
    """

    home: Home
    ledger: Path | str
    limits: Limits
    lease_s: float = LEASE_S
    max_attempts: int = 3
    poll_s: float = 0.1
    ci: bool = False

    @property
    def beat_s(self) -> float:
        """Seconds between two heartbeats: three may be lost before the lease is over."""
        return self.lease_s / 4


def load(environ: Mapping[str, str] | None = None) -> Config:
    """The settings of a process. Raises `FarmError` USAGE for a variable that is not a positive number.

    FARM_HOME (state folder), FARM_LEDGER_URL, FARM_LEASE_S, FARM_CPU_S, FARM_WALL_S (limits of a compile in seconds),
    FARM_MEMORY_MIB (its address space), none of them above 2^40, and CI, which services of continuous integration set.
    """
    given = os.environ if environ is None else environ
    home = paths.home(given)
    usual = Limits()
    limits = Limits(
        cpu_s=math.ceil(_number(given, "FARM_CPU_S", usual.cpu_s)),
        wall_s=_number(given, "FARM_WALL_S", usual.wall_s),
        address_space=math.ceil(_number(given, "FARM_MEMORY_MIB", usual.address_space / MIB) * MIB),
        file_size=usual.file_size,
    )
    ledger = given.get("FARM_LEDGER_URL") or home.ledger
    return Config(
        home,
        ledger,
        limits,
        lease_s=_number(given, "FARM_LEASE_S", LEASE_S),
        ci=under_ci(given),
    )


def under_ci(given: Mapping[str, str]) -> bool:
    """Whether CI says that nobody looks on: "false" and "0" say the contrary, as in the Makefile."""
    return given.get("CI", "").lower() in ("1", "true", "yes")


def _number(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST:
        why = f"it must be a positive number of at most {_MOST}"
        raise FarmError(Code.USAGE, f"{name} is {text!r}", why, f"Unset {name} or correct it.")
    return value
