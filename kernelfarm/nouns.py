"""What flows through the farm: frozen nouns that serialise to canonical JSON with a schema number.

Model -> Request (models x targets) -> Action (with its keys) -> Run -> Payload -> Comparison -> Bundle. They hold
digests, never paths. Where an order means nothing (shapes, tools, files) a noun sorts, so that equal things have
equal bytes. `canonical.encode(noun)` and `canonical.decode(Noun, data)` write and read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Any, ClassVar

from kernelfarm import canonical
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

_FILE_NAME = re.compile(r"(?!\.)[A-Za-z0-9._+-]{1,128}")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of external data. `name` is where the model says it lies, a POSIX path in its folder; `size` in bytes."""

    name: str
    digest: Digest
    size: int

    def __post_init__(self) -> None:
        parts = self.name.split("/")
        if "\0" in self.name or any(part in ("", ".", "..") for part in parts):
            raise FarmError(
                Code.EXTERNAL_OUTSIDE,
                f"external data {self.name!r} of the model is refused",
                "it does not lie inside the model's folder",
                "Keep external data as plain files in the model's folder, and name them relative to it.",
            )
        _require_size(self.size)


@dataclass(frozen=True, slots=True)
class Model:
    """A model as it is compiled: its name (its bundle's too), digest and size of its file, its external data.

    `before` is the digest of the file as it was handed in, before it was scrubbed: no compile learns it, but the bill
    of materials says it. None where nobody handed in a file.
    """

    SCHEMA: ClassVar[str] = "model/1"
    name: str
    digest: Digest
    size: int
    external: tuple[ModelFile, ...] = ()
    before: Digest | None = field(default=None, metadata=canonical.LEFT_OUT)

    def __post_init__(self) -> None:
        require_file_name(self.name)
        _require_size(self.size)
        sort_field(self, "external", lambda item: item.name)

    @property
    def identity(self) -> Digest:
        """Digest of the whole noun, for `RecipeInputs.model_digest`.

        The name counts, which a payload's config carries, and `before`, which its bill of materials carries.
        """
        return canonical.digest_of(self)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Fusion rules of a user beside the farm's own: digest and size of their canonical form in the content store."""

    digest: Digest
    size: int

    def __post_init__(self) -> None:
        _require_size(self.size)


@dataclass(frozen=True, slots=True)
class Options:
    """What may be chosen about a compile. `shapes`: (input, positive dimensions); "" is a model's only input.

    `rules` are a user's own; without them the options are written as before there were any.
    """

    SCHEMA: ClassVar[str] = "options/1"
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    rules: RuleSet | None = field(default=None, metadata=canonical.LEFT_OUT)

    def __post_init__(self) -> None:
        for name, dims in self.shapes:
            if any(dim < 1 for dim in dims):
                what = f"the shape of {name or 'the input'} has a dimension below 1"
                raise FarmError(Code.USAGE, what, "a tensor has at least one element", "Write it like 1x3x48x192.")
        sort_field(self, "shapes", lambda item: item[0])

    @classmethod
    def of(cls, shapes: Mapping[str, Iterable[int]]) -> Options:
        """Options with these shapes."""
        return cls(tuple((name, tuple(dims)) for name, dims in shapes.items()))


@dataclass(frozen=True, slots=True)
class TargetRef:
    """A target by name, and the digest of its file's content."""

    name: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class Request:
    """What someone asks for: every model for every target. `version` and `labels` decide no payload."""

    SCHEMA: ClassVar[str] = "request/1"
    models: tuple[Model, ...]
    targets: tuple[TargetRef, ...]
    options: Options = field(default_factory=Options)
    version: str | None = None
    labels: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        sort_field(self, "models", lambda item: item.name)
        sort_field(self, "targets", lambda item: item.name)
        sort_field(self, "labels", lambda item: item[0])


