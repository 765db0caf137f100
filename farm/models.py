"""Takes models in: checks the files, scrubs them, finds their external data, puts what is left into the content store.

No model is parsed here. A limited child scrubs a copy in a folder of its own, and says which bytes of external data are
in use; these are copied here. So nothing of a model that is not computation ever reaches the store.
"""

from __future__ import annotations

import json
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from containers import result
from containers.process import environment
from containers.runner import Limits
from kernelc.frontend.scrub import rules
from kernelfarm import canonical, child, digest, files
from kernelfarm.digest import PREFIX, Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Model, ModelFile, Options
from kernelfarm.store import ContentStore

MODEL_LIMIT = (1 << 31) - 1
"""Bytes of a model file: protobuf messages hold no more."""
EXTERNAL_LIMIT = 1 << 36

_FILE = "model.onnx"
_SCRUBBER = (sys.executable, "-I", "-m", "kernelc.frontend.scrub")
_LIMITS = Limits(cpu_s=300, wall_s=600.0, address_space=24 << 30, file_size=MODEL_LIMIT)
_CHUNK = 1 << 20

Scrubber = Callable[[Path], None]
"""Scrubs the model in a folder, as `python -m kernelc.frontend.scrub` does."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """An input or output, `kind` number `index`, whose name held a `why`. `old` stays in this process."""

    kind: str
    index: int
    old: str
    new: str
    why: str

    def to_json(self) -> dict[str, Any]:
        """What may be told: not the old name."""
        return {"kind": self.kind, "index": self.index, "name": self.new, "why": self.why}

    def describe(self) -> str:
        """The same in words."""
        return f"{self.kind} {self.index} is now {self.new}: its name held a {self.why}"


@dataclass(frozen=True, slots=True)
class Taken:
    """A model that was taken in. `model` is what is left after scrubbing; `removed` counts the texts that are gone by
    kind.
    """

    model: Model
    removed: Mapping[str, int]
    renamed: tuple[Renamed, ...] = ()

    def options(self, options: Options) -> Options:
        """The options with shapes under the inputs' new names."""
        new = {item.old: item.new for item in self.renamed if item.kind == "input"}
        return replace(options, shapes=tuple((new.get(name, name), dims) for name, dims in options.shapes))

    def to_json(self) -> dict[str, Any]:
        """What was scrubbed, without a word of it."""
        return {
            "model": self.model.name,
            "before": self.model.before,
            "after": self.model.digest,
            "removed": dict(self.removed),
            "renamed": [item.to_json() for item in self.renamed],
        }


def take_in(
    path: Path,
    name: str,
    store: ContentStore,
    *,
    scratch: Path,
    words: Sequence[str] = (),
    scrubber: Scrubber | None = None,
) -> Taken:
    """The model in a file, scrubbed, its bytes now in the store. `scratch` is a folder for temporary copies.

    `words` may stay in no name. Raises `FarmError`: MODEL_* for a file that is no model, PERMISSION, EXTERNAL_*, USAGE
    for a word that cannot be used, what the child raises, or an error of the store.
    """
    check_file(path)
    with files.coded("a model could not be prepared", scratch), files.temp_folder(scratch) as folder:
        copy = folder / _FILE
        with files.coded(f"the model {str(path)!r} could not be copied", path):
            shutil.copyfile(path, copy)
        check_file(copy)  # what was copied counts, should the file change meanwhile
        before = digest.of_file(copy)  # not later: the child may write here
        (folder / rules.WORDS).write_bytes(canonical.dumps(sorted(set(words))))
        (scrubber or scrub)(folder)
        report = _Report.read(folder / rules.REPORT)
        # Nothing of a model that is refused here reaches the store.
        packed = _pack(path, report.ranges, folder / rules.DATA_FILE)
        data = () if packed is None else (ModelFile(rules.DATA_FILE, store.put_file(packed), packed.stat().st_size),)
        made = folder / rules.RESULT
        model = Model(name, store.put_file(made), made.stat().st_size, data, before)
        return Taken(model, report.removed, report.renamed)


def check_file(path: Path) -> int:
    """Size in bytes of a file that may be a model; raises `FarmError` for anything that cannot be one."""
    shown = repr(str(path))
    try:
        facts = path.stat()
    except FileNotFoundError as reason:
        raise FarmError(
            Code.MODEL_MISSING, f"the model {shown} does not exist", "there is no such file", "Check the path."
        ) from reason
    except OSError as reason:
        raise files.error_of(reason, f"the model {shown} cannot be read", path) from reason
    if not stat.S_ISREG(facts.st_mode):
        kind = "a folder" if stat.S_ISDIR(facts.st_mode) else "a special file"
        raise FarmError(
            Code.MODEL_NOT_A_FILE, f"the model {shown} is {kind}", next_step="Name the model's file itself."
        )
    if facts.st_size == 0:
        raise FarmError(
            Code.MODEL_EMPTY, f"the model {shown} is empty", "the file has no bytes", "Copy the model again."
        )
    if facts.st_size > MODEL_LIMIT:
        why = f"it has {facts.st_size} bytes; an ONNX file holds at most {MODEL_LIMIT}"
        raise FarmError(
            Code.MODEL_TOO_LARGE, f"the model {shown} is too large", why, "Save its weights as external data."
        )
    return facts.st_size


