"""A target is a file, `targets/<name>.toml`: adding a target is adding a file. Reading is strict."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from kernelfarm import canonical, digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from toolchains import features
from toolchains.machines import MACHINES
from toolchains.properties import Property

_FOLDER = Path(__file__).parent / "targets"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_FEATURE = re.compile(r"[+-][a-z0-9.-]+")
BROADCASTS = ("memory", "register", "scalar")
_PROGRAM = re.compile(r"[a-z0-9][a-z0-9_-]*")
_IR_TEXT = re.compile(r"[A-Za-z0-9 _.,+-]*")


@dataclass(frozen=True, slots=True)
class Cpu:
    """`name` and `features` are LLVM's target-cpu and target-features of kernels.

    `baseline` is the CPU of runtime, loader and crypto; `required` are the features that a device must have, by the
    names of `toolchains.features`.
    """

    name: str
    baseline: str
    features: tuple[str, ...]
    required: tuple[str, ...]

    @property
    def feature_string(self) -> str:
        """Value of the function attribute `target-features`."""
        return ",".join(self.features)


@dataclass(frozen=True, slots=True)
class Vector:
    """Vector unit: bytes of a register, how many registers, multiply-add instructions per cycle, register class.

    `fused` says whether multiply-add with one rounding is an instruction: where it is not, a fused one would be a
    call of a function that no kernel has. A machine without f32 vectors has `bytes` 4: one lane in a plain register.
    `broadcast` says where a multiply-add takes a factor from that all lanes share: "memory", a "scalar" register of
    another file, or a vector "register". `nan_maximum`: bounds are written as a maximum or minimum that keeps NaN (one
    instruction on Arm; Hexagon's back end drops NaN in a compare and select), else as compare and select.
    `register_class` is what the gate must find; empty = there is none to find.
    """

    bytes: int
    registers: int
    fma_ports: int
    fused: bool
    broadcast: str
    nan_maximum: bool
    register_class: str

    @property
    def f32_lanes(self) -> int:
        """f32 values in a register."""
        return self.bytes // 4


@dataclass(frozen=True, slots=True)
class CodeForm:
    """What LLVM IR must say besides the CPU. `index_bits` is the width of a pointer and of MLIR's `index`.

    `attributes` are string attributes of every function (name, value; "" = a name alone), `module_flags` flags of every
    module (behaviour, name, value) beyond those that KCFI needs. IR takes nothing of this from the command line.
    """

    index_bits: int
    attributes: tuple[tuple[str, str], ...]
    module_flags: tuple[tuple[int, str, int | str], ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """Sizes in bytes that schedules plan with; 0 = unknown or absent."""

    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    line_bytes: int
    on_chip_bytes: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """Shapes of a matrix unit, each "MxNxK:type:layout"; empty = there is none."""

    shapes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hardening:
    """Properties that linked kernels must have, and those that this target cannot have; each is in one of the two."""

    required: tuple[Property, ...]
    impossible: tuple[Property, ...]

    @property
    def kcfi(self) -> bool:
        """Whether indirect calls are checked by KCFI on this target."""
        return Property.KCFI in self.required


@dataclass(frozen=True, slots=True)
class Run:
    """How its code is run on another machine, and the oldest C library that a program loading it may be built for.

    `emulator` is the start of a command line in which "{cpu}" stands for `cpu`; empty = no emulator has this processor.
    """

    emulator: tuple[str, ...]
    cpu: str
    oldest_libc: str

    @property
    def emulator_argv(self) -> tuple[str, ...]:
        """The command line with the CPU put in; its first word is a program's name."""
        return tuple(word.replace("{cpu}", self.cpu) for word in self.emulator)


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of device. `triple` is LLVM's, `machine` a key of `toolchains.machines`; highest `preference` wins."""

    SCHEMA: ClassVar[str] = "target/1"

    name: str
    summary: str
    triple: str
    machine: str
    preference: int
    cpu: Cpu
    code: CodeForm
    vector: Vector
    memory: Memory
    matrix: Matrix
    hardening: Hardening
    run: Run

    @property
    def index_bits(self) -> int:
        """Bits of a pointer and of MLIR's `index`: 64 or 32."""
        return self.code.index_bits

    @property
    def function_attributes(self) -> str:
        """What stands in LLVM IR's `attributes #n = { ... }` of every function: CPU, features, `code.attributes`."""
        pairs = (("target-cpu", self.cpu.name), ("target-features", self.cpu.feature_string), *self.code.attributes)
        return " ".join(f'"{name}"="{value}"' if value else f'"{name}"' for name, value in pairs)

    @property
    def digest(self) -> Digest:
        """Digest of the canonical JSON: comments and order in the file do not count."""
        return digest.of_bytes(canonical.encode(self))

    def to_json(self) -> dict[str, Any]:
        """JSON object, schema "target/1"."""
        value: dict[str, Any] = canonical.to_json(self)
        return value

    @classmethod
    def from_json(cls, data: Any) -> Target:
        """The target that `to_json` wrote; raises `FarmError` SCHEMA_MISMATCH or TARGET_INVALID."""
        target = canonical.from_json(cls, data, name="target")
        _check(target)
        return target


def names() -> tuple[str, ...]:
    """Names of all targets, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def load(name: str) -> Target:
    """The target `name`; raises `FarmError` TARGET_UNKNOWN with the nearest names, TARGET_INVALID for a faulty file."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(near)}?" if near else "`farm targets` lists them."
        raise FarmError(
            Code.TARGET_UNKNOWN,
            f"unknown target {name!r}",
            f"the targets are {', '.join(known)}",
            hint,
            {"target": name, "nearest": near},
        )
    return read(_FOLDER / f"{name}.toml")


def read(path: Path) -> Target:
    """The target in a file; raises `FarmError` TARGET_INVALID naming the file and the key."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as reason:
        raise _invalid(path.name, "", f"not TOML: {reason}") from reason
    if "schema" in data:
        raise _invalid(path.name, "schema", "unknown key")
    try:
        target = canonical.from_json(Target, {"schema": Target.SCHEMA, **data}, name=path.name)
    except FarmError as reason:
        key = str(reason.detail.get("at", "")).removeprefix(path.name).removeprefix(".")
        raise _invalid(path.name, key, reason.why) from reason
    if target.name != path.stem:
        raise _invalid(path.name, "name", f"the name {target.name!r} is not the name of the file")
    _check(target)
    return target


def _check(target: Target) -> None:
    """What types cannot say. The device header holds at most 31 bytes of the name."""

    def require(holds: bool, key: str, why: str) -> None:
        if not holds:
            raise _invalid(f"{target.name}.toml", key, why)

    require(_NAME.fullmatch(target.name) is not None, "name", "1 to 31 of a-z, 0-9 and -")
    require(target.machine in MACHINES, "machine", f"one of {', '.join(sorted(MACHINES))}")
    require(0 < target.preference < 1 << 16, "preference", "1 to 65535")
    require(all(_FEATURE.fullmatch(f) for f in target.cpu.features), "cpu.features", "each is + or - and a name")
    require(list(target.cpu.features) == sorted(set(target.cpu.features)), "cpu.features", "sorted, each once")
    known = features.known(target.machine)
    unknown = sorted(set(target.cpu.required) - set(known))
    require(not unknown, "cpu.required", f"unknown feature {', '.join(unknown)}; known: {', '.join(known)}")
    require(len(set(target.cpu.required)) == len(target.cpu.required), "cpu.required", "each once")
    vector, memory = target.vector, target.memory
    code = target.code
    require(code.index_bits == MACHINES[target.machine].bits, "code.index_bits", f"not those of {target.machine}")
    texts = [part for pair in code.attributes for part in pair]
    texts += [str(part) for flag in code.module_flags for part in flag]
    require(
        all(_IR_TEXT.fullmatch(text) for text in texts), "code", "a name or value that LLVM IR cannot hold as it is"
    )
    require(all(flag[0] in range(1, 9) for flag in code.module_flags), "code.module_flags", "behaviours are 1 to 8")
    require(vector.bytes in (4, 16, 32, 64, 128), "vector.bytes", "4, 16, 32, 64 or 128")
    require(vector.registers > 0, "vector.registers", "positive")
    require(vector.fma_ports > 0, "vector.fma_ports", "positive")
    require(vector.broadcast in BROADCASTS, "vector.broadcast", f"one of {', '.join(BROADCASTS)}")
    argv = target.run.emulator
    require(bool(argv) or not target.run.cpu, "run.cpu", "without an emulator it says nothing")
    require(not argv or _PROGRAM.fullmatch(argv[0]) is not None, "run.emulator", "a program's name, never a path")
    require(
        min(memory.l1d_bytes, memory.l2_bytes, memory.l3_bytes, memory.on_chip_bytes) >= 0, "memory", "not negative"
    )
    require(memory.line_bytes > 0, "memory.line_bytes", "positive")
    listed = [*target.hardening.required, *target.hardening.impossible]
    require(sorted(listed) == sorted(Property), "hardening", "each property in exactly one of required and impossible")


def _invalid(file: str, key: str, why: str) -> FarmError:
    return FarmError(
        Code.TARGET_INVALID,
        f"target file {file} is faulty" + (f" at {key}" if key else ""),
        why,
        "Compare it with the other files in toolchains/targets.",
        {"file": file, "key": key},
    )
