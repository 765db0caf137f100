"""How people name builds and runs: b7 and r12."""

from __future__ import annotations

import re

from kernelfarm.errors import Code, FarmError

_ID = re.compile(r"([br])([1-9][0-9]{0,17})", re.ASCII)


def parse(text: str) -> tuple[str, int]:
    """("b", 7) or ("r", 12); raises `FarmError` RUN_UNKNOWN for anything else."""
    found = _ID.fullmatch(text)
    if found is None:
        raise FarmError(
            Code.RUN_UNKNOWN,
            f"{text!r} is not the name of a build or a run",
            "a build is named like b7, a run like r12",
            "`farm status` lists the latest ones.",
        )
    return found[1], int(found[2])