@dataclass(frozen=True, slots=True)
class ToolIdentity:
    """A pinned tool: distribution name, version, digest of its installed files."""

    name: str
    version: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class RecipeInputs:
    """Everything that may decide a payload's bytes, and nothing else: each field changes the recipe key.

    `model_digest` is `Model.identity`; `target_digest` the target file's; the source digests are `digest.of_tree` of
    the compiler's rooms and of the runtime; `tuning_db` is None where a build replays no tuning database.
    `sbom_source` covers what writes the bill of materials, its libraries and the image's lock too; None where none is
    written.
    """

    SCHEMA: ClassVar[str] = "recipe/1"
    model_digest: Digest
    target_digest: Digest
    options: Options
    compiler_source: Digest
    runtime_source: Digest
    tools: tuple[ToolIdentity, ...]
    ir_version: str
    abi_version: int
    tuning_db: Digest | None = None
    sbom_source: Digest | None = None

    def __post_init__(self) -> None:
        sort_field(self, "tools", lambda item: item.name)


@dataclass(frozen=True, slots=True)
class Execution:
    """How a recipe is run: image digest (None without an image), the builder's architecture, the runner's name."""

    SCHEMA: ClassVar[str] = "execution/1"
    image: Digest | None
    builder_arch: str
    runner: str


def recipe_key(inputs: RecipeInputs) -> Digest:
    """The key by which builds are compared and form a quorum: the digest of the inputs' canonical bytes."""
    return canonical.digest_of(inputs)


def execution_key(recipe: Digest, execution: Execution) -> Digest:
    """The key of the cache: the recipe and how it is run."""
    return canonical.digest_of(
        {"schema": "execution-key/1", "recipe_key": recipe, "execution": canonical.to_json(execution)}
    )


@dataclass(frozen=True, slots=True)
class Action:
    """One cell of a request, to be compiled. The two names are for people; the keys must be those of the rest."""

    SCHEMA: ClassVar[str] = "action/1"
    model_name: str
    target_name: str
    recipe: RecipeInputs
    recipe_key: Digest
    execution: Execution
    execution_key: Digest

    def __post_init__(self) -> None:
        expected = recipe_key(self.recipe)
        if self.recipe_key != expected or self.execution_key != execution_key(expected, self.execution):
            raise FarmError(Code.SCHEMA_MISMATCH, "an action's keys are not those of its recipe and execution")

    @classmethod
    def of(cls, model: Model, target: TargetRef, recipe: RecipeInputs, execution: Execution) -> Action:
        """The action of a recipe; raises `FarmError` when the recipe is another model's or target's."""
        if recipe.model_digest != model.identity or recipe.target_digest != target.digest:
            raise FarmError(Code.INTERNAL, f"the recipe is not one of {model.name} for {target.name}")
        recipe_digest = recipe_key(recipe)
        return cls(model.name, target.name, recipe, recipe_digest, execution, execution_key(recipe_digest, execution))


class RunState(Enum):
    """Where a run stands. The last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """No state follows."""
        return not TRANSITIONS[self]


TRANSITIONS: Mapping[RunState, frozenset[RunState]] = {
    # FAILED without RUNNING: it wore out as many workers as it may.
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.FAILED, RunState.CANCELLED}),
    # QUEUED again: its worker was interrupted. RUNNING again: its lease ran out and another worker took it.
    RunState.RUNNING: frozenset(
        {RunState.RUNNING, RunState.DONE, RunState.FAILED, RunState.QUEUED, RunState.CANCELLED}
    ),
    RunState.DONE: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of an action. `attempt` and `fence` grow with every taking; `payload` is set exactly when DONE."""

    SCHEMA: ClassVar[str] = "run/1"
    id: str
    execution_key: Digest
    state: RunState = RunState.QUEUED
    attempt: int = 0
    fence: int = 0
    reason: str = ""
    payload: Digest | None = None

    def __post_init__(self) -> None:
        if (self.payload is not None) != (self.state is RunState.DONE):
            raise FarmError(
                Code.STATE_ILLEGAL, f"run {self.id} is {self.state.value} and a payload belongs to done runs"
            )

    def move(self, state: RunState, *, reason: str = "", payload: Digest | None = None) -> Run:
        """The run in its next state; raises `FarmError` STATE_ILLEGAL where `TRANSITIONS` does not have it."""
        if state not in TRANSITIONS[self.state]:
            raise FarmError(
                Code.STATE_ILLEGAL, f"run {self.id} cannot become {state.value}", f"it is {self.state.value}"
            )
        taken = int(state is RunState.RUNNING)
        return replace(
            self,
            state=state,
            attempt=self.attempt + taken,
            fence=self.fence + taken,
            reason=reason,
            payload=payload,
        )


