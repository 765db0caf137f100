"""The runner `docker`: a fresh container of the pinned image for each compile. The only module that imports the SDK.

What a compile leaves behind when its worker is gone, by kill -9 or with its machine's power:

- its standard input is a line to the worker, which says something every second: when it ends or falls silent, because
  the worker or the engine died, all inside stops by itself (`_inside.py`);
- the container, dead or alive, is an orphan once nobody owns the scratch folder that its label names (the kernel drops
  that ownership with the process); `sweep`, which every worker calls when it starts, removes orphans.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound
from docker.types import LogConfig, Mount, Ulimit

from containers import _inside, result, runner, sealed, seccomp, terminal
from containers.result import Accepted
from containers.runner import Limits, OnProgress, Tag
from containers.sealed import Image
from kernelfarm import child, digest, files
from kernelfarm.child import ChildResult
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Execution

NAME = runner.DOCKER
LABEL = "kernel-farm"
"""Prefix of the labels: .home, .scratch, .run, .fencing."""
_CALL_S = 60.0
_LOAD_S = 600.0
_FAULTS = (DockerException, requests.exceptions.RequestException, OSError)
_BEAT_S = 1.0
_SILENCE_S = 15.0
"""Seconds that the line to the worker may be silent."""
_FRAME = 8
_OUT_STREAM = 1
_NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DockerRunner:
    """The runner over an image; `code` is the folder of our own sources, `home` names the farm that owns containers.

    `engine` is the address of a local engine, by default that of the environment. `program` runs in place of the
    compiler, `extra_environment` is what it gets beside its own.
    """

    image: Image
    code: Path
    home: Path
    engine: str | None = None
    program: Sequence[str] = ()
    extra_environment: Mapping[str, str] = field(default_factory=dict)
    name: str = NAME
    sealed: bool = True

    def execution(self) -> Execution:
        """What the execution key adds to the recipe."""
        return sealed.execution(NAME, self.image)

    def with_environment(self, extra: Mapping[str, str]) -> DockerRunner:
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
        bounds = limits or Limits()
        out_dir = sealed.prepare(scratch, objects)
        with sealed.holding(NAME, self.image, self.code), connected(self.engine) as client:
            _require_image(client, self.image)
            settings = self._settings(scratch, bounds, objects, tag)
            with child.LogFile(log_path) as log, _container(client, settings) as container:
                ended, memory = _run(container, bounds, out_dir, log.write, on_progress)
        if not ended.ok:
            if memory:
                why = f"all of it together had more than {bounds.address_space >> 20} MiB"
                raise runner.limit(Code.CHILD_MEMORY, why, runner.tail(log_path))
            raise runner.failure(ended, out_dir, runner.tail(log_path), bounds)
        return result.accept(out_dir), ended

    def shell(self, scratch: Path, words: Sequence[str], limits: Limits) -> int:
        """As `containers.runner.Runner`."""
        sealed.prepare(scratch, None)
        resources = {"RLIMIT_CPU": limits.cpu_s}
        program = sealed.command(self.image, sealed.shell(self.image, words), limits, resources=resources, report=False)
        with sealed.holding(NAME, self.image, self.code), connected(self.engine) as client:
            _require_image(client, self.image)
            settings = {**self._settings(scratch, limits, None, Tag()), "command": program, "tty": sys.stdin.isatty()}
            with _container(client, settings) as container:
                return _converse(container)

    def sweep(self) -> int:
        """Remove the containers of this farm that nobody owns."""
        return sweep(self.home, self.engine)

    def _settings(self, scratch: Path, limits: Limits, objects: Path | None, tag: Tag) -> dict[str, Any]:
        binds = [
            (scratch / "in", sealed.IN, True),
            (scratch / "out", sealed.OUT, False),
            (self.code, sealed.CODE, True),
        ]
        if objects is not None:
            binds.append((objects, sealed.OBJECTS, True))
        user = f"{sealed.USER}:{sealed.USER}" if os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}"
        program = self.program or sealed.compiler(self.image)
        # Not the container's limit, which binds process 1: a compile that kept it busy with signals had it killed, as
        # if by somebody outside.
        resources = {"RLIMIT_CPU": limits.cpu_s}
        labels = {
            "home": home_label(self.home),
            "scratch": str(scratch),
            "run": str(tag.run),
            "fencing": str(tag.fencing),
        }
        return {
            **walls(limits),
            "image": self.image.docker_id,
            "command": sealed.command(self.image, program, limits, resources=resources, silence_s=_SILENCE_S),
            "environment": sealed.environment(self.extra_environment),
            "labels": {f"{LABEL}.{key}": value for key, value in labels.items()},
            "mounts": [Mount(place, str(source), type="bind", read_only=closed) for source, place, closed in binds],
            "user": user,
            "stdin_open": True,
        }


def walls(limits: Limits) -> dict[str, Any]:
    """The settings that seal a container off and bound it."""
    cores = limits.cores or len(os.sched_getaffinity(0))
    return {
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {sealed.TEMPORARY: f"rw,exec,nosuid,nodev,size={limits.temporary},mode=1777"},
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true", f"seccomp={json.dumps(seccomp.profile())}"],
        "pids_limit": limits.processes,
        "mem_limit": limits.address_space,
        "memswap_limit": limits.address_space,
        "nano_cpus": cores * _NANO,
        "init": False,  # that would be a process of our user without the filter that `_inside.py` loads
        "hostname": sealed.HOST_NAME,
        "working_dir": "/",
        "log_config": LogConfig(type="none"),
        "ulimits": [
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="fsize", soft=limits.file_size, hard=limits.file_size),
        ],
    }


def home_label(home: Path) -> str:
    """What names a farm in its containers' labels."""
    return digest.hex_of(digest.of_bytes(os.fsencode(home.absolute())))


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """A client of the engine; raises `FarmError` RUNNER_UNAVAILABLE without one on this machine."""
    try:
        client = (
            docker.DockerClient(base_url=address, version="auto", timeout=_CALL_S)
            if address
            else docker.from_env(version="auto", timeout=_CALL_S)
        )
    except _FAULTS as reason:
        raise unavailable(f"the engine cannot be reached ({_said(reason)})") from reason
    try:
        if not client.api.base_url.startswith("http+docker://"):
            raise unavailable("the engine is on another machine, where this one's folders are not")
        yield client
    finally:
        client.close()


