"""What both sandboxes show a compile: the image's root read-only, /in and /farm/code read-only, /out, a small /tmp.

Paths are the same in every sandbox, so that nothing of the host can reach an output.
"""

from __future__ import annotations

import base64
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from containers import _inside, process, runner, seccomp
from containers.runner import Limits, OnProgress
from kernelfarm import canonical, files
from kernelfarm import objects as object_files
from kernelfarm.child import ChildResult
from kernelfarm.digest import Digest
from kernelfarm.errors import Code as ErrorCode
from kernelfarm.errors import FarmError
from kernelfarm.nouns import Execution

USER = 65534
"""User and group of a compile ("nobody"), where the farm's own user is root."""
HOST_NAME = "builder"
CODE = "/farm/code"
"""Where a sandbox sees the farm's own code, and Python finds it (PYTHONPATH)."""
BYTECODE = f"{CODE}/.bytecode"
"""Where it finds the byte code (PYTHONPYCACHEPREFIX)."""
IN, OUT, TEMPORARY = "/in", "/out", "/tmp"
OBJECTS = f"{IN}/{object_files.FOLDER}"
_BYTECODE = {"PYTHONPYCACHEPREFIX": BYTECODE, "PYTHONDONTWRITEBYTECODE": "1"}
"""Byte code is read where it was made with the image; nothing could be written there."""
_BEYOND_S = 30
"""Seconds that the clock inside a sandbox runs longer than the runner's."""
_OPEN_FILES = 4096
_SHELL = "/bin/sh"


class Image(Protocol):
    """What a runner needs of the pinned image: identity, Docker's archive, unpacked root, the Python inside."""

    @property
    def digest(self) -> Digest: ...
    @property
    def docker_id(self) -> str: ...
    @property
    def archive(self) -> Path: ...
    @property
    def rootfs(self) -> Path: ...
    @property
    def python(self) -> str: ...


def execution(name: str, image: Image) -> Execution:
    """What the execution key adds to the recipe."""
    return Execution(image=image.digest, builder_arch=platform.machine(), runner=name)


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The whole environment inside."""
    return {**process.clean_environment(TEMPORARY), "PYTHONPATH": CODE, **_BYTECODE, **extra}


@contextmanager
def holding(runner_name: str, image: Image, code: Path) -> Iterator[None]:
    """Keep an image and the farm's own code where they are while a sandbox shows them: `farm gc` and
    `farm image build --again` leave them alone. Raises `FarmError` RUNNER_UNAVAILABLE when one is not there any more.
    """
    with ExitStack() as held:
        try:
            held.enter_context(files.using(image.rootfs.parent, code))
        except OSError as reason:
            raise FarmError(
                ErrorCode.RUNNER_UNAVAILABLE,
                "the image, or the farm's code for it, was removed",
                str(reason),
                "Run the command again.",
                {"runner": runner_name},
            ) from reason
        yield


def prepare(scratch: Path, objects: Path | None) -> Path:
    """The output folder, made for the user that a compile gets, and the mount point of its objects."""
    out_dir = scratch / "out"
    with files.coded("a compile could not be prepared", scratch):
        out_dir.mkdir(mode=0o755)
        if os.geteuid() == 0:
            os.chown(out_dir, USER, USER)
        if objects is not None:
            (scratch / "in" / object_files.FOLDER).mkdir()
    return out_dir


def compiler(image: Image) -> tuple[str, ...]:
    """The compiler's program inside, with its arguments."""
    return (image.python, *runner.MODULE, "in", "out")


def shell(image: Image, words: Sequence[str]) -> tuple[str, ...]:
    """A person's program inside: their words, else the image's shell, else its Python."""
    has_shell = (image.rootfs / _SHELL.lstrip("/")).is_file()
    return tuple(words) or ((_SHELL,) if has_shell else (image.python, "-I"))


def command(
    image: Image,
    program: Sequence[str],
    limits: Limits,
    *,
    resources: Mapping[str, int],
    silence_s: float = 0.0,
    report: bool = True,
) -> list[str]:
    """What the sandbox starts: `_inside.py`, which starts `program`. `resources` are limits to be set inside.

    With `silence_s` standard input must say something within every such span of seconds; `report` adds the line that
    `peak_of` reads.
    """
    spec = {
        "argv": list(program),
        "limits": {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": _OPEN_FILES, **resources},
        "filter": base64.b64encode(seccomp.program()).decode(),
        "report": report,
        "silence_s": silence_s,
        "wall_s": limits.wall_s + _BEYOND_S,
    }
    return [
        image.python,
        "-I",
        "-S",
        "-X",
        f"pycache_prefix={BYTECODE}",
        "-c",
        _source(),
        json.dumps(spec, sort_keys=True),
    ]


@cache
def _source() -> str:
    return Path(_inside.__file__).read_text(encoding="utf-8")


def ended(status: int, *, timed_out: bool, max_rss_bytes: int) -> ChildResult:
    """How a compile ended whose sandbox ended with this status (`_inside.py`)."""
    for base in (_inside.SIGNALLED, _inside.ENDED):
        if status > base:
            return ChildResult(None, status - base, timed_out, max_rss_bytes)
    return ChildResult(status, None, timed_out, max_rss_bytes)


class Lines:
    """Takes the lines of a sandbox: a compile's progress, and last what it took (`peak`, bytes; None: not said)."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._read = runner.line_reader(on_progress)
        self.peak: int | None = None

    def __call__(self, line: str) -> None:
        peak = peak_of(line)
        if peak is not None:
            self.peak = peak
        elif self._read is not None:
            self._read(line)


def peak_of(line: str) -> int | None:
    """The largest resident set that `_inside.py` reports in a line, else None; a hostile compile may lie."""
    if not line.startswith('{"max_rss_bytes":'):
        return None
    try:
        value: Any = canonical.loads(line.encode("utf-8", "replace"), name="the end of a sandbox").get("max_rss_bytes")
    except (FarmError, AttributeError):
        return None
    return value if type(value) is int and 0 <= value < 1 << 50 else None
