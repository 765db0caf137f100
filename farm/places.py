"""Names what lies at an offset of a payload's file: a part of the linked kernels, a function, a field of a document."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm.differences import Locate
from farm.payload import KERNELS
from kernelfarm import canonical
from kernelfarm.errors import FarmError
from kernelfarm.oci_bundle import CONFIG
from toolchains import elf, gate

_PARTS = {"r-x": "code", "r--": "read-only data", "rw-": "relocated data"}


def of_payload(folder: Path) -> Locate:
    """The `Locate` for the payload in `folder`, whose config.json names the functions of its kernels."""
    names = _functions(folder / CONFIG)

    def locate(path: Path, offset: int) -> str:
        return _in_kernels(path, offset, names) if path.name == KERNELS else ""

    return locate


def _functions(config: Path) -> Mapping[int, str]:
    try:
        document: Any = canonical.loads(config.read_bytes(), name=CONFIG)
        return {gate.fnv1a(group["symbol"]): str(group["symbol"]) for group in document["groups"]}
    except (OSError, FarmError, KeyError, TypeError, AttributeError):
        return {}


def _in_kernels(path: Path, offset: int, names: Mapping[int, str]) -> str:
    try:
        found = elf.read(path)
    except FarmError:
        return ""
    for segment in found.segments:
        if not segment.offset <= offset < segment.offset + segment.file_size:
            continue
        address = segment.address + offset - segment.offset
        before = [entry for entry in found.entries if entry.address <= address]
        part = _PARTS.get(segment.access, segment.access)
        if segment.access != "r-x" or not before:
            return f"{part}, address {address:#x}"
        nearest = max(before, key=lambda entry: entry.address)
        name = names.get(nearest.name_hash, f"function {nearest.name_hash:016x}")
        return f"{part}, {name}+{address - nearest.address:#x}"
    return "outside every segment"
