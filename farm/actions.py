"""From what was asked to actions with their keys.

The recipe key covers everything that may decide a payload's bytes, the execution key adds how it is run. The number of
cores, the place of files, the time and the host are in neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from containers.process import ProcessRunner
from farm import pinned
from kernelfarm import canonical, device, digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Action, Execution, Model, Options, RecipeInputs, TargetRef, ToolIdentity
from sbom import making
from toolchains import runtime_build, tools
from toolchains.target import Target
from toolchains.tools import Tool

COMPILER_ROOMS = ("kernelc", "kernelfarm", "toolchains")
"""What a compile child may import: the sources that decide its output."""
_NO_SOURCE = {("toolchains", "targets"), ("toolchains", "devices.toml")}
"""Files of these rooms that are no source: a target has a digest of its own in its recipes, a device is but a name."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """What all cells of a build have in common: sources, tools, versions of the two interfaces, how it is run."""

    compiler_source: Digest
    runtime_source: Digest
    tools: tuple[ToolIdentity, ...]
    ir_version: str
    abi_version: int
    execution: Execution
    sbom_source: Digest | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """All that a worker needs to run an action: its bytes lie in the content store. `target` is the target's JSON."""

    SCHEMA: ClassVar[str] = "job/1"
    model: Model
    target: Any
    action: Action

    @property
    def inputs(self) -> tuple[tuple[Digest, int], ...]:
        """Digest and size of every blob that the compile needs."""
        blobs = (self.model, *self.model.external, self.action.recipe.options.rules)
        return tuple((blob.digest, blob.size) for blob in blobs if blob is not None)


def toolbox(execution: Execution | None = None, identities: Mapping[str, Tool] | None = None) -> Toolbox:
    """The toolbox of this installation, for a runner's `execution`, by default that of a bare process.

    `identities` defaults to `toolchains.tools.tool_identities()`.

    Raises `FarmError` TOOL_MISSING, TOOL_CHANGED or PINS_INVALID.
    """
    found = tools.tool_identities() if identities is None else identities
    return Toolbox(
        compiler_source=compiler_source({name: room(name) for name in COMPILER_ROOMS}),
        runtime_source=runtime_build.source_digest(),
        tools=identities_of(found),
        ir_version=device.IR_VERSION,
        abi_version=device.ABI_VERSION,
        execution=execution or ProcessRunner().execution(),
        sbom_source=sbom_source(),
    )


def identities_of(found: Mapping[str, Tool]) -> tuple[ToolIdentity, ...]:
    """The tools as a recipe names them, sorted."""
    return tuple(ToolIdentity(name, tool.version, tool.digest) for name, tool in sorted(found.items()))


def require_current(job: Job) -> None:
    """Raise `FarmError` SOURCES_CHANGED unless the sources here are those that the job's keys name.

    An edit between the keys and the end of a compile would put other bytes under these keys.
    """
    recipe = job.action.recipe
    compiler = compiler_source({name: room(name) for name in COMPILER_ROOMS})
    now = (compiler, runtime_build.source_digest(), sbom_source())
    if now != (recipe.compiler_source, recipe.runtime_source, recipe.sbom_source):
        raise FarmError(
            Code.SOURCES_CHANGED,
            "the farm's own sources changed while it compiled",
            "the result does not belong to the keys of this run",
            "Run the build again.",
        )


def sbom_source() -> Digest:
    """Digest of what writes the bill of materials: its room, its libraries, and the image's lock that it lists."""
    return making.source_digest(pinned.lock())


def compiler_source(rooms: Mapping[str, Path]) -> Digest:
    """One digest over the compiler's rooms, without `_NO_SOURCE`."""
    parts = {}
    for name, folder in sorted(rooms.items()):
        entries = [entry for entry in sorted(folder.iterdir()) if (name, entry.name) not in _NO_SOURCE]
        patterns = [f"{entry.name}/**/*" if entry.is_dir() else entry.name for entry in entries]
        parts[name] = digest.of_tree(folder, patterns)
    return canonical.digest_of(parts)


def room(name: str) -> Path:
    """The folder of a package, without importing it."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise FarmError(Code.MACHINE_LACKS, f"the package {name} is not installed", next_step="Run `make setup` again.")
    return Path(next(iter(spec.submodule_search_locations)))


def job_of(model: Model, target: Target, options: Options, box: Toolbox) -> Job:
    """The job of one cell. Pure: the same arguments give the same keys on every machine."""
    recipe = RecipeInputs(
        model_digest=model.identity,
        target_digest=target.digest,
        options=options,
        compiler_source=box.compiler_source,
        runtime_source=box.runtime_source,
        tools=box.tools,
        ir_version=box.ir_version,
        abi_version=box.abi_version,
        sbom_source=box.sbom_source,
    )
    return Job(model, target.to_json(), Action.of(model, TargetRef(target.name, target.digest), recipe, box.execution))
