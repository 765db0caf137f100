"""in-toto statements that the farm signs: SLSA v1 provenance of a payload, and the signature of a bundle's index.

Sources: in-toto Attestation Framework, Statement v1; SLSA v1.2, provenance v1. Every statement has one canonical form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from kernelfarm import canonical, digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Execution, Model, Options, RecipeInputs, RuleSet, ToolIdentity, execution_key, recipe_key

STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
SIGNATURE = "urn:kernel-farm:bundle-signature:1"
BUILD_TYPE = "urn:kernel-farm:compile:1"
AGAIN = "Do not use it. Get it again; if that changes nothing, have who signed it sign it anew."
"""What helps with a signed statement that is not what it should be."""

SECURITY_MODES: Mapping[str, str] = {
    "bubblewrap": "bubblewrap, sealed",
    "docker": "docker, sealed",
    "process": "process, unsealed",
}
"""How an action ran, by the name of its runner: what that is worth. "process": a child process with limits, but no
sandbox."""
SEALED = ("bubblewrap", "docker")
"""The security modes that keep a hostile compile from everything but its input and output."""

_Said = TypeVar("_Said")
_SOURCE = {"digestOf": "source tree"}
_FILES = {"digestOf": "installed files"}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a statement speaks about: a name for people, and the digest that counts."""

    name: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class Statement:
    """An in-toto statement v1."""

    subjects: tuple[Subject, ...]
    predicate_type: str
    predicate: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the statement."""
        subjects = [{"name": item.name, "digest": {"sha256": digest.hex_of(item.digest)}} for item in self.subjects]
        return {
            "_type": STATEMENT,
            "subject": subjects,
            "predicateType": self.predicate_type,
            "predicate": dict(self.predicate),
        }

    def encode(self) -> bytes:
        """The canonical bytes that are signed."""
        return canonical.dumps(self.to_json())

    @property
    def identity(self) -> Digest:
        """The digest by which other statements name it: of what is said, as its signature may be made anew."""
        return digest.of_bytes(self.encode())

    @classmethod
    def decode(cls, data: bytes, name: str) -> Statement:
        """The statement in canonical bytes; raises `FarmError` ATTESTATION_INVALID naming the file `name`."""
        return cls.from_json(canonical.loads(data, strict=True, name=name), name)

    @classmethod
    def from_json(cls, value: Any, name: str) -> Statement:
        """The statement that a JSON value spells; raises as `decode`."""
        try:
            subjects = tuple(
                Subject(item["name"], digest.parse(digest.PREFIX + item["digest"]["sha256"]))
                for item in value["subject"]
            )
            statement = cls(subjects, value["predicateType"], dict(value["predicate"]))
            if canonical.dumps(statement.to_json()) != canonical.dumps(value):
                raise ValueError("it has fields or values that do not belong there")
        except (KeyError, TypeError, ValueError, FarmError) as reason:
            raise invalid(name, f"it is not an in-toto statement ({reason})") from reason
        return statement


@dataclass(frozen=True, slots=True)
class Provenance:
    """How one payload was made; all of it goes into the attestation, nothing into the payload.

    `security_mode` is a key of SECURITY_MODES. `started_on` and `finished_on` are RFC 3339 times in UTC
    ("2026-11-29T17:00:00Z"); `host` holds free facts of the machine. Empty means unknown.
    """

    model: Model
    target_name: str
    recipe: RecipeInputs
    execution: Execution
    security_mode: str = "process"
    invocation_id: str = ""
    started_on: str = ""
    finished_on: str = ""
    host: Mapping[str, str] = field(default_factory=dict)

    def statement(self, payload: Digest) -> Statement:
        """The statement that this payload was made so. Raises `FarmError` INTERNAL for an unknown security mode."""
        if self.security_mode not in SECURITY_MODES:
            raise FarmError(Code.INTERNAL, f"{self.security_mode!r} is not a security mode")
        if self.security_mode != self.execution.runner:
            raise FarmError(Code.INTERNAL, f"{self.execution.runner} does not run as {self.security_mode}")
        if (self.execution.image is None) == (self.security_mode in SEALED):
            raise FarmError(Code.INTERNAL, f"{self.security_mode} and its image do not fit each other")
        if self.recipe.model_digest != self.model.identity:
            raise FarmError(Code.INTERNAL, f"the recipe is not one of the model {self.model.name}")
        subject = Subject(f"{self.model.name}/{self.target_name}", payload)
        return Statement((subject,), PROVENANCE, {"buildDefinition": self._definition(), "runDetails": self._run()})

    def _definition(self) -> dict[str, Any]:
        recipe = recipe_key(self.recipe)
        return {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "model": canonical.to_json(self.model),
                "target": {"name": self.target_name, "digest": self.recipe.target_digest},
                "options": canonical.to_json(self.recipe.options),
            },
            "internalParameters": {
                "recipeKey": recipe,
                "executionKey": execution_key(recipe, self.execution),
                "execution": canonical.to_json(self.execution),
                "irVersion": self.recipe.ir_version,
                "abiVersion": self.recipe.abi_version,
                "tuningDatabase": self.recipe.tuning_db,
                "securityMode": SECURITY_MODES[self.security_mode],
            },
            "resolvedDependencies": [
                _dependency("compiler", self.recipe.compiler_source, _SOURCE),
                _dependency("runtime", self.recipe.runtime_source, _SOURCE),
                *([] if self.recipe.sbom_source is None else [_dependency("sbom", self.recipe.sbom_source, _SOURCE)]),
                _dependency(f"model:{self.model.name}", self.model.digest, {}),
                *(_dependency(f"model-data:{item.name}", item.digest, {}) for item in self.model.external),
                *([] if self.recipe.options.rules is None else [_rules(self.recipe.options.rules)]),
                *(
                    _dependency(f"tool:{tool.name}", tool.digest, {**_FILES, "version": tool.version})
                    for tool in self.recipe.tools
                ),
            ],
        }

    def _run(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "invocationId": self.invocation_id,
            "startedOn": self.started_on,
            "finishedOn": self.finished_on,
            "kernelFarm_host": dict(self.host),
        }
        return {
            "builder": {"id": builder_id(self.security_mode)},
            "metadata": {key: value for key, value in metadata.items() if value},
        }

    @classmethod
    def from_statement(cls, statement: Statement, name: str) -> Provenance:
        """What a provenance says; raises `FarmError` ATTESTATION_INVALID (file `name`) unless it is complete.

        Also when its keys are not those of what it lists, or when it says anything beside that.
        """
        return read_whole(
            statement,
            lambda said: cls._read(said["buildDefinition"], said["runDetails"]),
            lambda found: found.statement(statement.subjects[0].digest),
            name,
            "its provenance is incomplete or malformed",
        )

    @classmethod
    def _read(cls, definition: Any, run: Any) -> Provenance:
        outer, inner = definition["externalParameters"], definition["internalParameters"]
        found = {item["name"]: item for item in definition["resolvedDependencies"]}
        model = canonical.from_json(Model, outer["model"], name="model")
        recipe = RecipeInputs(
            model_digest=model.identity,
            target_digest=digest.parse(outer["target"]["digest"]),
            options=canonical.from_json(Options, outer["options"], name="options"),
            compiler_source=_digest_of(found["compiler"]),
            runtime_source=_digest_of(found["runtime"]),
            tools=tuple(
                ToolIdentity(key.removeprefix("tool:"), found[key]["annotations"]["version"], _digest_of(found[key]))
                for key in sorted(found)
                if key.startswith("tool:")
            ),
            ir_version=inner["irVersion"],
            abi_version=inner["abiVersion"],
            tuning_db=inner["tuningDatabase"],
            sbom_source=_digest_of(found["sbom"]) if "sbom" in found else None,
        )
        metadata = run["metadata"]
        return cls(
            model,
            outer["target"]["name"],
            recipe,
            canonical.from_json(Execution, inner["execution"], name="execution"),
            {text: key for key, text in SECURITY_MODES.items()}[inner["securityMode"]],
            metadata.get("invocationId", ""),
            metadata.get("startedOn", ""),
            metadata.get("finishedOn", ""),
            dict(metadata.get("kernelFarm_host", {})),
        )


@dataclass(frozen=True, slots=True)
class BundleSignature:
    """What the signature of a bundle binds: its index, and by name what the index holds."""

    SCHEMA: ClassVar[str] = "bundle-signature/1"

    name: str
    version: str | None
    payloads: tuple[Subject, ...]

    def statement(self, bundle: Digest) -> Statement:
        """The statement over the bundle with this digest; `payloads` are named by target."""
        predicate = {
            "schema": self.SCHEMA,
            "name": self.name,
            "version": self.version,
            "payloads": [{"target": item.name, "digest": item.digest} for item in self.payloads],
        }
        return Statement((Subject(self.name, bundle),), SIGNATURE, predicate)


def read_whole(
    statement: Statement,
    read: Callable[[Mapping[str, Any]], _Said],
    again: Callable[[_Said], Statement],
    name: str,
    fault: str,
) -> _Said:
    """What `read` makes of a statement's predicate. Of it `again` has to make the statement, byte for byte: it is then
    complete and says no more.

    Raises `FarmError` ATTESTATION_INVALID (file `name`) with `fault` for any other statement.
    """
    try:
        found = read(dict(statement.predicate))
        if again(found).encode() != statement.encode():
            raise ValueError("its parts do not fit each other")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, FarmError) as reason:
        raise invalid(name, f"{fault} ({reason})") from reason
    return found


def builder_id(security_mode: str) -> str:
    """The SLSA builder of a security mode: one identity per mode, so that a policy can tell them apart."""
    return f"urn:kernel-farm:builder:{security_mode}:1"


def invalid(name: str, why: str) -> FarmError:
    """The error ATTESTATION_INVALID about the file `name`."""
    what = f"{name} is not an attestation of this farm"
    return FarmError(Code.ATTESTATION_INVALID, what, why, AGAIN, {"file": name})


def _dependency(name: str, value: Digest, annotations: Mapping[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "digest": {"sha256": digest.hex_of(value)}}
    return {**entry, "annotations": dict(annotations)} if annotations else entry


def _rules(rules: RuleSet) -> dict[str, Any]:
    return _dependency("fusion-rules", rules.digest, {"digestOf": "the user's rules, canonical"})


def _digest_of(dependency: Any) -> Digest:
    return digest.parse(digest.PREFIX + dependency["digest"]["sha256"])
