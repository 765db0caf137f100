"""The device runtime built once, and tiny bundles of a kernel written by hand, for the tests of loader and programs."""

from __future__ import annotations

import array
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kernelfarm import device, digest
from kernelfarm.device import Blob, BlobKind, DeviceIndex, IndexEntry, PayloadHeader, Variant
from toolchains import runtime_build, target, zig
from toolchains.machines import MACHINES
from toolchains.target import Target

TARGET: Target = target.load("x86-64-v3")
"""Any target of this machine: the kernels of the tests are compiled for its baseline CPU. `goal`: another one."""
RUNTIME = runtime_build.source_root()
N = 1024
INCLUDES = ("include", "src", "program")


def ramp(values: int, step: float) -> bytes:
    """0, `step`, 2 `step`, ... in f32."""
    return array.array("f", [step * k for k in range(values)]).tobytes()


WEIGHTS = ramp(N, 0.25)
INPUT = ramp(N, 1.0)
EXPECTED = ramp(N, 2.5)
"""2 * (x + w), exact in f32."""


def kernels(
    folder: Path,
    defines: Sequence[str] = (),
    name: str = "kernels.so",
    goal: Target = TARGET,
    source: str = "tests/kernel.c",
) -> bytes:
    """runtime/tests/kernel.c as a linked kernel object for the baseline CPU."""
    made = folder / "kernel.o"
    compile_unit(source, made, defines=defines, goal=goal)
    zig.link_kernels([made, *helpers(goal)], folder / name, goal)
    return (folder / name).read_bytes()


@dataclass(frozen=True, slots=True)
class Tiny:
    """A bundle as the device sees it; `header` gets its blobs when the bundle is written."""

    kernels: bytes
    weights: bytes = WEIGHTS
    golden: bytes = b""
    target: str = "tiny"
    cpu_features: int = 0
    preference: int = 1
    machine: int = 62
    abi_version: int = device.ABI_VERSION
    ir_version: str = device.IR_VERSION

    def header(self) -> PayloadHeader:
        """The payload header of kernels, weights and golden vectors as they are."""
        blobs = (
            Blob(BlobKind.KERNELS, digest.of_bytes(self.kernels), len(self.kernels)),
            Blob(BlobKind.WEIGHTS, digest.of_bytes(self.weights), len(self.weights)),
            *([Blob(BlobKind.GOLDEN, digest.of_bytes(self.golden), len(self.golden))] if self.golden else []),
        )
        variants = (Variant(self.cpu_features, self.preference, 0, 1),)
        return PayloadHeader(self.target, self.machine, variants, blobs, self.abi_version, self.ir_version)


def put(layout: Path, data: bytes) -> IndexEntry:
    """Write a blob under its digest."""
    found = digest.of_bytes(data)
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest.hex_of(found)).write_bytes(data)
    return IndexEntry(found, len(data))


def blob(layout: Path, data: bytes) -> Path:
    """Where the blob of these bytes lies."""
    return layout / "blobs" / "sha256" / digest.hex_of(digest.of_bytes(data))


def write(layout: Path, *payloads: Tiny, header: bytes | None = None) -> Path:
    """Write payloads with media.idx; `header` replaces the bytes of their header, under its right digest."""
    entries = []
    for payload in payloads:
        put(layout, payload.kernels)
        put(layout, payload.weights)
        if payload.golden:
            put(layout, payload.golden)
        entries.append(put(layout, header if header is not None else payload.header().to_bytes()))
    (layout / device.INDEX_NAME).write_bytes(DeviceIndex(tuple(entries)).to_bytes())
    return layout


def changed(payload: Tiny, at: int, new: bytes) -> Tiny:
    """The payload with other bytes in its kernel object, under their right digest."""
    data = payload.kernels
    assert data[at : at + len(new)] != new
    return replace(payload, kernels=data[:at] + new + data[at + len(new) :])


def flips(data: bytes, places: Iterable[int]) -> Iterator[bytes]:
    """The data with one bit changed at each place; which bit follows from the place."""
    for place in places:
        yield data[:place] + bytes([data[place] ^ 1 << place * 7 % 8]) + data[place + 1 :]


