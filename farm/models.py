"""Takes models in: checks the files, finds their external data, puts all bytes into the content store.

No model is parsed here. A limited child lists the external data of a copy in a folder of its own.
"""

from __future__ import annotations

import json
import mmap
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from containers.process import environment
from containers.runner import Limits
from kernelfarm import canonical, child, files
from kernelfarm.digest import PREFIX, Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Model, ModelFile
from kernelfarm.store import ContentStore

MODEL_LIMIT = (1 << 31) - 1
"""Bytes of a model file: protobuf messages hold no more."""
EXTERNAL_LIMIT = 1 << 36
EXTERNAL_COUNT_LIMIT = 10_000

_LISTER = (sys.executable, "-I", "-m", "kernelc.frontend.external")
_LIST_LIMITS = Limits(cpu_s=60, wall_s=120.0, address_space=16 << 30, file_size=1 << 20)

Lister = Callable[[Path], tuple[str, ...]]


def take_in(path: Path, name: str, store: ContentStore, *, scratch: Path, lister: Lister | None = None) -> Model:
    """The model in a file, its bytes now in the store. `scratch` is a folder for temporary copies.

    Raises `FarmError`: MODEL_* for a file that cannot be a model, PERMISSION, EXTERNAL_*, what the lister raises, or
    an error of the store.
    """
    check_file(path)
    with files.coded("a model could not be prepared", scratch), files.temp_folder(scratch) as folder:
        copy = folder / "model.onnx"
        with files.coded(f"the model {str(path)!r} could not be copied", path):
            shutil.copyfile(path, copy)
        size = check_file(copy)  # what was copied counts, should the file change meanwhile
        names = (lister or list_external)(copy) if _may_have_external(copy, size) else ()
        found = {item.name: item for item in (_find_external(path, location) for location in names)}
        # Nothing of a model that is refused here reaches the store.
        external = tuple(ModelFile(item.name, store.put_file(item.path), item.size) for item in found.values())
        return Model(name, store.put_file(copy), size, external)


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


def list_external(model: Path) -> tuple[str, ...]:
    """Where the model says that its external data lies, asked of a limited child; `model` is alone in its folder.

    Raises `FarmError` CHILD_TIMEOUT or CHILD_CRASHED when the child could not tell.
    """
    answer = _Answer()
    (model.parent / "tmp").mkdir()
    ended = child.run_limited(
        [*_LISTER, str(model)],
        env=environment(model.parent),
        cwd=model.parent,
        cpu_s=_LIST_LIMITS.cpu_s,
        wall_s=_LIST_LIMITS.wall_s,
        address_space=_LIST_LIMITS.address_space,
        file_size=_LIST_LIMITS.file_size,
        on_line=answer.feed,
    )
    if ended.timed_out:
        raise FarmError(Code.CHILD_TIMEOUT, "reading the model took too long", f"more than {_LIST_LIMITS.wall_s:g} s")
    if not ended.ok or answer.count != len(answer.names):
        why = f"exit status {ended.status}" if ended.signal is None else f"signal {ended.signal}"
        raise FarmError(
            Code.CHILD_CRASHED, "the model could not be read", why, "Check it with the program that made it."
        )
    return tuple(answer.names)


class _Answer:
    """What the child lists: a JSON string per location, then {"external": how many}. Keeps at most a limit of them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.count = -1

    def feed(self, line: str) -> None:
        try:
            value: Any = canonical.loads(line.encode(), name="the list of external data")
        except FarmError:
            return
        if isinstance(value, str) and len(self.names) < EXTERNAL_COUNT_LIMIT:
            self.names.append(value)
        elif isinstance(value, dict):
            self.count = value.get("external", -1)


def _may_have_external(path: Path, size: int) -> bool:
    """False only for a model without external data: an entry of it holds the key "location" as plain bytes.

    (onnx.proto3, TensorProto.external_data.) Saves most models a child process.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as data:
        return data.find(b"location") >= 0


@dataclass(frozen=True, slots=True)
class _External:
    name: str
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
    return _External(name, real, facts.st_size)


def _outside(location: str, why: str) -> FarmError:
    return FarmError(
        Code.EXTERNAL_OUTSIDE,
        f"external data {json.dumps(location)} of the model is refused",
        why,
        "Keep external data as plain files in the model's folder.",
        detail={"location": location},
    )
