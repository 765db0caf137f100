"""Which runner compiles: the one that was asked for, or the best that is ready; and the one that an action names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from containers import bubblewrap, process
from containers.bubblewrap import BubblewrapRunner
from containers.process import ProcessRunner
from containers.runner import DOCKER, Runner
from containers.sealed import Image
from kernelfarm import files
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Execution
from kernelfarm.paths import Home
from toolchains.tools import Tool

NAMES = (DOCKER, bubblewrap.NAME, process.NAME)
"""The runners, best first."""
AUTOMATIC = "auto"
VARIABLE = "FARM_RUNNER"
ALIASES: Mapping[str, str] = {"bwrap": bubblewrap.NAME}


@dataclass(frozen=True, slots=True)
class Choice:
    """A runner, and why each better one was passed over: name -> reason."""

    runner: Runner
    passed: Mapping[str, str]

    def describe(self) -> str:
        """A line for people."""
        kind = "sealed" if self.runner.sealed else "not sealed off"
        reasons = "".join(f"; no {name}: {why}" for name, why in self.passed.items())
        return f"runner {self.runner.name} ({kind}{reasons})"


def choose(home: Home, wanted: str | None = None, environ: Mapping[str, str] | None = None) -> Choice:
    """The runner `wanted`, else the one that FARM_RUNNER names, else the best that is ready; no image is built for it.

    Raises `FarmError` USAGE for an unknown name, IMAGE_MISSING or RUNNER_UNAVAILABLE when the named one is not ready.
    """
    given = os.environ if environ is None else environ
    name = wanted or given.get(VARIABLE) or AUTOMATIC
    name = ALIASES.get(name, name)
    if name != AUTOMATIC:
        found = named(home, name)
        require_ready(found, home)
        return Choice(found, {})
    passed: dict[str, str] = {}
    for candidate in NAMES[:-1]:
        try:
            found = named(home, candidate)
            require_ready(found, home)
        except FarmError as reason:
            passed[candidate] = reason.why or reason.what
            continue
        return Choice(found, passed)
    return Choice(ProcessRunner(), passed)


def named(home: Home, name: str) -> Runner:
    """The runner of this name over the image that is built; raises `FarmError` USAGE or IMAGE_MISSING."""
    if name == process.NAME:
        return ProcessRunner()
    if name not in NAMES:
        why = f"the runners are {', '.join(NAMES)}"
        raise FarmError(Code.USAGE, f"there is no runner {name!r}", why, f"Choose one of them, or unset {VARIABLE}.")
    from containers import image  # here: a build in a bare process needs neither image nor Docker
    from containers.image import code

    built = image.find(home)
    if built is None:
        raise FarmError(
            Code.IMAGE_MISSING,
            f"the runner {name} needs the pinned image",
            "it is not built",
            "Build it once with `farm image build`, or use --runner process.",
        )
    sources = code.unpacked(home).folder
    if name == DOCKER:
        from containers.docker import DockerRunner

        return DockerRunner(built, sources, home.root)
    return BubblewrapRunner(built, sources)


def of(home: Home, execution: Execution) -> Runner:
    """The runner that an action's execution names, over exactly its image; raises as `named`, or RUNNER_UNAVAILABLE."""
    found = named(home, execution.runner)
    here = found.execution()
    if here != execution:
        raise FarmError(
            Code.RUNNER_UNAVAILABLE,
            f"this machine cannot run the action as {execution.runner}",
            f"it would run in {here.image or 'no image'} on {here.builder_arch}, the action is for "
            f"{execution.image or 'no image'} on {execution.builder_arch}",
            "Use workers of one version of the farm and one architecture.",
        )
    return found


def tools_of(home: Home, execution: Execution | None) -> Mapping[str, Tool] | None:
    """The tools that decide what an execution gives: those of its image; None for those of this installation."""
    if execution is None or execution.image is None:
        return None
    from containers import image

    found = image.find(home)
    return None if found is None else found.tools()


def require_ready(found: Runner, home: Home) -> None:
    """Raise `FarmError` RUNNER_UNAVAILABLE when a runner cannot run a compile now."""
    if found.name == DOCKER:
        from containers import docker

        docker.version()
    elif isinstance(found, BubblewrapRunner):
        home.create()
        with files.coded("a sandbox could not be tried", home.cache), files.temp_folder(home.cache) as scratch:
            bubblewrap.require_ready(found, scratch)


def sweep(home: Home) -> int:
    """Remove what compiles left whose worker is gone; how much that was. Safe at any moment."""
    if not (home.root / "image").is_dir():  # only a farm with an image makes containers
        return 0
    from containers import docker

    return docker.sweep(home.root)


def unload(image: Image) -> bool:
    """Take an image that no compile needs any more out of Docker Engine, if one has it; whether one had."""
    from containers import docker

    return docker.unload(image.docker_id)
