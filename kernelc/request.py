"""What a compile child is asked for: the file request.json beside the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError
from toolchains.target import Target

NAME = "request.json"
SCHEMA = "compile-request/1"
MAX_JOBS = 256


@dataclass(frozen=True, slots=True)
class Request:
    """`model` is a file name in the input folder, `shapes` binds open input sizes by name; `jobs` decides no byte.

    `rules` is the name of a file of a user's fusion rules in canonical form; None: the farm's own alone.
    """

    model: str
    model_name: str
    shapes: Mapping[str, tuple[int, ...]]
    target: Target
    jobs: int
    rules: str | None = None


def read(in_dir: Path) -> Request:
    """The request in `in_dir`; raises `FarmError` SCHEMA_MISMATCH, or as `Target.from_json` and the file system."""
    path = in_dir / NAME
    with files.coded("the compile request could not be read", path):
        data = canonical.loads(path.read_bytes(), strict=True, name=NAME)
    fields = {"schema", "model", "model_name", "shapes", "target", "jobs", "rules"}
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or set(data) != fields:
        raise _mismatch(f"it must be an object of schema {SCHEMA} with {', '.join(sorted(fields))}")
    model, name, jobs, rules = data["model"], data["model_name"], data["jobs"], data["rules"]
    if not (_is_file_name(model) and isinstance(name, str) and (rules is None or _is_file_name(rules))):
        raise _mismatch("model and rules must be file names and model_name a string")
    if type(jobs) is not int or not 1 <= jobs <= MAX_JOBS:
        raise _mismatch(f"jobs must be a number from 1 to {MAX_JOBS}")
    return Request(model, name, _shapes(data["shapes"]), Target.from_json(data["target"]), jobs, rules)


def _is_file_name(value: Any) -> bool:
    return isinstance(value, str) and Path(value).name == value


def _shapes(data: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(data, dict):
        raise _mismatch("shapes must be an object")
    for sizes in data.values():
        if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
            raise _mismatch("a shape must be a list of sizes")
    return {name: tuple(sizes) for name, sizes in sorted(data.items())}


def _mismatch(why: str) -> FarmError:
    return FarmError(Code.SCHEMA_MISMATCH, "the compile request does not match its schema", why)