def run(
    program: Path, *arguments: str | Path, timeout_s: float = 20.0, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """A program's answer; a signal shows as a negative return code. `prefix` is an emulator's command line."""
    return subprocess.run(
        [*prefix, str(program), *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s, check=False
    )


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _folder() -> Path:
    """A folder that lives as long as the test session."""
    _FOLDERS.append(tempfile.TemporaryDirectory(prefix="kf-device-"))
    return Path(_FOLDERS[-1].name)


def temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder for the time of a `with`."""
    return tempfile.TemporaryDirectory(prefix="kf-device-")


@cache
def runtime(goal: Target = TARGET) -> Path:
    """The folder of `libmedia_engine.so`, `media-run` and `media_engine.h`, built once."""
    out, work = _folder(), _folder()
    runtime_build.build_runtime(goal, out, work)
    return out


@cache
def helpers(goal: Target = TARGET) -> tuple[Path, ...]:
    """Whatever the compiler may call on machines without some instructions, built once."""
    return tuple(runtime_build.helpers(goal, None, _folder()))


@cache
def objects(goal: Target = TARGET) -> tuple[Path, ...]:
    """The runtime's objects, built once."""
    return (*runtime_build.build_objects(goal, ("src",), _folder()), *helpers(goal))


@cache
def tiny(goal: Target = TARGET) -> Tiny:
    """The payload of the plain hand-written kernel, built once."""
    return Tiny(kernels(_folder(), goal=goal), machine=MACHINES[goal.machine].elf_machine)


@cache
def large(goal: Target = TARGET) -> Tiny:
    """The same kernel on so many values that several threads share its operations: 2.5 x for x = 0, 1, ..."""
    values = 64 * N
    machine = MACHINES[goal.machine].elf_machine
    return Tiny(kernels(_folder(), [f"N={values}"], goal=goal), ramp(values, 0.25), machine=machine)


@cache
def program(name: str, *extra: str, goal: Target = TARGET) -> Path:
    """runtime/tests/<name>.c as a program, built once."""
    return build_program(name, _folder(), extra=extra, goal=goal)


@cache
def checked_program(name: str, *extra: str) -> Path:
    """The same with address checks, built once."""
    return build_checked(name, _folder(), extra=extra)


def build_program(name: str, folder: Path, *, extra: Sequence[str] = (), goal: Target = TARGET) -> Path:
    """runtime/tests/<name>.c with the runtime and the start code, as a static program."""
    start = f"program/start_{goal.machine.replace('-', '_')}.c"
    linked = list(objects(goal))
    for source in ("program/start.c", start, "program/text.c", f"tests/{name}.c"):
        made = folder / (source.replace("/", "-") + ".o")
        compile_unit(source, made, extra=extra if source.startswith("tests/") else (), goal=goal)
        linked.append(made)
    return link_program(linked, folder / name)


_CHECKS = ("-fsanitize=address", "-fsanitize-address-use-after-return=never", "-mllvm", "-asan-globals=0")
_UNDEFINED = "alignment,bounds,integer-divide-by-zero,null,pointer-overflow,shift,signed-integer-overflow,unreachable"
_TRAPS = (f"-fsanitize={_UNDEFINED}", "-fsanitize-trap=undefined")  # all that may stand beside KCFI
_RENAMES = (
    "kf_os_allocate=kf_checked_allocate",
    "kf_os_release=kf_checked_release",
    "memcpy=__asan_memcpy",
    "memmove=__asan_memmove",
    "memset=__asan_memset",
    "memcmp=kf_checked_memcmp",
    "program_main=program_main_checked",
)
_BELOW_CHECKS = ("src/os_linux.c", "src/memory.c", "program/start.c", "program/start_x86_64.c", "tests/asan.c")


def build_checked(name: str, folder: Path, *, extra: Sequence[str] = ()) -> Path:
    """As `build_program`, with clang's address and undefined-behaviour checks in everything but the lowest layer."""
    sources = [
        f"src/{path.name}" for path in sorted((RUNTIME / "src").glob("*.c")) if runtime_build.is_for(path, "x86-64")
    ]
    sources += ["program/start.c", "program/start_x86_64.c", "program/text.c", "tests/asan.c", f"tests/{name}.c"]
    linked = []
    for source in dict.fromkeys(sources):
        made = folder / (source.replace("/", "-") + ".o")
        checked = source not in _BELOW_CHECKS
        flags = (*_CHECKS, *_TRAPS) if checked else ()
        own = extra if source == f"tests/{name}.c" else ()
        compile_unit(source, made, extra=(*flags, *own), defines=_RENAMES if checked else ())
        linked.append(made)
    linked.append(folder / "crypto.o")
    runtime_build.compile_zig(RUNTIME / "src" / "crypto.zig", linked[-1], TARGET, folder)
    return link_program(linked, folder / name)


def compile_unit(
    source: str, made: Path, *, extra: Sequence[str] = (), defines: Sequence[str] = (), goal: Target = TARGET
) -> None:
    """One C file of the runtime for the baseline CPU."""
    zig.compile_c(
        Path(source),
        made,
        goal,
        root=RUNTIME,
        cpu=goal.cpu.baseline,
        includes=INCLUDES,
        defines=defines,
        extra=extra,
    )


def link_program(linked: Sequence[Path], program: Path) -> Path:
    """A static position-independent program."""
    zig.link(linked, program, ["-pie", "--no-dynamic-linker", "-e", "_start"])
    program.chmod(0o755)
    return program