def unavailable(why: str) -> FarmError:
    """The error RUNNER_UNAVAILABLE of this runner."""
    advice = "Start Docker Engine and let your user reach it, or use another --runner."
    return FarmError(Code.RUNNER_UNAVAILABLE, "Docker cannot run compiles here", why, advice, {"runner": NAME})


def lost(reason: BaseException | str) -> FarmError:
    """The error RUNNER_LOST: the engine failed a compile."""
    said = reason if isinstance(reason, str) else _said(reason)
    return FarmError(Code.RUNNER_LOST, "the container of a compile was lost", said, "Run the build again.")


def version(address: str | None = None) -> str:
    """The engine's version; raises `FarmError` RUNNER_UNAVAILABLE also for an engine that maps users elsewhere."""
    with connected(address) as client:
        try:
            facts = client.info()
        except _FAULTS as reason:
            raise unavailable(_said(reason)) from reason
    options = " ".join(facts.get("SecurityOptions") or ())
    for word in ("rootless", "userns"):
        if f"name={word}" in options:
            raise unavailable(f"the engine runs with {word}: files would belong to other users")
    return str(facts.get("ServerVersion", "of unknown version"))


def sweep(home: Path, address: str | None = None) -> int:
    """Remove this farm's containers whose scratch folder nobody owns; how many. An engine out of reach has none."""
    count = 0
    with contextlib.suppress(FarmError, *_FAULTS), connected(address) as client:
        label = f"{LABEL}.home={home_label(home)}"
        for container in client.containers.list(all=True, filters={"label": label}, ignore_removed=True):
            if files.is_owned(Path(container.labels.get(f"{LABEL}.scratch", "/nonexistent"))):
                continue
            with contextlib.suppress(*_FAULTS):
                container.remove(force=True, v=True)
                count += 1
    return count


def unload(docker_id: str, address: str | None = None) -> bool:
    """Remove an image from the engine's own store; false for one that it has not, or that a container uses."""
    with contextlib.suppress(FarmError, *_FAULTS), connected(address) as client:
        client.images.remove(docker_id, force=False)
        return True
    return False


