"""Every error of the farm: a code, what happened, why, what to do next, an exit status.

Codes are stable: a member may be added, never renumbered. Ranges: 01xx usage and targets, 02xx model and frontend,
03xx compile and child processes, 04xx store and bundle, 05xx signing and verification, 06xx ledger and worker,
07xx environment, 08xx device runtime, check and bench, 09xx internal, 10xx release and registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, IntEnum
from typing import Any


class Status(IntEnum):
    """Exit status of the command line, one per class of error."""

    DONE = 0
    BAD = 1
    """The thing asked about is bad: a model, a bundle, the store, a cell of a build."""
    USAGE = 2
    """Wrong usage of the command line."""
    ENVIRONMENT = 3
    """The environment lacks something: disk, permission, tool, service."""
    REFUSED = 4
    """Refused by policy."""
    INTERRUPTED = 130


class Code(Enum):
    """A fine-grained code; its value is (number, exit status, title). Tests assert the member, never the text."""

    # 01xx usage and targets
    USAGE = ("FARM-E0101", Status.USAGE, "wrong usage")
    TARGET_UNKNOWN = ("FARM-E0102", Status.USAGE, "unknown target")
    TARGET_INVALID = ("FARM-E0110", Status.BAD, "faulty target file")
    DEVICE_UNKNOWN = ("FARM-E0111", Status.USAGE, "unknown device")
    INTERRUPTED = ("FARM-E0103", Status.INTERRUPTED, "interrupted")
    OUTPUT_NOT_A_FOLDER = ("FARM-E0104", Status.USAGE, "the output is not a folder")

    # 02xx model and frontend
    MODEL_INVALID = ("FARM-E0201", Status.BAD, "not a model")
    MODEL_TRUNCATED = ("FARM-E0202", Status.BAD, "the model file ends too early")
    OPERATOR_UNKNOWN = ("FARM-E0205", Status.BAD, "unknown operator")
    OPSET_UNSUPPORTED = ("FARM-E0206", Status.BAD, "unsupported operator set version")
    GRAPH_INVALID = ("FARM-E0207", Status.BAD, "the model's graph is invalid")
    DTYPE_UNSUPPORTED = ("FARM-E0209", Status.BAD, "unsupported element type")
    OPERATOR_FORM_UNSUPPORTED = ("FARM-E0210", Status.BAD, "this form of an operator is not supported")
    SHAPE_MISSING = ("FARM-E0211", Status.USAGE, "a dynamic input needs a shape")
    SHAPE_MISMATCH = ("FARM-E0212", Status.USAGE, "a given shape does not fit the model")
    SHAPE_NOT_INFERRED = ("FARM-E0213", Status.BAD, "a shape cannot be inferred")
    TENSOR_INVALID = ("FARM-E0214", Status.BAD, "a tensor of the model is invalid")
    MODEL_NOT_SCRUBBED = ("FARM-E0217", Status.BAD, "a model was not scrubbed")
    MEDIA_REJECTED = ("FARM-E0215", Status.BAD, "media dialect text does not parse")
    MEDIA_INVALID = ("FARM-E0216", Status.BAD, "a media operation is invalid")
    MODEL_MISSING = ("FARM-E0241", Status.BAD, "the model file is missing")
    MODEL_NOT_A_FILE = ("FARM-E0242", Status.BAD, "the model is not a file")
    MODEL_EMPTY = ("FARM-E0243", Status.BAD, "the model file is empty")
    MODEL_TOO_LARGE = ("FARM-E0244", Status.BAD, "the model file is too large")
    EXTERNAL_MISSING = ("FARM-E0245", Status.BAD, "external data of the model is missing")
    EXTERNAL_OUTSIDE = ("FARM-E0246", Status.BAD, "external data lies outside the model's folder")

    # 03xx compile and child processes
    COMPILE_FAILED = ("FARM-E0301", Status.BAD, "the compiler failed")
    CHILD_TIMEOUT = ("FARM-E0302", Status.BAD, "a child process ran past its time limit")
    CHILD_KILLED = ("FARM-E0303", Status.BAD, "a child process was killed by a signal")
    CHILD_NOT_STARTED = ("FARM-E0304", Status.ENVIRONMENT, "a child process could not be started")
    TOOL_FAILED = ("FARM-E0330", Status.BAD, "a tool failed")
    TOOL_TIMEOUT = ("FARM-E0331", Status.BAD, "a tool ran past its time limit")
    TOOL_OUTPUT = ("FARM-E0332", Status.BAD, "a tool answered something unexpected")
    ELF_INVALID = ("FARM-E0333", Status.BAD, "not an ELF file of a target")
    HARDENING_MISSING = ("FARM-E0334", Status.BAD, "a hardening property is missing from linked code")
    CHILD_MEMORY = ("FARM-E0305", Status.BAD, "a child process ran past its memory limit")
    CHILD_FILE_SIZE = ("FARM-E0306", Status.BAD, "a child process wrote too large a file")
    RUNNER_LOST = ("FARM-E0308", Status.ENVIRONMENT, "a sandbox was lost under way")
    CHILD_OUTPUT = ("FARM-E0309", Status.BAD, "a child process wrote too much in all")
    CHILD_SILENT = ("FARM-E0310", Status.BAD, "a compile made no progress for too long")
    CHILD_CRASHED = ("FARM-E0307", Status.BAD, "a child process ended without a result")
    MLIR_REJECTED = ("FARM-E0320", Status.BAD, "MLIR rejects a module or a pass pipeline")
    OPERATOR_NOT_LOWERED = ("FARM-E0321", Status.BAD, "the backend does not lower this form of an operator")
    VECTOR_TOO_LARGE = ("FARM-E0322", Status.BAD, "a vector is too large: something was not tiled")
    IR_UNEXPECTED = ("FARM-E0323", Status.BAD, "the LLVM IR is not of the expected form")
    KERNEL_WRONG = ("FARM-E0325", Status.BAD, "a kernel does not compute what it should")
    RULE_FILE_INVALID = ("FARM-E0340", Status.USAGE, "a file of fusion rules does not parse")
    RULE_INVALID = ("FARM-E0341", Status.USAGE, "not a fusion rule")
    RULE_CONSTRAINT = ("FARM-E0342", Status.USAGE, "not a constraint of a fusion rule")
    RULES_UNAVAILABLE = ("FARM-E0343", Status.BAD, "the fusion rules of a payload are not at hand")
    LAYOUT_INFEASIBLE = ("FARM-E0324", Status.BAD, "no layout fits the graph")

    # 04xx store and bundle
    JSON_INVALID = ("FARM-E0401", Status.BAD, "not valid JSON")
    JSON_NOT_CANONICAL = ("FARM-E0402", Status.BAD, "JSON is not in canonical form")
    SCHEMA_MISMATCH = ("FARM-E0403", Status.BAD, "JSON does not match its schema")
    DIGEST_INVALID = ("FARM-E0404", Status.BAD, "not a digest")
    STORE_MISSING = ("FARM-E0405", Status.BAD, "content is not in the store")
    STORE_CORRUPT = ("FARM-E0406", Status.BAD, "stored content does not match its digest")
    STATE_ILLEGAL = ("FARM-E0407", Status.BAD, "illegal change of state")
    NAME_INVALID = ("FARM-E0408", Status.BAD, "a name cannot be used")
    BUNDLE_INVALID = ("FARM-E0420", Status.BAD, "not a bundle")
    BUNDLE_CORRUPT = ("FARM-E0421", Status.BAD, "a file of the bundle does not match its digest or size")
    BUNDLE_MISSING = ("FARM-E0422", Status.BAD, "a file of the bundle is missing")
    BUNDLE_EXTRA = ("FARM-E0423", Status.BAD, "the bundle holds a file that nothing names")
    BUNDLE_UNSAFE = ("FARM-E0424", Status.BAD, "the bundle holds something other than plain files")
    BUNDLE_LIMIT = ("FARM-E0425", Status.BAD, "the bundle exceeds a limit")
    BUNDLE_CHANGED = ("FARM-E0426", Status.BAD, "the bundle changed while it was read")
    PAYLOAD_INVALID = ("FARM-E0427", Status.BAD, "not a payload")
    OUTPUT_FOREIGN = ("FARM-E0428", Status.USAGE, "the output folder is not a bundle")
    VERSION_INVALID = ("FARM-E0429", Status.USAGE, "not a semantic version")
    SBOM_INVALID = ("FARM-E0431", Status.BAD, "not the bill of materials of a payload")
    INSPECT_UNKNOWN = ("FARM-E0430", Status.BAD, "a file of a kind that is not known")

    # 05xx signing and verification
    KEY_REQUIRED = ("FARM-E0501", Status.USAGE, "no key was given")
    KEY_MISSING = ("FARM-E0502", Status.USAGE, "key not found")
    KEY_EXISTS = ("FARM-E0503", Status.USAGE, "the key exists already")
    KEY_INVALID = ("FARM-E0504", Status.USAGE, "not a usable key")
    KEY_EXPOSED = ("FARM-E0505", Status.ENVIRONMENT, "a private key is open to others")
    SIGNATURE_INVALID = ("FARM-E0510", Status.BAD, "a signature does not verify")
    SIGNATURE_FOREIGN = ("FARM-E0511", Status.BAD, "an attestation names something else")
    SIGNATURE_MISSING = ("FARM-E0512", Status.BAD, "an attestation is missing")
    WRONG_KEY = ("FARM-E0513", Status.BAD, "signed with another key")
    ATTESTATION_INVALID = ("FARM-E0514", Status.BAD, "not an attestation of this farm")
    DEVICE_INDEX_WRONG = ("FARM-E0515", Status.BAD, "media.idx does not belong to the bundle")
    PAYLOAD_INCONSISTENT = ("FARM-E0516", Status.BAD, "the files of a payload contradict each other")
    POLICY_REFUSED = ("FARM-E0520", Status.REFUSED, "refused by the verification policy")
    POLICY_INVALID = ("FARM-E0521", Status.USAGE, "not a verification policy")
    SIGNER_REFUSED = ("FARM-E0530", Status.BAD, "the signer refused to sign")
    SIGNER_PROTOCOL = ("FARM-E0531", Status.BAD, "a message to or from the signer is malformed")
    SIGNER_UNREACHABLE = ("FARM-E0532", Status.ENVIRONMENT, "the signer cannot be reached")
    SIGNER_PEER = ("FARM-E0533", Status.REFUSED, "the signer serves its own user only")
    LICENCE_DENIED = ("FARM-E0540", Status.REFUSED, "a licence is refused by the policy")
    LICENCE_REVIEW = ("FARM-E0541", Status.REFUSED, "a licence wants a review")
    LICENCE_INVALID = ("FARM-E0542", Status.USAGE, "not a licence expression")
    LICENCE_POLICY_INVALID = ("FARM-E0543", Status.USAGE, "not a licence policy")
    WAIVER_INVALID = ("FARM-E0544", Status.USAGE, "not a usable waiver")
    SCAN_FAILED = ("FARM-E0545", Status.BAD, "the licence scan failed")

    # 06xx ledger and worker
    LEDGER_UNAVAILABLE = ("FARM-E0601", Status.ENVIRONMENT, "the ledger cannot be used")
    LEDGER_NEWER = ("FARM-E0602", Status.ENVIRONMENT, "a newer farm made the ledger")
    LEDGER_CORRUPT = ("FARM-E0603", Status.BAD, "the ledger is damaged")
    RUN_UNKNOWN = ("FARM-E0610", Status.USAGE, "no such build or run")
    LEASE_LOST = ("FARM-E0611", Status.BAD, "a lease is lost")
    ATTEMPTS_EXHAUSTED = ("FARM-E0612", Status.BAD, "a run wore out its workers")
    RESULT_REFUSED = ("FARM-E0613", Status.BAD, "the result of a compile was refused")
    PAYLOAD_DIFFERS = ("FARM-E0614", Status.BAD, "two compiles of the same action differ")
    WORKER_FAILED = ("FARM-E0615", Status.ENVIRONMENT, "a worker process could not work")
    OBJECT_DIFFERS = ("FARM-E0617", Status.BAD, "a cached object is not what a compile gives")
    SOURCES_CHANGED = ("FARM-E0616", Status.ENVIRONMENT, "the farm's sources changed during a compile")
    BROKER_UNAVAILABLE = ("FARM-E0620", Status.ENVIRONMENT, "the broker cannot be reached")
    BROKER_POLICY = ("FARM-E0621", Status.ENVIRONMENT, "the broker may drop messages")
    GATE_UNREACHABLE = ("FARM-E0640", Status.ENVIRONMENT, "the gate cannot be reached")
    GATE_REFUSED = ("FARM-E0641", Status.REFUSED, "the gate refused a worker")
    GATE_PROTOCOL = ("FARM-E0642", Status.BAD, "a message to or from the gate is malformed")
    IDENTITY_INVALID = ("FARM-E0643", Status.USAGE, "not a usable worker identity")
    IDENTITY_EXISTS = ("FARM-E0644", Status.USAGE, "the worker is enrolled already")
    IDENTITY_UNKNOWN = ("FARM-E0645", Status.USAGE, "no such worker is enrolled")
    REGISTRY_UNREACHABLE = ("FARM-E0646", Status.ENVIRONMENT, "the blob registry cannot be reached")
    REGISTRY_REFUSED = ("FARM-E0647", Status.ENVIRONMENT, "the blob registry refused a request")
    BLOB_MISSING = ("FARM-E0648", Status.BAD, "the blob registry does not hold a blob")
    BLOB_REFUSED = ("FARM-E0649", Status.BAD, "a blob is not what its digest and size say")

    # 07xx environment
    DISK_FULL = ("FARM-E0701", Status.ENVIRONMENT, "the disk is full")
    READ_ONLY = ("FARM-E0702", Status.ENVIRONMENT, "the file system is read-only")
    PERMISSION = ("FARM-E0703", Status.ENVIRONMENT, "permission denied")
    FILE_MISSING = ("FARM-E0704", Status.ENVIRONMENT, "file not found")
    FILE_IO = ("FARM-E0705", Status.ENVIRONMENT, "a file could not be read or written")
    LOCK_TIMEOUT = ("FARM-E0706", Status.ENVIRONMENT, "a lock was not released in time")
    PATH_TOO_LONG = ("FARM-E0707", Status.ENVIRONMENT, "a path is too long")
    TOOL_MISSING = ("FARM-E0730", Status.ENVIRONMENT, "a pinned tool is missing")
    TOOL_CHANGED = ("FARM-E0731", Status.ENVIRONMENT, "an installed tool is not the one that was pinned")
    SCAN_TOOLS_MISSING = ("FARM-E0732", Status.ENVIRONMENT, "the licence scanner is not installed")
    PIN_GONE = ("FARM-E0740", Status.ENVIRONMENT, "a pin is no longer served")
    PINS_INVALID = ("FARM-E0741", Status.BAD, "not a lock of the image")
    IMAGE_INVALID = ("FARM-E0742", Status.BAD, "the image is not what it should be")
    IMAGE_MISSING = ("FARM-E0743", Status.ENVIRONMENT, "the image is not built")
    PACKAGES_UNREACHABLE = ("FARM-E0744", Status.ENVIRONMENT, "packages cannot be downloaded")
    RUNNER_UNAVAILABLE = ("FARM-E0721", Status.ENVIRONMENT, "a runner cannot be used here")
    MACHINE_LACKS = ("FARM-E0720", Status.ENVIRONMENT, "this machine lacks something")

    # 08xx device runtime, check and bench
    DEVICE_FILE_INVALID = ("FARM-E0810", Status.BAD, "a file that the device reads is malformed")
    REFERENCE_FAILED = ("FARM-E0830", Status.BAD, "the reference runtime failed on the model")
    DEVICE_RUN_FAILED = ("FARM-E0831", Status.BAD, "the compiled model failed to run")
    CASE_INVALID = ("FARM-E0832", Status.BAD, "an input or test case does not fit the model")
    OUTSIDE_TOLERANCE = ("FARM-E0833", Status.BAD, "an output is outside the tolerance")
    FIGURE_INVALID = ("FARM-E0834", Status.BAD, "a measured figure is invalid")
    ENGINE_FAILED = ("FARM-E0835", Status.BAD, "the device runtime refused a call")
    NOT_RUNNABLE_HERE = ("FARM-E0836", Status.ENVIRONMENT, "this processor cannot run the target")
    REBUILD_DIFFERS = ("FARM-E0837", Status.BAD, "a rebuild gave other bytes")
    MODEL_UNAVAILABLE = ("FARM-E0838", Status.BAD, "the model of a bundle is not at hand")
    RECIPE_CHANGED = ("FARM-E0840", Status.BAD, "this farm no longer has the recipe of a payload")
    VARIATION_UNAVAILABLE = ("FARM-E0839", Status.ENVIRONMENT, "this machine cannot vary what was asked")

    # 09xx internal
    INTERNAL = ("FARM-E0901", Status.BAD, "internal error")
    NOT_JSON = ("FARM-E0902", Status.BAD, "a value has no canonical JSON form")

    # 10xx release and registry
    BUMP_TOO_LOW = ("FARM-E1001", Status.REFUSED, "a version would hide a change")
    VERSION_NOT_NEXT = ("FARM-E1002", Status.REFUSED, "a version does not follow those released")
    SOURCE_DIRTY = ("FARM-E1003", Status.REFUSED, "the farm's sources are not those of a commit")
    BUILDS_TOO_FEW = ("FARM-E1004", Status.REFUSED, "too few builds agree")
    BUILDS_DISAGREE = ("FARM-E1005", Status.REFUSED, "builds of a payload disagree")
    TARGETS_INCOMPLETE = ("FARM-E1006", Status.REFUSED, "a target that the channel demands is missing")
    CHANNEL_REFUSED = ("FARM-E1007", Status.REFUSED, "the channel does not take such a version")
    CHANNELS_INVALID = ("FARM-E1008", Status.USAGE, "not a list of release channels")
    NOT_RELEASED = ("FARM-E1009", Status.REFUSED, "the bundle is not a release")
    RELEASE_EXISTS = ("FARM-E1010", Status.REFUSED, "the version is published with other content")
    RELEASE_UNKNOWN = ("FARM-E1011", Status.BAD, "no such release is published")
    RELEASE_WITHDRAWN = ("FARM-E1012", Status.REFUSED, "the release is withdrawn")
    RELEASE_NOT_COMPARED = ("FARM-E1013", Status.REFUSED, "a release was not compared with the one published before it")
    REFERENCE_INVALID = ("FARM-E1020", Status.USAGE, "not a reference to a registry")
    MANIFEST_MISSING = ("FARM-E1021", Status.BAD, "the registry does not hold a document")
    MANIFEST_REPLACED = ("FARM-E1022", Status.BAD, "a document of the registry is not what its digest says")
    TAG_MOVED = ("FARM-E1023", Status.BAD, "a tag is not where the release log says")
    LOG_INVALID = ("FARM-E1024", Status.BAD, "the release log is damaged")
    LOG_BEHIND = ("FARM-E1025", Status.BAD, "the registry shows an older state than was seen before")
    LOG_FORKED = ("FARM-E1026", Status.BAD, "the release log was rewritten")
    CREDENTIALS_REFUSED = ("FARM-E1027", Status.ENVIRONMENT, "the registry does not let us in")
    LOCKFILE_INVALID = ("FARM-E1030", Status.USAGE, "not a lock file of a consumer")
    OFFLINE = ("FARM-E1031", Status.ENVIRONMENT, "something is not here, and the network is off")

    def __init__(self, number: str, status: Status, title: str) -> None:
        self.number = number
        self.status = status
        self.title = title

    @property
    def of_compile(self) -> bool:
        """Whether a compile can find it by itself, and is believed when it reports it.

        That is what model, rules, target and tools are, and what the disk refused it. What others find out about a
        compile (how it ended, whether its sandbox, lease or result holds) is not for itself to say.
        """
        return self.number.startswith(_RANGES_OF_COMPILE) or self in _OTHERS_OF_COMPILE

    @classmethod
    def from_number(cls, number: str) -> Code:
        """The member of a printed number such as "FARM-E0201"; raises `ValueError` on an unknown one."""
        for member in cls:
            if member.number == number:
                return member
        raise ValueError(f"unknown error code {number!r}")


_RANGES_OF_COMPILE = tuple(f"FARM-E{digits}" for digits in ("02", "032", "033", "034", "070", "073"))
_OTHERS_OF_COMPILE = frozenset(
    {
        Code.USAGE,
        Code.TARGET_UNKNOWN,
        Code.TARGET_INVALID,
        Code.DEVICE_UNKNOWN,
        Code.COMPILE_FAILED,
        Code.JSON_INVALID,
        Code.JSON_NOT_CANONICAL,
        Code.SCHEMA_MISMATCH,
        Code.DIGEST_INVALID,
        Code.NAME_INVALID,
    }
)


class FarmError(Exception):
    """An error that a person can act on.

    `what` happened and `why` are phrases without a full stop, `next_step` is a sentence; `detail` is a JSON object for
    machines (names of files, nodes, digests).
    """

    def __init__(
        self, code: Code, what: str, why: str = "", next_step: str = "", detail: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(code, what, why, next_step, detail)
        self.code = code
        self.what = what
        self.why = why
        self.next_step = next_step
        self.detail: dict[str, Any] = dict(detail or {})

    @property
    def status(self) -> Status:
        """Exit status of a command that ends with this error."""
        return self.code.status

    def __str__(self) -> str:
        text = f"{self.code.number} {self.what}"
        if self.why:
            text += f": {self.why}"
        return f"{text}. {self.next_step}" if self.next_step else text

    def advised(self, next_step: str) -> FarmError:
        """The same error with something to do next: this, unless it says that already."""
        return self if self.next_step else FarmError(self.code, self.what, self.why, next_step, self.detail)

    def to_json(self) -> dict[str, Any]:
        """The error as a JSON object, schema "error/1"."""
        return {
            "schema": "error/1",
            "code": self.code.number,
            "title": self.code.title,
            "status": int(self.status),
            "what": self.what,
            "why": self.why,
            "next": self.next_step,
            "detail": self.detail,
        }

    @classmethod
    def from_json(cls, data: Any) -> FarmError:
        """The error that `to_json` wrote; anything else (it may come from a dying child) becomes an INTERNAL error."""
        try:
            if data["schema"] != "error/1" or not isinstance(data["detail"], dict):
                raise ValueError("not an error/1 object")
            what, why, next_step = (data[name] for name in ("what", "why", "next"))
            if not all(isinstance(text, str) for text in (what, why, next_step)):
                raise ValueError("what, why and next must be strings")
            return cls(Code.from_number(data["code"]), what, why, next_step, data["detail"])
        except (KeyError, TypeError, ValueError) as reason:
            return cls(Code.INTERNAL, "an error report could not be read", str(reason))


@contextmanager
def advising(next_step: str) -> Iterator[None]:
    """Give errors of the block that do not say what to do next this step: who reads a file knows what it is for."""
    try:
        yield
    except FarmError as error:
        if error.next_step:
            raise
        raise error.advised(next_step) from error
