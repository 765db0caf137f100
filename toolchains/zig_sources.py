"""Which files of zig's library are compiled into an object.

zig says so in debug information, which products do not have: asking costs a second compile. The answers for the two
sources that the farm compiles lie in `zig_sources.json`, made by `python -m toolchains.zig_sources`; a test asks again.
A source that is not the recorded one, or of which other functions are kept, is asked about when it is compiled.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from toolchains import reached, zig
from toolchains.machines import MACHINES
from toolchains.process import run_tool

TABLE = Path(__file__).with_name("zig_sources.json")
_SCHEMA = "zig-sources/2"
Kept = frozenset[str] | None
"""Names of the functions of a source that are compiled, with what they lead to; None for all of it."""


def library() -> Path:
    """The folder of zig's library."""
    return zig.zig_root() / "lib"


def of(source: Path, machine: str, kept: Kept = None) -> tuple[Path, ...]:
    """The zig files whose code a compile of `source` for a machine may contain, itself first."""
    entry = _table().get(source.name, {})
    same = entry.get("digest") == digest.of_file(source) and entry.get("zig") == metadata.version("ziglang")
    answers = entry["machines"].get(machine, ()) if same else ()
    recorded = next((answer["files"] for answer in answers if answer["kept"] == _names(kept)), None)
    (found,) = measure(source, machine, [kept]) if recorded is None else [recorded]
    return (source, *(library() / name for name in found))


def measure(source: Path, machine: str, choices: Sequence[Kept] = (None,)) -> list[list[str]]:
    """For each choice the files of zig's library, relative to it, that `source`'s debug information names for it.

    Raises `FarmError` TOOL_FAILED for a file of somebody else that `source` imports: what is recorded of it could not
    tell when that file changes, and no list of sources would name it.
    """
    wanted = MACHINES[machine]
    with tempfile.TemporaryDirectory(prefix="kf-sources-") as made:
        caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), f"{made}/cache")
        argv = [str(zig.zig_path()), "build-obj", "-O", "ReleaseSmall", "-fno-strip", "-fPIC", "-fno-emit-bin"]
        argv += ["-target", wanted.zig, f"-mcpu={wanted.zig_cpu}", str(source.absolute()), "-femit-llvm-ir=out.ll"]
        run_tool(argv, cwd=Path(made), extra_env=caches, what=f"asking for the sources of {source.name}")
        text = Path(made, "out.ll").read_text(encoding="utf-8")
        return [_in_library(source, Path(made), reached.files(text, kept)) for kept in choices]


def _in_library(source: Path, made: Path, found: frozenset[tuple[str, str]]) -> list[str]:
    paths = {Path(made, folder, name).resolve() for name, folder in found} - {source.resolve()}
    real = {path for path in paths if path.is_file() and not path.is_relative_to((made / "cache").resolve())}
    root = library().resolve()
    if strangers := sorted(path.name for path in real if not path.is_relative_to(root)):
        why = f"it imports {strangers[0]}, which is not in zig's library"
        advice = "Put what it needs into the one file: only its own bytes and zig's library are accounted for."
        raise FarmError(Code.TOOL_FAILED, f"the sources of {source.name} cannot be told", why, advice)
    return sorted(path.relative_to(root).as_posix() for path in real)


def measured(sources: Mapping[Path, Mapping[str, Sequence[Kept]]]) -> str:
    """The text of `zig_sources.json` for sources, the machines that each is compiled for and what of it is kept there,
    as zig says now.
    """
    entries = {
        source.name: {
            "digest": digest.of_file(source),
            "machines": {machine: _answers(source, machine, choices) for machine, choices in machines.items()},
            "zig": metadata.version("ziglang"),
        }
        for source, machines in sources.items()
    }
    return json.dumps({"schema": _SCHEMA, "sources": entries}, indent=1, sort_keys=True) + "\n"


def _answers(source: Path, machine: str, choices: Sequence[Kept]) -> list[dict[str, list[str] | None]]:
    pairs = zip(choices, measure(source, machine, choices), strict=True)
    return [{"kept": _names(kept), "files": found} for kept, found in pairs]


def _names(kept: Kept) -> list[str] | None:
    return None if kept is None else sorted(kept)


@cache
def _table() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    entries: Mapping[str, Any] = found["sources"]
    return entries if found["schema"] == _SCHEMA else {}  # of another: all is asked about, also to write it anew


def _main() -> None:
    from toolchains.runtime_build import compiled_zig

    TABLE.write_text(measured(compiled_zig()), encoding="utf-8")


if __name__ == "__main__":
    _main()
