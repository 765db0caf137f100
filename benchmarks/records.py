"""What a run of `make bench` measured, and its JSON, "bench-run/1"."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import Measured, Side
from kernelfarm import files
from kernelfarm.errors import Code, FarmError

SCHEMA = "bench-run/1"


@dataclass(frozen=True, slots=True)
class GroupTime:
    """A group of ours, or all of a kind: its time and what onnxruntime's nodes for the same take (None: unknown)."""

    name: str
    kind: str
    shape: str
    ours_us: float
    peer_us: float | None
    gflops: float


@dataclass(slots=True)
class Entry:
    """One model: its figures, or the error why there are none."""

    model: str
    shape: str
    payload: str = ""
    figures: Measured | None = None
    groups: list[GroupTime] = field(default_factory=list)
    error: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Record:
    """One run."""

    target: str
    threads: int
    rounds: int
    models: list[Entry] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write it whole."""
        document = {
            "schema": SCHEMA,
            **dataclasses.asdict(self),
            "machine": {"architecture": platform.machine(), "cores": len(os.sched_getaffinity(0))},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        files.atomic_write(path, json.dumps(document, indent=1, sort_keys=True).encode())


def read(path: Path) -> Record:
    """A record that `write` wrote; raises `FarmError` FILE_MISSING or USAGE."""
    advice = "Make one with `make bench`."
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError as reason:
        raise FarmError(Code.FILE_MISSING, f"there is no {path}", next_step=advice) from reason
    except ValueError as reason:
        raise FarmError(Code.USAGE, f"{path} is no record of a benchmark", str(reason), advice) from reason
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise FarmError(Code.USAGE, f"{path} is no record of a benchmark", f"its schema is not {SCHEMA}", advice)
    entries = [_entry(item) for item in document["models"]]
    return Record(document["target"], document["threads"], document["rounds"], entries)


def _entry(item: Mapping[str, Any]) -> Entry:
    found = item["figures"]
    figures = None
    if found is not None:
        sides = {name: Side(**side) for name, side in found["sides"].items()}
        figures = Measured(
            found["model"], tuple(found["cores"]), found["flop"], found["peak_gflops"], tuple(found["loads"]), sides
        )
    groups = [GroupTime(**group) for group in item["groups"]]
    return Entry(item["model"], item["shape"], item["payload"], figures, groups, item["error"])
