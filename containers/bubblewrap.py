"""The runner `bubblewrap`: a compile in namespaces of its own, without a service and without privileges.

bubblewrap has no control groups: limits per process are `setrlimit`'s, the number of processes is bounded inside the
sandbox's user namespace, and what all of them have resident, with what they wrote, is looked at four times a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from containers import _stage, result, runner, sealed
from containers.result import Accepted
from containers.runner import Limits, OnProgress, Tag
from containers.sealed import Image
from kernelfarm import child
from kernelfarm.child import ChildResult
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Execution

NAME = "bubblewrap"
PROGRAM = "bwrap"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROBE_S = 20.0


@dataclass(frozen=True, slots=True)
class BubblewrapRunner:
    """The runner over an image's unpacked root; `code` is the folder of our own sources.

    `program` runs in place of the compiler, `extra_environment` is what it gets beside its own.
    """

    image: Image
    code: Path
    program: Sequence[str] = ()
    extra_environment: Mapping[str, str] = field(default_factory=dict)
    name: str = NAME
    sealed: bool = True

    def execution(self) -> Execution:
        """What the execution key adds to the recipe."""
        return sealed.execution(NAME, self.image)

    def with_environment(self, extra: Mapping[str, str]) -> BubblewrapRunner:
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
        """As `containers.runner.Runner`."""
        del tag  # the sandbox dies with this process
        bounds = limits or Limits()
        out_dir = sealed.prepare(scratch, objects)
        lines = sealed.Lines(on_progress)

        def on_look(launcher: int) -> None:
            runner.require_output(out_dir, bounds)
            require_memory(launcher, bounds)

        with sealed.holding(NAME, self.image, self.code):
            raw = child.run_limited(
                self.sandbox(scratch, bounds, objects=objects),
                env={},
                cwd=Path("/"),
                cpu_s=bounds.cpu_s,
                wall_s=bounds.wall_s,
                address_space=bounds.address_space,
                file_size=bounds.file_size,
                log_path=log_path,
                on_line=lines,
                on_look=on_look,
                look_s=runner.LOOK_S,
            )
        ended = (
            raw
            if raw.status is None
            else sealed.ended(raw.status, timed_out=raw.timed_out, max_rss_bytes=lines.peak or raw.max_rss_bytes)
        )
        if not ended.ok:
            raise runner.failure(ended, out_dir, runner.tail(log_path), bounds)
        return result.accept(out_dir), ended

    def shell(self, scratch: Path, words: Sequence[str], limits: Limits) -> int:
        """As `containers.runner.Runner`."""
        sealed.prepare(scratch, None)
        program = sealed.shell(self.image, words)
        with sealed.holding(NAME, self.image, self.code):
            argv = self.sandbox(scratch, limits, program=program, on_terminal=True)
            return subprocess.run(argv, env={}, check=False).returncode

    def sandbox(
        self,
        scratch: Path,
        limits: Limits,
        *,
        objects: Path | None = None,
        program: Sequence[str] | None = None,
        on_terminal: bool = False,
    ) -> list[str]:
        """The command that runs the program in a sandbox around `scratch`/in and `scratch`/out.

        `on_terminal` leaves it the terminal, to which the filter of system calls lets it send no keystrokes.

        Raises `FarmError` RUNNER_UNAVAILABLE without bubblewrap.
        """
        binds = {
            "root": (self.image.rootfs, "/", "--ro-bind"),
            "in": (scratch / "in", sealed.IN, "--ro-bind"),
            "out": (scratch / "out", sealed.OUT, "--bind"),
            "code": (self.code, sealed.CODE, "--ro-bind"),
        }
        if objects is not None:
            binds["objects"] = (objects, sealed.OBJECTS, "--ro-bind")
        staged = os.geteuid() == 0
        words = [_program(), *_WALLS, *(() if on_terminal else ("--new-session",))]
        for name, value in sorted(sealed.environment(self.extra_environment).items()):
            words += ["--setenv", name, value]
        for name, (source, place, how) in binds.items():
            words += [how, f"{_stage.PLACE}/{name}" if staged else os.fspath(source), place]
            if name == "root":
                words += _own_mounts(limits)
        inner = program or self.program or sealed.compiler(self.image)
        resources = {"RLIMIT_NPROC": limits.processes}
        if on_terminal:  # no launcher stands before it that would set them
            resources |= {"RLIMIT_AS": limits.address_space, "RLIMIT_FSIZE": limits.file_size}
        words += ["--", *sealed.command(self.image, inner, limits, resources=resources, report=not on_terminal)]
        if not staged:
            return words
        shown = {name: os.fspath(source) for name, (source, _place, _how) in binds.items()}
        spec = {"argv": words, "user": sealed.USER, "binds": shown}
        return [sys.executable, "-I", "-S", str(Path(_stage.__file__)), json.dumps(spec, sort_keys=True)]

    def sweep(self) -> int:
        """Nothing outlives its worker here: the kernel ends the sandbox with it."""
        return 0


_WALLS = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--as-pid-1"),
    *("--uid", str(sealed.USER), "--gid", str(sealed.USER), "--hostname", sealed.HOST_NAME),
    *("--cap-drop", "ALL", "--clearenv", "--chdir", "/"),
)


def _own_mounts(limits: Limits) -> list[str]:
    """/dev is a tmpfs without a limit of its own, so nothing may be written there.

    Nor may /dev/zero be there: mapped as shared, it is memory that no process shows (`containers.seccomp`).
    """
    words = ["--proc", "/proc", "--dev", "/dev", "--dev-bind", "/dev/null", "/dev/zero", "--remount-ro", "/dev"]
    return [*words, "--perms", "1777", "--size", str(limits.temporary), "--tmpfs", sealed.TEMPORARY]


def _program() -> str:
    found = shutil.which(PROGRAM)
    if found is None:
        raise unavailable(f"{PROGRAM} is not installed", "Install the package bubblewrap, or use another --runner.")
    return found


def version() -> str:
    """What bubblewrap calls itself; raises `FarmError` RUNNER_UNAVAILABLE without it."""
    done = subprocess.run([_program(), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "bubblewrap of unknown version"


def require_ready(sandbox: BubblewrapRunner, scratch: Path) -> None:
    """Start the sandbox once around an empty program; raises `FarmError` RUNNER_UNAVAILABLE with what it said.

    `scratch` is an empty folder.
    """
    (scratch / "in").mkdir()
    sealed.prepare(scratch, None)
    log = scratch / "log"
    argv = sandbox.sandbox(scratch, Limits(wall_s=_PROBE_S), program=(sandbox.image.python, "-I", "-S", "-c", ""))
    ended = child.run_limited(argv, env={}, cwd=Path("/"), wall_s=_PROBE_S, log_path=log)
    if not ended.ok:
        said = runner.tail(log).strip().splitlines()
        why = said[-1] if said else f"it ended with status {ended.status}"
        raise unavailable(why, "Allow unprivileged user namespaces, or use another --runner.")


def unavailable(why: str, advice: str) -> FarmError:
    """The error RUNNER_UNAVAILABLE of this runner."""
    return FarmError(Code.RUNNER_UNAVAILABLE, "bubblewrap cannot run compiles here", why, advice, {"runner": NAME})


def require_memory(launcher: int, limits: Limits) -> None:
    """Raise CHILD_MEMORY when the descendants of a process have more resident than `limits.address_space` together."""
    found = list(_descendants(launcher))
    if sum(_resident(pid) for pid in found) <= limits.address_space:  # counts shared pages once for each: cheap
        return
    total = sum(_share(pid) for pid in found)
    if total > limits.address_space:
        why = f"its processes had {total >> 20} MiB resident, more than {limits.address_space >> 20} MiB"
        raise runner.limit(Code.CHILD_MEMORY, why)


def _descendants(process: int) -> Iterator[int]:
    waiting = [process]
    while waiting:
        for task in _names(Path(f"/proc/{waiting.pop()}/task")):
            with contextlib.suppress(OSError):
                for word in (task / "children").read_text().split():
                    waiting.append(int(word))
                    yield int(word)


def _names(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # it ended meanwhile
        return []


def _share(process: int) -> int:
    """Bytes resident, a page that N processes share counted as an Nth."""
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except (OSError, IndexError):
        pass
    return _resident(process)


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
