"""The object cache: kernels that a later compile of the same model need not compile again.

A compile never writes here. It gets a folder to read, and leaves the objects that it compiled among its results; the
farm takes them over once the child ended well and its result was accepted. Still a hostile model could make a child
report false objects, and no parent can tell without compiling. Hence:

- an entry serves only compiles of a model of the same name, with the same compiler, tools, target and runner;
- `farm build --no-cache` and `farm rebuild` read none: a payload that a false entry changed differs from its rebuild;
- an entry that a fresh compile contradicts is removed, and the run fails with OBJECT_DIFFERS.

No key covers the cache, because an entry that is true changes no byte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from farm.actions import Job
from kernelfarm import canonical, digest, files, objects
from kernelfarm.errors import Code, FarmError
from kernelfarm.objects import Entry
from toolchains import elf
from toolchains.target import Target

LIMIT_BYTES = 1 << 30
"""Of all entries together; the oldest go first."""


@dataclass(frozen=True, slots=True)
class ObjectCache:
    """The entries under the folder `root`, a folder for each scope."""

    root: Path
    limit_bytes: int = LIMIT_BYTES

    def folder(self, job: Job) -> Path:
        """Where the entries for a job lie; made if it is missing. Raises a coded `FarmError` of class ENVIRONMENT."""
        folder = self.root / scope(job)
        with files.coded("the object cache could not be prepared", folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def merge(self, job: Job, reported: Sequence[Path]) -> None:
        """Take over the entries that an accepted compile left.

        Raises `FarmError` STORE_CORRUPT for one that is none, OBJECT_DIFFERS after a removal: see the module.
        """
        folder = self.folder(job)
        machine = Target.from_json(job.target).machine
        contradicted = []
        for path in reported:
            fresh = Entry.read(path)
            if not elf.is_object(fresh.data, machine):
                raise FarmError(Code.STORE_CORRUPT, f"the object {path.name} of a compile is none of {machine}")
            held = _held(folder / path.name, machine)
            if held is not None and held != fresh:
                (folder / path.name).unlink(missing_ok=True)
                contradicted.append(path.name)
            elif held is None:
                _clear(folder / path.name)
                files.atomic_write(folder / path.name, fresh.to_bytes(), mode=0o444)
        if reported:
            self._trim()
        if contradicted:
            raise _differs(job, contradicted)

    def _trim(self) -> None:
        """Remove the oldest entries until the rest fits."""
        entries = []
        for path in self.root.glob("*/*"):
            with contextlib.suppress(OSError):  # another process trims too
                facts = path.stat()
                entries.append((facts.st_mtime_ns, str(path), facts.st_size))
        excess = sum(size for _, _, size in entries) - self.limit_bytes
        for _, oldest, size in sorted(entries):
            if excess <= 0:
                return
            with contextlib.suppress(OSError):
                _clear(Path(oldest))
            excess -= size


def scope(job: Job) -> str:
    """Name of the folder for a job: all that decides an object beside the kernel's text, and the model's name."""
    recipe = job.action.recipe
    parts = {
        "schema": "object-scope/1",
        "model_name": job.model.name,
        "compiler_source": recipe.compiler_source,
        "tools": canonical.to_json(recipe.tools),
        "target_digest": recipe.target_digest,
        "execution": canonical.to_json(job.action.execution),
    }
    return digest.hex_of(canonical.digest_of(parts))


def _held(path: Path, machine: str) -> Entry | None:
    """The entry in the cache; None when it is missing or no object of the machine, which a fresh one mends.

    What a compile does not take (`kernelc.lowering.objects`) counts as missing here, or its replacement would be told
    as a contradiction.
    """
    try:
        found = Entry.read(path)
    except (FarmError, FileNotFoundError):
        return None
    return found if elf.is_object(found.data, machine) else None


def _clear(path: Path) -> None:
    """Remove a file, or a folder that stands where a file should; a link is removed itself."""
    if path.is_dir():
        files.remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def _differs(job: Job, names: Sequence[str]) -> FarmError:
    return FarmError(
        Code.OBJECT_DIFFERS,
        f"{len(names)} cached objects of {job.model.name} for {job.action.target_name} are not what a compile gives",
        f"the first is the kernel with the text sha256:{names[0]}",
        "They were removed. Rebuild the bundles of this model with `farm rebuild`, and report it.",
        {"objects": list(names), "folder": objects.FOLDER},
    )
