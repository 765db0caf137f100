"""The runner `process`: a compile in a limited child process with a clean environment.

It seals nothing off: the child runs as the same user and sees the same disk, so it is for models and a machine that
belong to the same person.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from containers import result, runner
from containers.result import Accepted
from containers.runner import Limits, OnProgress, Tag
from kernelfarm import child, files
from kernelfarm import objects as object_files
from kernelfarm.child import ChildResult
from kernelfarm.nouns import Execution

NAME = "process"
"""Name of this runner; `signing.statement` calls it the security mode."""

_SHELL = "/bin/sh"
_SIGNALLED = 128

COMPILER: tuple[str, ...] = (sys.executable, *runner.MODULE)


@dataclass(frozen=True, slots=True)
class ProcessRunner:
    """The runner. `program` is what runs in place of the compiler, `extra_environment` what it gets beside its own."""

    program: Sequence[str] = COMPILER
    extra_environment: Mapping[str, str] = field(default_factory=dict)
    name: str = NAME
    sealed: bool = False

    def execution(self) -> Execution:
        """What the execution key adds to the recipe: no image, the builder's architecture, this runner."""
        return Execution(image=None, builder_arch=platform.machine(), runner=NAME)

    def with_environment(self, extra: Mapping[str, str]) -> ProcessRunner:
        """The same runner whose compiles get these variables too."""
        return replace(self, extra_environment={**self.extra_environment, **extra})

    def compile_in(
        self,
        scratch: Path,
        *,
        log_path: Path | None = None,
        limits: Limits | None = None,
        on_progress: OnProgress | None = None,
        objects: Path | None = None,
        tag: Tag = Tag(),  # noqa: B008
    ) -> tuple[Accepted, ChildResult]:
        """As `containers.runner.Runner`, by `run_in`."""
        del tag  # the child dies with this process
        ended = self.run_in(scratch, log_path=log_path, limits=limits, on_progress=on_progress, objects=objects)
        return result.accept(scratch / "out"), ended

    def run_in(
        self,
        scratch: Path,
        *,
        log_path: Path | None = None,
        limits: Limits | None = None,
        on_progress: OnProgress | None = None,
        objects: Path | None = None,
    ) -> ChildResult:
        """Run the program over `scratch`/in; what it wrote into `scratch`/out is not looked at.

        Its working folder is `scratch`, its temporary one `scratch`/tmp. It gets the relative paths "in" and "out", the
        same ones every time. Raises as `compile_in` where it fails.
        """
        bounds = limits or Limits()
        out_dir = scratch / "out"
        with files.coded("a compile could not be prepared", scratch):
            out_dir.mkdir(mode=0o755)
            (scratch / "tmp").mkdir(mode=0o755)
            if objects is not None:
                (scratch / "in" / object_files.FOLDER).symlink_to(objects)
        ended = child.run_limited(
            [*self.program, "in", "out"],
            env={**environment(scratch), **self.extra_environment},
            cwd=scratch,
            cpu_s=bounds.cpu_s,
            wall_s=bounds.wall_s,
            address_space=bounds.address_space,
            file_size=bounds.file_size,
            fixed_addresses=True,
            log_path=log_path,
            on_line=runner.line_reader(on_progress),
        )
        if not ended.ok:
            raise runner.failure(ended, out_dir, runner.tail(log_path), bounds)
        return ended

    def shell(self, scratch: Path, words: Sequence[str], limits: Limits) -> int:
        """As `containers.runner.Runner`, with the clean environment of a compile and nothing sealed off."""
        del limits
        with files.coded("a shell could not be prepared", scratch):
            for name in ("out", "tmp"):
                (scratch / name).mkdir()
            done = subprocess.run(words or (_SHELL,), cwd=scratch, env={**environment(scratch), "PATH": os.defpath})
        return done.returncode if done.returncode >= 0 else _SIGNALLED - done.returncode

    def sweep(self) -> int:
        """Nothing outlives its worker here."""
        return 0


def environment(scratch: Path) -> dict[str, str]:
    """The whole environment of a compile child; its home and temporary folder is `scratch`/tmp."""
    return clean_environment(str(scratch / "tmp"))


def clean_environment(temporary: str) -> dict[str, str]:
    """The environment of a compile with this home and temporary folder."""
    return {
        "HOME": temporary,
        "LC_ALL": "C",
        "MKL_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": "0",
        "TMPDIR": temporary,
        "TZ": "UTC",
    }