@dataclass(frozen=True, slots=True)
class PayloadFile:
    """A file of a payload: a plain name, the digest and the number of its bytes."""

    name: str
    digest: Digest
    size: int

    def __post_init__(self) -> None:
        require_file_name(self.name)
        _require_size(self.size)


@dataclass(frozen=True, slots=True)
class Payload:
    """What must be bit-identical everywhere: a model's files for a target; `digest` is that of their OCI manifest."""

    SCHEMA: ClassVar[str] = "payload-record/1"
    digest: Digest
    model_name: str
    target_name: str
    files: tuple[PayloadFile, ...]

    def __post_init__(self) -> None:
        sort_field(self, "files", lambda item: item.name)


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that two payloads do not share: None where it is missing; `offset` is the first byte that differs."""

    name: str
    original: Digest | None
    rebuilt: Digest | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """An independent rebuild beside the original. `varied` names what was different about the second execution.

    `worker` and `host` are the names of who compiled again, and where; empty where that is not known.
    """

    SCHEMA: ClassVar[str] = "comparison/2"
    recipe_key: Digest
    original: Digest
    rebuilt: Digest
    execution: Execution
    varied: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    worker: str = ""
    host: str = ""

    def __post_init__(self) -> None:
        sort_field(self, "varied", lambda item: item)
        sort_field(self, "differences", lambda item: item.name)
        if self.same and self.differences:
            raise FarmError(Code.SCHEMA_MISMATCH, "equal payloads cannot have differences")

    @property
    def same(self) -> bool:
        """The rebuild gave the same payload."""
        return self.original == self.rebuilt


@dataclass(frozen=True, slots=True)
class Bundle:
    """A model's payloads, one per target, under one OCI index; `digest` is the index's, `version` annotates it."""

    SCHEMA: ClassVar[str] = "bundle/1"
    name: str
    version: str | None
    ir_version: str
    abi_version: int
    digest: Digest
    payloads: tuple[Payload, ...]

    def __post_init__(self) -> None:
        require_file_name(self.name)
        sort_field(self, "payloads", lambda item: item.target_name)


def require_file_name(name: str) -> str:
    """The name, if it is 1 to 128 ASCII letters, digits and `._+-` without a dot first; else a `FarmError`."""
    if _FILE_NAME.fullmatch(name) is None:
        raise FarmError(
            Code.NAME_INVALID,
            f"{name!r} cannot be a file name",
            "it must be 1 to 128 letters, digits and . _ + - and not begin with a dot",
        )
    return name


def _require_size(size: int) -> None:
    if size < 0:
        raise FarmError(Code.SCHEMA_MISMATCH, f"{size} is not a size")


def sort_field(noun: object, name: str, key: Callable[[Any], str]) -> None:
    """Sort a tuple of a frozen noun while it is made; two items of one key would make the order matter: refused."""
    items = tuple(sorted(getattr(noun, name), key=key))
    for first, second in pairwise(items):
        if key(first) == key(second):
            raise FarmError(Code.SCHEMA_MISMATCH, f"{name} holds {key(first)!r} twice")
    object.__setattr__(noun, name, items)
