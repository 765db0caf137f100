"""Builds the device runtime, `libmedia_engine.so` and the static program `media-run`, for a target's baseline CPU.

Neither needs a libc: the library loads into any process of the machine, the program starts on a bare kernel.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelfarm import digest
from kernelfarm.digest import Digest
from toolchains import ir, relocatable, sourcelist, zig, zig_sources
from toolchains.machines import CFI_FAIL, MACHINES
from toolchains.process import run_tool
from toolchains.target import Target, load
from toolchains.target import names as target_names
from toolchains.zig import Link
from toolchains.zig_sources import Kept

LIBRARY = "libmedia_engine.so"
PROGRAM = "media-run"
HEADER = "media_engine.h"
PATTERNS = ("include/*.h", "src/*", "program/*")
CHECKED_CALLS = "src/call.c"
"""The only file with calls through a pointer."""
_HELPERS = "compiler_rt.zig"
_INCLUDES = ("include", "src", "program")
_EXPORTS = "MEDIA_1 { global: media_*; local: *; };\n"


@dataclass(frozen=True, slots=True)
class Built:
    """The runtime of a target: its files, and the links that made two of them."""

    files: tuple[Path, ...]
    links: tuple[Link, ...]


def source_root() -> Path:
    """Folder of the runtime's sources, beside the Python rooms."""
    return Path(__file__).parent.parent / "runtime"


def source_digest() -> Digest:
    """Digest of everything `build_runtime` compiles."""
    return digest.of_tree(source_root(), PATTERNS)


def build_runtime(target: Target, out_dir: Path, work_dir: Path) -> Built:
    """Writes library, program and public header into `out_dir`; `work_dir` is an empty private folder.

    The same bytes from any folder. Raises `FarmError` TOOL_FAILED and its kin.
    """
    library, program = (build_objects(target, (folder,), work_dir) for folder in ("src", "program"))
    library += helpers(target, [*library, *program], work_dir)
    machine = MACHINES[target.machine]
    flags = ["-shared", f"-soname={LIBRARY}", *machine.link]
    shared = zig.link(library, out_dir / LIBRARY, flags, version_script=_EXPORTS)
    flags = ["-pie", "--no-dynamic-linker", "-e", "_start", *machine.link]
    static = zig.link([*library, *program], out_dir / PROGRAM, flags)
    shutil.copyfile(source_root() / "include" / HEADER, out_dir / HEADER)
    (out_dir / PROGRAM).chmod(0o755)
    (out_dir / LIBRARY).chmod(0o755)
    (out_dir / HEADER).chmod(0o644)
    return Built(tuple(out_dir / name for name in (LIBRARY, PROGRAM, HEADER)), (shared, static))


def build_objects(target: Target, folders: Iterable[str], work_dir: Path) -> list[Path]:
    """Objects of the runtime's folders, in `work_dir`; a file `<stem>_<machine>.c` is taken on that machine only."""
    objects = []
    for source in sorted(path for folder in folders for path in (source_root() / folder).iterdir()):
        if not is_for(source, target.machine):
            continue
        made = work_dir / f"{source.parent.name}-{source.stem}.o"
        if source.suffix == ".c":
            place = source.relative_to(source_root())
            compile_c(place, made, target)
        elif source.suffix == ".zig":
            compile_zig(source, made, target, work_dir)
        else:
            continue
        objects.append(made)
    return objects


def compile_c(source: Path, output: Path, target: Target) -> None:
    """A C file of the runtime, relative to its root, for the baseline CPU.

    On machines where a program goes on after the trap of a failed check, the trap becomes a call of `kf_cfi_fail`.
    """
    machine = MACHINES[target.machine]
    root, cpu = source_root(), target.cpu.baseline
    if machine.trap != CFI_FAIL or source.as_posix() != CHECKED_CALLS:
        zig.compile_c(source, output, target, root=root, cpu=cpu, includes=_INCLUDES)
        return
    text = output.with_suffix(".ll")
    zig.compile_c(source, text, target, root=root, cpu=cpu, includes=_INCLUDES, extra=("-S", "-emit-llvm"))
    text.write_text(ir.replace_trap(text.read_text(encoding="utf-8"), "kf_cfi_fail"), encoding="utf-8")
    zig.compile_ir(text, output, target)


