"""Builds the device runtime, `libmedia_engine.so` and the static program `media-run`, for a target's baseline CPU.

Neither needs a libc: the library loads into any process of the machine, the program starts on a bare kernel.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from toolchains import zig
from toolchains.machines import MACHINES
from toolchains.process import run_tool
from toolchains.target import Target

LIBRARY = "libmedia_engine.so"
PROGRAM = "media-run"
HEADER = "media_engine.h"
PATTERNS = ("include/*.h", "src/*", "program/*")
_INCLUDES = ("include", "src", "program")
_EXPORTS = "MEDIA_1 { global: media_*; local: *; };\n"


def source_root() -> Path:
    """Folder of the runtime's sources, beside the Python rooms."""
    return Path(__file__).parent.parent / "runtime"


def source_digest() -> Digest:
    """Digest of everything `build_runtime` compiles."""
    return digest.of_tree(source_root(), PATTERNS)


def build_runtime(target: Target, out_dir: Path, work_dir: Path) -> tuple[Path, ...]:
    """Writes library, program and public header into `out_dir` and returns them; `work_dir` is an empty private folder.

    The same bytes from any folder. Raises `FarmError` TOOL_FAILED and its kin.
    """
    library = build_objects(target, ("src",), work_dir)
    program = build_objects(target, ("program",), work_dir)
    machine = MACHINES[target.machine]
    zig.link(library, out_dir / LIBRARY, ["-shared", f"-soname={LIBRARY}", *machine.link], version_script=_EXPORTS)
    zig.link([*library, *program], out_dir / PROGRAM, ["-pie", "--no-dynamic-linker", "-e", "_start", *machine.link])
    shutil.copyfile(source_root() / "include" / HEADER, out_dir / HEADER)
    (out_dir / PROGRAM).chmod(0o755)
    (out_dir / LIBRARY).chmod(0o755)
    (out_dir / HEADER).chmod(0o644)
    return tuple(out_dir / name for name in (LIBRARY, PROGRAM, HEADER))


def build_objects(target: Target, folders: Iterable[str], work_dir: Path) -> list[Path]:
    """Objects of the runtime's folders, in `work_dir`; a file `<stem>_<machine>.c` is taken on that machine only."""
    objects = []
    for source in sorted(path for folder in folders for path in (source_root() / folder).iterdir()):
        if not _is_for(source, target.machine):
            continue
        made = work_dir / f"{source.parent.name}-{source.stem}.o"
        if source.suffix == ".c":
            place = source.relative_to(source_root())
            zig.compile_c(place, made, target, root=source_root(), cpu=target.cpu.baseline, includes=_INCLUDES)
        elif source.suffix == ".zig":
            compile_zig(source, made, target, work_dir)
        else:
            continue
        objects.append(made)
    return objects


def _is_for(source: Path, machine: str) -> bool:
    named = [other for other in MACHINES if source.stem.endswith("_" + other.replace("-", "_"))]
    return not named or machine in named


def compile_zig(source: Path, output: Path, target: Target, work_dir: Path) -> None:
    """A zig file of C functions to an object with the machine's control-flow notes, which zig itself does not write.

    ReleaseSmall: other modes gave wrong digests on one machine. The cache is private to `work_dir`.
    """
    machine = MACHINES[target.machine]
    cache = {name: str(work_dir / "zig-cache") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    shutil.copyfile(source, work_dir / source.name)
    cpu = target.cpu.baseline.replace("-", "_")
    argv = [str(zig.zig_path()), "build-obj", "-O", "ReleaseSmall", "-fstrip", "-fPIC"]
    argv += ["-target", machine.zig, f"-mcpu={cpu}", source.name, f"-femit-llvm-ir={source.stem}.ll", "-fno-emit-bin"]
    run_tool(argv, cwd=work_dir, timeout_s=300, extra_env=cache, what=f"compiling {source.name}")
    ir = work_dir / f"{source.stem}.ll"
    ir.write_text(add_module_flags(ir.read_text(encoding="utf-8"), target), encoding="utf-8")
    zig.compile_ir(ir, output, target)


def add_module_flags(ir: str, target: Target) -> str:
    """The module with the machine's control-flow flags. LLVM IR from zig has exactly one list of flags."""
    flags = MACHINES[target.machine].module_flags
    first = 1 + max((int(n) for n in re.findall(r"^!(\d+) = ", ir, flags=re.MULTILINE)), default=-1)
    names = ", ".join(f"!{first + k}" for k in range(len(flags)))
    ir, count = re.subn(
        r"^!llvm\.module\.flags = !\{(.*)\}$", rf"!llvm.module.flags = !{{\1, {names}}}", ir, flags=re.MULTILINE
    )
    if count != 1:
        raise FarmError(Code.TOOL_OUTPUT, "zig wrote LLVM IR of an unknown form", f"{count} lists of module flags")
    lines = [
        f'!{first + k} = !{{i32 {behaviour}, !"{name}", i32 {value}}}'
        for k, (name, behaviour, value) in enumerate(flags)
    ]
    return ir + "\n".join(lines) + "\n"
