"""What a worker and the gate say to each other: canonical JSON nouns, POSTed to the paths below.

No message names its sender: that is who the certificate says. A worker's own clock, lease time and name count nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from farm.actions import Job, Toolbox
from farm.ledger.rules import Reason
from kernelfarm.digest import Digest
from kernelfarm.nouns import Execution, Payload, ToolIdentity

JOIN = "v1/join"
HELLO = "v1/hello"
TAKE = "v1/take"
BEAT = "v1/beat"
TOKEN = "v1/token"
LOG = "v1/log"
FINISH = "v1/finish"
FAIL = "v1/fail"
RELEASE = "v1/release"
LOSE = "v1/lose"

WAIT_LIMIT_S = 25.0
"""The gate holds back an empty answer to `TAKE` no longer than this."""
BODY_LIMIT = 1 << 20
"""Largest message in bytes; of a log too, which comes in pieces."""
LOG_PIECE = 256 << 10
LOG_LIMIT = 32 << 20
"""Bytes of a log that are kept."""
ERROR_LIMIT = 64 << 10

FAILURES = frozenset(
    {
        Reason.COMPILE_ERROR,
        Reason.LIMIT_EXCEEDED,
        Reason.CHILD_DIED,
        Reason.ENVIRONMENT,
        Reason.FAULT,
        Reason.RESULT_REFUSED,
        Reason.TOTAL_TIMEOUT,
        Reason.SILENCE_TIMEOUT,
    }
)
"""Reasons that a worker elsewhere may give; the others are the ledger's own."""


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing to say."""

    SCHEMA: ClassVar[str] = "gate-empty/1"


@dataclass(frozen=True, slots=True)
class Join:
    """Asks for a certificate of the worker's own key; the one message for which a ticket is shown. `request`: PEM."""

    SCHEMA: ClassVar[str] = "gate-join/1"
    request: str


@dataclass(frozen=True, slots=True)
class Joined:
    """The certificate (PEM)."""

    SCHEMA: ClassVar[str] = "gate-joined/1"
    certificate: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """Whom the gate takes the caller for, how long leases last, where the blobs are."""

    SCHEMA: ClassVar[str] = "gate-welcome/1"
    worker: str
    lease_s: float
    registry: str
    token_life_s: float


@dataclass(frozen=True, slots=True)
class Means:
    """One way in which a worker compiles: a runner, over which image, and the tools that it finds there."""

    execution: Execution
    tools: tuple[ToolIdentity, ...]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker can do: it gets the runs of exactly these sources, for these means."""

    compiler_source: Digest
    runtime_source: Digest
    means: tuple[Means, ...]
    sbom_source: Digest | None = None

    @classmethod
    def of(cls, first: Toolbox, *more: Toolbox) -> Offer:
        """The offer of an installation: a toolbox for each of its executions, all of the same sources."""
        means = tuple(Means(box.execution, box.tools) for box in (first, *more))
        return cls(first.compiler_source, first.runtime_source, means, first.sbom_source)

    def fits(self, job: Job) -> bool:
        """Whether the job's keys are those that this worker would give it."""
        recipe = job.action.recipe
        wanted = (recipe.compiler_source, recipe.runtime_source, recipe.sbom_source)
        if wanted != (self.compiler_source, self.runtime_source, self.sbom_source):
            return False
        return any(
            each.execution == job.action.execution
            and sorted(each.tools, key=lambda tool: tool.name) == list(recipe.tools)
            for each in self.means
        )


@dataclass(frozen=True, slots=True)
class Take:
    """Asks for a run; `wait_s` is how long the caller would wait for one, `host` what people call its machine."""

    SCHEMA: ClassVar[str] = "gate-take/1"
    offer: Offer
    wait_s: float
    host: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A leased run: its job's canonical JSON and salt; `until` is by the ledger's clock."""

    run: int
    fencing: int
    until: float
    action: str
    salt: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to `Take`; None when there was nothing in that time."""

    SCHEMA: ClassVar[str] = "gate-taken/1"
    grant: Grant | None


@dataclass(frozen=True, slots=True)
class Held:
    """A lease, in every message about a run."""

    SCHEMA: ClassVar[str] = "gate-held/1"
    run: int
    fencing: int


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat; `progress` is (stage, done, total)."""

    SCHEMA: ClassVar[str] = "gate-beat/1"
    held: Held
    progress: tuple[str, int, int] | None


@dataclass(frozen=True, slots=True)
class Beaten:
    """The prolonged lease, and whether somebody asked for the run's end."""

    SCHEMA: ClassVar[str] = "gate-beaten/1"
    until: float
    cancel_asked: bool


@dataclass(frozen=True, slots=True)
class Token:
    """A token for the registry: the lease's inputs to read, the worker's own results to write."""

    SCHEMA: ClassVar[str] = "gate-token/1"
    token: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The result lies in the registry, in the worker's repository."""

    SCHEMA: ClassVar[str] = "gate-finish/1"
    held: Held
    payload: Payload
    max_rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class Fail:
    """The compile failed; `error` is the error as JSON text ("error/1")."""

    SCHEMA: ClassVar[str] = "gate-fail/1"
    held: Held
    reason: Reason
    error: str


@dataclass(frozen=True, slots=True)
class Lose:
    """What the compile ran on was lost; `error` as in `Fail`."""

    SCHEMA: ClassVar[str] = "gate-lose/1"
    held: Held
    error: str