def helpers(target: Target, callers: Iterable[Path] | None, work_dir: Path) -> list[Path]:
    """An object with what the compiler calls for what a machine has no instruction for, such as 64-bit division, as far
    as `callers` need it, or all of it for None; often none.

    It is zig's own compiler_rt without all else, which would cost ten seconds, and which clang's Hexagon back end does
    not compile the same way each time. Helpers may need others: only their object tells.
    """
    if not MACHINES[target.machine].helpers:
        return []
    source, made, wanted = _compile_helpers(target, callers, work_dir)
    sourcelist.write(made, zig_sources.of(source, target.machine, None if callers is None else wanted))
    return [made] if wanted else []


def _compile_helpers(
    target: Target, callers: Iterable[Path] | None, work_dir: Path
) -> tuple[Path, Path, frozenset[str]]:
    """Source, object and names of the helpers that are in it; without a name there is no object."""
    source, made = zig_sources.library() / _HELPERS, work_dir / "helpers.o"
    text = zig_to_ir(source, target, work_dir, in_place=True)
    whole = text.read_text(encoding="utf-8")
    defined, needed = (frozenset(), ir.aliases(whole)) if callers is None else relocatable.names(callers)
    offered = ir.aliases(whole) - defined
    wanted, lacking = frozenset[str](), needed & offered
    while lacking:
        wanted |= lacking
        text.write_text(ir.with_aliases(whole, wanted), encoding="utf-8")
        zig.compile_ir(text, made, target, extra=("-ffunction-sections",))
        lacking = (relocatable.names([made])[1] & offered) - wanted
    return source, made, wanted


def compiled_zig() -> dict[Path, dict[str, list[Kept]]]:
    """The zig files that `build_runtime` compiles, with the machines that it compiles each for, and what it keeps.

    It compiles the runtime for each target whose machine needs helpers: only then is it known which.
    """
    found: dict[Path, dict[str, list[Kept]]] = {
        source: {machine: [None] for machine in MACHINES} for source in source_root().glob("*/*.zig")
    }
    helped: dict[str, list[Kept]] = {name: [None] for name, machine in MACHINES.items() if machine.helpers}
    for target in (load(name) for name in target_names()):
        if (known := helped.get(target.machine)) is not None:
            with tempfile.TemporaryDirectory(prefix="kf-helpers-") as made:
                callers = build_objects(target, ("src", "program"), Path(made))
                kept = _compile_helpers(target, callers, Path(made))[2]
            known += [] if kept in known else [kept]
    return {**found, zig_sources.library() / _HELPERS: helped}


def is_for(source: Path, machine: str) -> bool:
    """Whether a source belongs to a machine: all do but those named for another one."""
    named = [other for other in MACHINES if source.stem.endswith("_" + other.replace("-", "_"))]
    return not named or machine in named


def compile_zig(source: Path, output: Path, target: Target, work_dir: Path) -> None:
    """A zig file of C functions to an object."""
    zig.compile_ir(zig_to_ir(source, target, work_dir), output, target, extra=("-ffunction-sections",))
    sourcelist.write(output, zig_sources.of(source, target.machine))


def zig_to_ir(source: Path, target: Target, work_dir: Path, *, in_place: bool = False) -> Path:
    """LLVM IR of a zig file, in `work_dir`, with the machine's control-flow notes, which zig itself does not write.

    With `in_place` it is compiled where it lies, because it imports files beside it.

    ReleaseSmall: other modes gave wrong digests on one machine. One job: zig numbers constants by the count of its
    threads, and their names are in the object. The cache is private to `work_dir`.
    """
    machine = MACHINES[target.machine]
    cache = {name: str(work_dir / "zig-cache") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    if not in_place:
        shutil.copyfile(source, work_dir / source.name)
    argv = [str(zig.zig_path()), "build-obj", "-j1", "-O", "ReleaseSmall", "-fstrip", "-fPIC"]
    argv += ["-target", machine.zig, f"-mcpu={machine.zig_cpu}", str(source) if in_place else source.name]
    argv += [f"-femit-llvm-ir={source.stem}.ll", "-fno-emit-bin"]
    run_tool(argv, cwd=work_dir, extra_env=cache, what=f"compiling {source.name}")
    made = work_dir / f"{source.stem}.ll"
    text = ir.add_attributes(ir.add_module_flags(made.read_text(encoding="utf-8"), target), target)
    made.write_text(text, encoding="utf-8")
    return made
