"""A host that works for a farm through its gate (`farm worker --gate`); `python -m farm.gate.host` is one worker of it.

The host needs the same farm installed, and nothing else of it: no ledger, no broker, no shared disk, no key but its
own identity. Its own state folder holds a store and logs that may be deleted whenever no worker runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType

from containers.runner import Runner
from farm import actions, config, runners
from farm.actions import Toolbox, require_current
from farm.config import Config
from farm.gate import joining
from farm.gate.client import Gate, GateRuns
from farm.gate.messages import Offer, Welcome
from farm.scheduler import cores
from farm.worker import RunnerOf, Worker, die_with, drop, trust
from kernelfarm import files
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Execution
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore

PROGRAM = (sys.executable, "-I", "-m", "farm.gate.host")
_AWAY_S = 2.0
_BACKOFF_S = 30.0


def run(*, gate: str, identity: Path, tasks: int, program: Sequence[str] = PROGRAM) -> int:
    """Work for the farm behind a gate with `tasks` processes until SIGTERM or SIGINT; the exit status.

    The first signal lets the runs come to their end, a second one gives them back. A process that dies is started
    again, after a pause that grows. Raises `FarmError` when the gate cannot be reached or refuses us at the start.
    A ticket in the file `identity` is used up first.
    """
    if joining.ensure_joined(gate, identity):
        say(f"joined; {identity} holds this host's own key now, which is to stay here")
    Gate(gate, identity).hello()
    crew = _Crew([*program, "--gate", gate, "--identity", str(identity.absolute())], tasks)
    return crew.run()


@dataclass
class _Crew:
    argv: Sequence[str]
    tasks: int
    _alive: dict[subprocess.Popen[bytes], int] = field(default_factory=dict)
    """The processes, with the number of signals that each was told of."""
    _stops: int = 0

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        pause, resume, status = 1.0, 0.0, int(Status.DONE)
        while True:
            for ended in [each for each in self._alive if each.poll() is not None]:
                del self._alive[ended]
                if ended.returncode in (Status.REFUSED, Status.USAGE):
                    self._stops, status = max(self._stops, 1), int(ended.returncode)
                elif not self._stops:
                    say(f"a worker process ended with status {ended.returncode}; another starts in {pause:g} s")
                    resume, pause = time.monotonic() + pause, min(2 * pause, _BACKOFF_S)
            if self._stops and not self._alive:
                return status
            if time.monotonic() >= resume:
                while not self._stops and len(self._alive) < self.tasks:
                    self._start()
            self._pass_on()
            time.sleep(0.1)

    def _start(self) -> None:
        argv = [*self.argv, "--cores", str(max(1, cores() // self.tasks)), "--parent", str(os.getpid())]
        self._alive[subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)] = 0

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._stops += 1
        say(
            "no more runs are taken; a second signal gives back what is under way"
            if self._stops == 1
            else "giving back"
        )

    def _pass_on(self) -> None:
        """Tell each process of the signals that it has not heard of, also one that was being started meanwhile."""
        for each, told in self._alive.items():
            if told < self._stops:
                each.send_signal(signal.SIGTERM)
                self._alive[each] = told + 1


def run_process(
    arguments: Sequence[str] | None = None, *, runner: Runner | None = None, offer: Offer | None = None
) -> int:
    """One worker process: takes one run after the other until SIGTERM (twice: it gives the run back) or orphaned.

    `runner` and `offer` are a test's own: then nothing of this installation is checked.
    """
    options = _parse(arguments)
    die_with(options.parent)
    os.umask(0o022)
    try:
        settings = config.load()
        home = settings.home.create()
        runners.sweep(home)
        files.sweep(home.cache)
        gate = Gate(options.gate, options.identity)
        welcome = gate.hello()
        store = ContentStore(home.store)
        box = actions.toolbox()
        still = partial(_require_unchanged, box) if offer is None else lambda: None
        runs = GateRuns(gate, welcome, offer or _offer(settings, box), store, socket.gethostname(), still)
        _serve(replace(settings, lease_s=welcome.lease_s), welcome, runs, store, options.cores, runner)
    except FarmError as error:
        say(str(error))
        return int(error.status)
    except KeyboardInterrupt:
        return int(Status.INTERRUPTED)
    return int(Status.DONE)


def _serve(
    settings: Config, welcome: Welcome, runs: GateRuns, store: ContentStore, used_cores: int, runner: Runner | None
) -> None:
    main_thread = threading.get_ident()
    runner_of: RunnerOf = partial(runners.of, settings.home) if runner is None else lambda _: runner
    worker = Worker(
        welcome.worker,
        settings,
        runs,
        store,
        runner_of,
        runs.surround,
        used_cores,
        partial(signal.pthread_kill, main_thread, signal.SIGUSR1),
        require_current if runner is None else trust,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stopper(runs.draining))
    signal.signal(signal.SIGUSR1, drop)
    while not runs.draining.is_set():
        try:
            worker.work([])
        except FarmError as error:
            if error.status is not Status.ENVIRONMENT or error.code is Code.SOURCES_CHANGED:
                raise
            say(str(error))  # the gate, its ledger or its registry is away
            runs.draining.wait(_AWAY_S)


def _require_unchanged(box: Toolbox) -> None:
    if actions.toolbox() != box:
        why = "what this worker offers is not what it would do"
        raise FarmError(Code.SOURCES_CHANGED, "the farm of this host was changed", why, "It starts again by itself.")


def _offer(settings: Config, box: Toolbox) -> Offer:
    """What this installation can do: every runner that is ready here, or the one that FARM_RUNNER names.

    `box` is its toolbox for a bare process; a sandbox has the tools of its image.
    """
    home = settings.home
    if os.environ.get(runners.VARIABLE):
        return Offer.of(_with(box, runners.choose(home).runner.execution(), home))
    found: list[Toolbox] = []
    for name in runners.NAMES:
        try:
            each = runners.named(home, name)
            runners.require_ready(each, home)
        except FarmError as reason:
            say(f"no runs for {name} are taken: {reason.why or reason.what}")
            continue
        found.append(_with(box, each.execution(), home))
    return Offer.of(*found)


def _with(box: Toolbox, execution: Execution, home: Home) -> Toolbox:
    identities = runners.tools_of(home, execution)
    inside = box.tools if identities is None else actions.identities_of(identities)
    return replace(box, execution=execution, tools=inside)


def _stopper(draining: threading.Event) -> Callable[[int, FrameType | None], None]:
    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        if draining.is_set():
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):  # the clean-up is not to be broken off
                signal.signal(each, signal.SIG_IGN)
            raise KeyboardInterrupt
        draining.set()

    return stop


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m farm.gate.host", description="A worker process behind a gate.")
    parser.add_argument("--gate", required=True)
    parser.add_argument("--identity", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--parent", type=int, required=True)
    return parser.parse_args(arguments)


def say(line: str) -> None:
    """A line on standard error, from any thread and in a signal handler."""
    os.write(2, f"worker: {line}\n".encode())


if __name__ == "__main__":
    raise SystemExit(run_process())
