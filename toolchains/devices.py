"""The catalogue of devices, `devices.toml`: names that people know for the targets. Reading is strict."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from kernelfarm import canonical
from kernelfarm.errors import Code, FarmError
from toolchains import target

PREFIX = "device:"
"""What stands before a device's name where a target is asked for."""
CATALOGUE = Path(__file__).with_name("devices.toml")


@dataclass(frozen=True, slots=True)
class Device:
    """One kind of device: what it is, its processor, the target that it runs, and where these facts are from."""

    SCHEMA: ClassVar[str] = "device/1"

    name: str
    summary: str
    processor: str
    target: str
    source: str
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON object, schema "device/1"."""
        value: dict[str, Any] = canonical.to_json(self)
        return value


@cache
def catalogue() -> dict[str, Device]:
    """All devices by name, sorted. Raises `FarmError` TARGET_INVALID for a faulty file."""
    return read(CATALOGUE)


def read(path: Path) -> dict[str, Device]:
    """The devices in a file; raises `FarmError` TARGET_INVALID naming the entry and the fault."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as reason:
        raise _invalid(path.name, "", f"not TOML: {reason}") from reason
    return {name: _device(path.name, name, data[name]) for name in sorted(data)}


def load(name: str) -> Device:
    """The device `name`; raises `FarmError` DEVICE_UNKNOWN with the nearest names."""
    known = catalogue()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(PREFIX + word for word in near)}?" if near else ""
    raise FarmError(
        Code.DEVICE_UNKNOWN,
        f"unknown device {name!r}",
        next_step=hint
        or f"Write {PREFIX}NAME, such as {PREFIX}{next(iter(known))}: `farm targets --devices` lists them.",
        detail={"device": name, "nearest": near},
    )


def resolve(word: str) -> str:
    """The target's name for "device:NAME"; every other word as it is.

    Raises `FarmError` DEVICE_UNKNOWN, and TARGET_UNKNOWN for a device's name that lacks its prefix.
    """
    if word.startswith(PREFIX):
        return load(word.removeprefix(PREFIX)).target
    near = [] if word in target.names() else difflib.get_close_matches(word.lower(), catalogue(), n=3, cutoff=0.8)
    if near:
        raise FarmError(
            Code.TARGET_UNKNOWN,
            f"unknown target {word!r}",
            f"a device's name is written with {PREFIX!r} before it",
            f"Did you mean {' or '.join(PREFIX + name for name in near)}?",
            {"target": word, "nearest": [PREFIX + name for name in near]},
        )
    return word


def _device(file: str, name: str, entry: Any) -> Device:
    if not isinstance(entry, dict) or {"name", "schema"} & set(entry):
        raise _invalid(file, name, "an entry is a table without name and schema")
    try:
        device = canonical.from_json(Device, {"schema": Device.SCHEMA, "note": "", **entry, "name": name}, name=name)
    except FarmError as reason:
        raise _invalid(file, name, reason.why) from reason
    if device.target not in target.names():
        raise _invalid(file, name, f"there is no target {device.target!r}")
    if not all((device.summary, device.processor, device.source)):
        raise _invalid(file, name, "summary, processor and source must say something")
    return device


def _invalid(file: str, name: str, why: str) -> FarmError:
    what = f"the device catalogue {file} is faulty" + (f" at {name}" if name else "")
    return FarmError(Code.TARGET_INVALID, what, why, "Compare it with the other entries.", {"file": file, "key": name})
