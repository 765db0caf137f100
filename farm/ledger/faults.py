"""The errors of runs: one that is not there, one that was given up, one that gave other bytes than before."""

from __future__ import annotations

import json

from farm.ledger.nouns import RunRow
from farm.ledger.rules import RunStatus
from kernelfarm.errors import Code, FarmError

_ADVICE = "`farm status` lists the latest builds and runs."


def unknown_run(number: int) -> FarmError:
    """The error of a run that is not in the ledger."""
    return FarmError(Code.RUN_UNKNOWN, f"there is no run r{number}", "the ledger does not hold it", _ADVICE)


def unknown_build(number: int) -> FarmError:
    """The error of a build that is not in the ledger."""
    return FarmError(Code.RUN_UNKNOWN, f"there is no build b{number}", "the ledger does not hold it", _ADVICE)


def exhausted(run: RunStatus) -> FarmError:
    """The error of a run that wore out all that may work on it."""
    return FarmError(
        Code.ATTEMPTS_EXHAUSTED,
        f"run r{run.id} was given up",
        f"its worker, or what it ran on, was lost {run.losses} times",
        f"See `farm logs r{run.id}`; check the machine's memory with `farm doctor`.",
    )


def differs(row: RunRow, known: str, found: str) -> FarmError:
    """The error of a run whose payload (canonical JSON) is not the one that the cache knows."""
    return FarmError(
        Code.PAYLOAD_DIFFERS,
        f"run r{row.id} gave other bytes than an earlier run of the same action",
        "a compile must give the same bytes every time",
        "Keep both payloads and report it; `farm rebuild` shows where they differ.",
        detail={"execution_key": row.execution_key, "known": json.loads(known), "found": json.loads(found)},
    )
