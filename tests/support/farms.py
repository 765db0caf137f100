"""A farm for tests: a clock by hand, jobs without a real compiler, compiles that write small valid payloads."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from containers import result
from containers.result import Accepted
from containers.runner import Limits, OnProgress, Progress, Runner, Tag
from farm.actions import Job, Toolbox, job_of
from farm.config import Config
from farm.ledger.ledger import Ledger, opened
from farm.logs import keeping
from farm.scheduler import Session
from farm.worker import Worker
from kernelfarm import canonical, digest
from kernelfarm.child import ChildResult
from kernelfarm.nouns import Execution, Model, Options, RuleSet, TargetRef, ToolIdentity
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from tests.support import payloads
from tests.support.services import HANG_S
from toolchains import target

SLOW_WORKER = (sys.executable, str(Path(__file__).with_name("slow_worker.py")))
BOX = Toolbox(
    compiler_source=digest.of_bytes(b"compiler"),
    runtime_source=digest.of_bytes(b"runtime"),
    tools=(ToolIdentity("ziglang", "0.17.0", digest.of_bytes(b"zig")),),
    ir_version="0.1.0",
    abi_version=1,
    execution=Execution(image=None, builder_arch="x86_64", runner="process"),
)


def settings(folder: Path, *, lease_s: float = 20.0) -> Config:
    """Settings with the state in `folder`."""
    home = Home(folder).create()
    return Config(home, home.ledger, Limits(), lease_s=lease_s, poll_s=0.02)


@contextmanager
def session(folder: Path, *, lease_s: float = 20.0) -> Iterator[Session]:
    """The farm's state in `folder`, open, with slow workers."""
    chosen = settings(folder, lease_s=lease_s)
    with opened(chosen.ledger) as found:
        yield Session(chosen, found, ContentStore(chosen.home.store), SLOW_WORKER)


def job(
    store: ContentStore,
    *,
    data: bytes = b"a model",
    name: str = "cls",
    on: str = "x86-64-v3",
    rules: RuleSet | None = None,
) -> Job:
    """A job for a model whose bytes are `data`, put into the store."""
    model = Model(name, store.put_bytes(data), len(data))
    return job_of(model, target.load(on), Options(rules=rules), BOX)


def target_ref(wanted: Job) -> TargetRef:
    """The reference of a job's target."""
    return TargetRef(wanted.action.target_name, wanted.action.recipe.target_digest)


def submit(ledger: Ledger, wanted: Job) -> int:
    """Ask for a job's run; its number."""
    run, _joined = ledger.runs.submit(
        execution_key=wanted.action.execution_key,
        recipe_key=wanted.action.recipe_key,
        action=canonical.encode(wanted).decode(),
    )
    return run.id


@dataclass(slots=True)
class Compiler:
    """A runner that writes a small valid payload, or raises what it is told to. `calls` counts the compiles."""

    salt: str = ""
    error: BaseException | None = None
    calls: list[Path] = field(default_factory=list)
    spoil: Callable[[Path], None] | None = None
    name: str = "process"
    sealed: bool = False

    def execution(self) -> Execution:
        """As that of the runner `process`."""
        return BOX.execution

    def with_environment(self, extra: Mapping[str, str]) -> Compiler:
        """It looks at no environment."""
        del extra
        return self

    def sweep(self) -> int:
        """Nothing to sweep."""
        return 0

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
        """A payload at once."""
        del limits, objects, tag
        self.calls.append(scratch)
        assert log_path is not None
        log_path.write_text("compiling\n")
        assert on_progress is not None
        on_progress(Progress("group", 1, 2, "g0"))
        if self.error is not None:
            raise self.error
        out = scratch / "out"
        payloads.write_result(scratch / "in", out, salt=self.salt)
        if self.spoil is not None:
            self.spoil(out)
        return result.accept(out), ChildResult(0, None, False, 123 << 20)


def worker(farm: Session, runner: Runner, *, name: str = "w1") -> Worker:
    """A worker inside the test's process."""
    keep = keeping(farm.ledger.runs, farm.store, farm.settings.home.logs)
    return Worker(name, farm.settings, farm.ledger.runs, farm.store, lambda _: runner, keep, cores=2)


@dataclass(frozen=True, slots=True)
class Marks:
    """What the slow compiler's children say and are told."""

    folder: Path

    def started(self) -> list[int]:
        """Process ids of all compiles that ever began, oldest first."""
        found = sorted(self.folder.glob("started-*"), key=lambda path: path.stat().st_mtime_ns)
        return [int(path.name.removeprefix("started-")) for path in found]

    def starts(self) -> dict[str, int]:
        """How often each cell (target and model) began."""
        return dict(Counter(path.read_text() for path in self.folder.glob("started-*")))

    def go(self) -> None:
        """Let all compiles end."""
        (self.folder / "go").touch()

    def misbehave(self, mode: str) -> None:
        """What the compiles that begin from now on do."""
        (self.folder / "mode").write_text(mode)


def marks(home: Path) -> Marks:
    """The marks of a farm in `home`."""
    (home / "marks").mkdir(parents=True, exist_ok=True)
    return Marks(home / "marks")


def eventually(condition: Callable[[], bool], *, within_s: float = HANG_S) -> None:
    """Wait until the condition holds; fail when it does not in time."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """Process ids of a process's children, whichever of its threads started them."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended
            found += [int(word) for word in (task / "children").read_text().split()]
    return sorted(found)


def alive(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
