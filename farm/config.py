"""Settings of the farm, from environment variables; none of them may reach an output or a key."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from containers.runner import Limits
from kernelfarm import paths
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home

MIB = 1 << 20
LEASE_S = 20.0
RECONCILE_S = 2.0
SILENCE_S = 900.0
_MOST = 1 << 40
"""Far above every sense, and far below where the system's limits, in bytes or seconds, overflow."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one process.

    `ledger`: a SQLite file or the address of a database. `lease_s`: seconds that a worker may be silent before another
    takes its run over. `max_losses`: workers that one run may wear out. `poll_s`: seconds between two looks at the
    ledger while a build waits; up to five times as many while nothing happens. `ci`: nobody looks on, so that what
    could not be tried counts as a failure.

    `broker`: the address of the Redis that carries hints to workers; None: a build starts its own. `reconcile_s`:
    seconds between two looks for runs without a hint. `silence_s`: seconds that a compile may make no progress.
    `scrub_words`: words that may stay in no name of a model or bundle.
    `visibility_s`: seconds after which Redis delivers a hint again that nobody acknowledged; 0: well above any compile.
    """

    home: Home
    ledger: Path | str
    limits: Limits
    lease_s: float = LEASE_S
    max_losses: int = 3
    poll_s: float = 0.1
    ci: bool = False
    broker: str | None = None
    reconcile_s: float = RECONCILE_S
    silence_s: float = SILENCE_S
    visibility_s: float = 0.0
    scrub_words: tuple[str, ...] = ()

    @property
    def redelivery_s(self) -> float:
        """`visibility_s`, or its default."""
        return self.visibility_s or self.limits.wall_s + 600.0

    @property
    def beat_s(self) -> float:
        """Seconds between two heartbeats: three may be lost before the lease is over."""
        return self.lease_s / 4


def load(environ: Mapping[str, str] | None = None) -> Config:
    """The settings of a process. Raises `FarmError` USAGE for a variable that is not a positive number.

    FARM_HOME (state folder), FARM_LEDGER_URL, FARM_LEASE_S, FARM_CPU_S, FARM_WALL_S (limits of a compile in seconds),
    FARM_MEMORY_MIB (its address space), FARM_SILENCE_S, FARM_RECONCILE_S, FARM_VISIBILITY_S, none of them above 2^40;
    FARM_BROKER_URL; FARM_SCRUB_WORDS, a file with a word a line; and CI, which services of continuous integration set.
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
        broker=given.get("FARM_BROKER_URL") or None,
        reconcile_s=_number(given, "FARM_RECONCILE_S", RECONCILE_S),
        silence_s=_number(given, "FARM_SILENCE_S", SILENCE_S),
        visibility_s=_number(given, "FARM_VISIBILITY_S", 0.0),
        scrub_words=_words(given.get("FARM_SCRUB_WORDS", "")),
    )


def _words(path: str) -> tuple[str, ...]:
    if not path:
        return ()
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as reason:
        advice = "Name a text file with one word a line, or unset FARM_SCRUB_WORDS."
        raise FarmError(Code.USAGE, f"FARM_SCRUB_WORDS is {path!r}", "it cannot be read as text", advice) from reason
    return tuple(line.strip() for line in lines if line.strip())


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