def _require_image(client: Any, image: Image) -> None:
    """Load the pinned image where the engine lacks it; what it then has must be exactly the predicted one."""
    try:
        try:
            client.images.get(image.docker_id)
            return
        except ImageNotFound:
            pass
        with files.locked(image.archive), image.archive.open("rb") as stream:
            client.api.timeout = _LOAD_S
            client.images.load(stream)
            client.api.timeout = _CALL_S
        client.images.get(image.docker_id)
    except ImageNotFound as reason:
        why = f"it has no image {image.docker_id} after loading {image.archive}"
        advice = "Run `farm image build` again."
        raise FarmError(Code.RUNNER_UNAVAILABLE, "the engine did not load the pinned image", why, advice) from reason
    except _FAULTS as reason:
        raise unavailable(_said(reason)) from reason


@contextlib.contextmanager
def _container(client: Any, settings: Mapping[str, Any]) -> Iterator[Any]:
    try:
        container = client.containers.create(**settings)
    except _FAULTS as reason:
        raise lost(reason) from reason
    try:
        yield container
    finally:
        with contextlib.suppress(*_FAULTS):  # gone, or the engine is: then `sweep` has it
            container.remove(force=True, v=True)


def _run(
    container: Any, limits: Limits, out_dir: Path, write: Callable[[bytes], None], on_progress: OnProgress | None
) -> tuple[ChildResult, bool]:
    """Start a container and stay until it ends; how it ended, and whether for want of memory."""
    lines = sealed.Lines(on_progress)
    try:
        raw = container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        with contextlib.closing(raw):
            container.start()
            timed_out = _pump(raw._sock, limits, out_dir, write, child.LineCutter(lines))
        if timed_out:
            with contextlib.suppress(APIError):  # it has just ended by itself
                container.kill()
        status = int(container.wait(timeout=_CALL_S)["StatusCode"])
        container.reload()
        memory = bool(container.attrs["State"]["OOMKilled"])
    except _FAULTS as reason:
        raise lost(reason) from reason
    if status == _inside.LOST and not timed_out:
        raise lost("the engine no longer brought the worker's signs of life into it")
    if _inside.ENDED < status <= _inside.SIGNALLED and not timed_out and not memory:
        raise lost(f"somebody on its machine ended the container with signal {status - _inside.ENDED}")
    return sealed.ended(status, timed_out=timed_out, max_rss_bytes=lines.peak or 0), memory


def _converse(container: Any) -> int:
    """Join a container to the terminal until it ends; its exit status."""
    try:
        raw = container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        with contextlib.closing(raw):
            container.start()
            if sys.stdin.isatty():
                with terminal.resizing(container.resize), terminal.raw():
                    terminal.join(raw._sock, lambda data: [(_OUT_STREAM, data)])
            else:
                terminal.join(raw._sock, _Frames().take)
        return int(container.wait(timeout=_CALL_S)["StatusCode"])
    except _FAULTS as reason:
        raise lost(reason) from reason


def _pump(
    line: socket.socket, limits: Limits, out_dir: Path, write: Callable[[bytes], None], lines: child.LineCutter
) -> bool:
    """Move a container's output until it ends (false) or its time is over (true), looking at what it wrote."""
    end = time.monotonic() + limits.wall_s
    next_look = next_beat = 0.0
    frames = _Frames()
    while True:
        now = time.monotonic()
        if now >= end:
            return True
        if now >= next_beat:
            _beat(line)
            next_beat = now + _BEAT_S
        if now >= next_look:
            runner.require_output(out_dir, limits)
            next_look = time.monotonic() + runner.LOOK_S
        if not select.select([line], [], [], min(runner.LOOK_S, end - now))[0]:
            continue
        data = line.recv(1 << 16)
        if not data:
            lines.finish()
            return False
        for stream, part in frames.take(data):
            write(part)
            if stream == _OUT_STREAM:
                lines.feed(part)


class _Frames:
    """Cuts what a container without a terminal says into (stream, bytes): 1 is standard output, 2 error."""

    def __init__(self) -> None:
        self._held = b""

    def take(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The frames that are whole with these bytes."""
        self._held += data
        while len(self._held) >= _FRAME:
            whole = _FRAME + int.from_bytes(self._held[4:_FRAME], "big")
            if len(self._held) < whole:
                return
            stream, part, self._held = self._held[0], self._held[_FRAME:whole], self._held[whole:]
            yield stream, part


def _beat(line: socket.socket) -> None:
    with contextlib.suppress(OSError):  # full, or closed: reading shows it
        line.send(b".", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _said(reason: BaseException) -> str:
    text = reason.explanation if isinstance(reason, APIError) and reason.explanation else reason
    return " ".join(str(text).split())[:300] or type(reason).__name__