def scrub(folder: Path) -> None:
    """Have a limited child scrub the model in a folder of its own.

    Raises `FarmError` as the child reports it, CHILD_TIMEOUT or CHILD_CRASHED when it could not tell.
    """
    (folder / "tmp").mkdir()
    ended = child.run_limited(
        [*_SCRUBBER, str(folder)],
        env=environment(folder),
        cwd=folder,
        cpu_s=_LIMITS.cpu_s,
        wall_s=_LIMITS.wall_s,
        address_space=_LIMITS.address_space,
        file_size=_LIMITS.file_size,
    )
    if ended.timed_out:
        raise FarmError(Code.CHILD_TIMEOUT, "reading the model took too long", f"more than {_LIMITS.wall_s:g} s")
    if not ended.ok:
        why = f"exit status {ended.status}" if ended.signal is None else f"signal {ended.signal}"
        advice = "Check it with the program that made it."
        raise result.read_error(folder) or FarmError(Code.CHILD_CRASHED, "the model could not be read", why, advice)


@dataclass(frozen=True, slots=True)
class _Range:
    location: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class _Report:
    """What the child said, believed for nothing but what it is about."""

    removed: Mapping[str, int]
    renamed: tuple[Renamed, ...]
    ranges: tuple[_Range, ...]

    @classmethod
    def read(cls, path: Path) -> _Report:
        try:
            data: Any = canonical.loads(path.read_bytes(), name=rules.REPORT)
            report = cls(
                {str(kind): int(count) for kind, count in data["removed"].items()},
                tuple(Renamed(**item) for item in data["renamed"]),
                tuple(_Range(**item) for item in data["ranges"]),
            )
            if any(item.offset < 0 or item.length < 0 for item in report.ranges):
                raise ValueError("a negative place")
        except (FarmError, OSError, KeyError, TypeError, ValueError, AttributeError) as reason:
            raise FarmError(Code.CHILD_CRASHED, "the model could not be read", "its report makes no sense") from reason
        return report


def _pack(model: Path, ranges: Sequence[_Range], target: Path) -> Path | None:
    """Copy the bytes of external data in use into one file; None where the model has none."""
    if not ranges:
        return None
    found = {location: _find_external(model, location) for location in sorted({item.location for item in ranges})}
    with target.open("xb") as out:
        for item in ranges:
            source = found[item.location]
            if item.offset + item.length > source.size:
                why = f"it takes {item.length} bytes at {item.offset} of a file of {source.size}"
                raise FarmError(Code.TENSOR_INVALID, "external data of the model is too short", why, "Export it again.")
            out.write(bytes(rules.aligned(out.tell()) - out.tell()))
            with files.coded("external data could not be read", source.path), source.path.open("rb") as stream:
                stream.seek(item.offset)
                _copy(stream, out, item.length)
    return target


def _copy(stream: BinaryIO, out: BinaryIO, length: int) -> None:
    while length:
        data = stream.read(min(length, _CHUNK))
        if not data:
            raise FarmError(Code.TENSOR_INVALID, "external data of the model changed while it was read")
        out.write(data)
        length -= len(data)


@dataclass(frozen=True, slots=True)
class _External:
    path: Path
    size: int


def _find_external(model: Path, location: str) -> _External:
    shown = json.dumps(location)
    folder = model.parent.resolve()
    name = PurePosixPath(location).as_posix()  # "./weights.bin" is "weights.bin"
    ModelFile(name, Digest(PREFIX + 64 * "0"), 0)  # refuses absolute paths and ".."
    path = folder / name
    try:
        real = path.resolve(strict=True)
        facts = real.stat()
    except (OSError, RuntimeError) as reason:
        raise FarmError(
            Code.EXTERNAL_MISSING,
            f"external data {shown} of the model is missing",
            f"{path} cannot be read",
            "Put it beside the model, under this name.",
            detail={"location": location},
        ) from reason
    if not real.is_relative_to(folder):
        raise _outside(location, "a link leads out of the model's folder")
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > EXTERNAL_LIMIT:
        raise _outside(location, f"it is not a plain file of at most {EXTERNAL_LIMIT} bytes")
    return _External(real, facts.st_size)


def _outside(location: str, why: str) -> FarmError:
    return FarmError(
        Code.EXTERNAL_OUTSIDE,
        f"external data {json.dumps(location)} of the model is refused",
        why,
        "Keep external data as plain files in the model's folder.",
        detail={"location": location},
    )
