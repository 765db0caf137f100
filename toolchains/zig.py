"""The pinned clang and lld, called through zig's own binary: same bytes from any folder, no cache, no libc.

Nothing of the host is read (`-nostdinc`) and no path of it is written.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import util
from pathlib import Path

from kernelfarm.errors import Code, FarmError
from toolchains import linkmap, sourcelist
from toolchains.linkmap import Kept
from toolchains.machines import MACHINES
from toolchains.process import run_tool
from toolchains.target import Target

KCFI = ("-fsanitize=kcfi", "-fsanitize-cfi-icall-experimental-normalize-integers")
COMMON = ("-fPIC", "-g0", "-fno-ident", "-Werror=date-time", "-fno-asynchronous-unwind-tables")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
LINK = (
    *(
        "--fatal-warnings",
        "--threads=1",
        "-s",
        "--build-id=sha1",
        "--hash-style=gnu",
        "--no-undefined",
        "--gc-sections",
    ),
    *("-z", "relro", "-z", "now", "-z", "noexecstack", "-z", "separate-code", "-z", "defs", "-z", "text"),
    *("-z", "max-page-size=65536", "-z", "common-page-size=65536"),
)


@dataclass(frozen=True, slots=True)
class Link:
    """A link that was done: the file, its objects in the order of their names, and what was kept of each."""

    output: Path
    objects: tuple[Path, ...]
    kept: Kept


@cache
def zig_root() -> Path:
    """Folder of the `ziglang` wheel; raises `FarmError` TOOL_MISSING without it."""
    spec = util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise FarmError(
            Code.TOOL_MISSING, "the pinned compiler is missing", "ziglang is not installed", "Run `make setup`."
        )
    return Path(spec.origin).parent


def zig_path() -> Path:
    """The zig binary inside the wheel."""
    return zig_root() / "zig"


def compile_ir(
    source: Path,
    output: Path,
    target: Target,
    *,
    optimise: str = "-O2",
    extra: Sequence[str] = (),
) -> None:
    """LLVM IR text to an object, without LTO.

    The functions must carry `Target.function_attributes`, the module its flags (kcfi, cfi-normalize-integers and
    `Target.code.module_flags`): flags given here would not reach them.
    """
    argv = [
        str(zig_path()),
        "clang",
        "-target",
        target.triple,
        "-x",
        "ir",
        optimise,
        *COMMON,
        *MACHINES[target.machine].codegen,
        "-Wno-override-module",
        "-Werror",
    ]
    argv += [*extra, "-c", source.name, "-o", str(output.absolute())]
    run_tool(argv, cwd=source.parent, what=f"compiling {source.name}")


def compile_c(
    source: Path,
    output: Path,
    target: Target,
    *,
    root: Path | None = None,
    cpu: str | None = None,
    includes: Sequence[str] = (),
    defines: Sequence[str] = (),
    extra: Sequence[str] = (),
) -> None:
    """Freestanding C11 to an object, with KCFI, landing pads and the stack protector.

    `root` is where the compiler runs (default: the folder of `source`); `source` and `includes` are relative to it, so
    that no path of this machine is seen. `cpu` defaults to the target's own, with its features; the runtime gives
    `target.cpu.baseline`. `extra` flags come last. A list of what was read lies beside `output`
    (`toolchains.sourcelist`).
    """
    machine = MACHINES[target.machine]
    folder = root or source.parent
    name = source.relative_to(folder) if source.is_absolute() else (source if root else Path(source.name))
    features = (
        () if cpu else tuple(part for f in target.cpu.features for part in ("-Xclang", "-target-feature", "-Xclang", f))
    )
    argv = [str(zig_path()), "clang", "-target", target.triple, machine.cpu_flag + (cpu or target.cpu.name), *features]
    argv += [
        "-std=c11",
        "-O2",
        *COMMON,
        *WARNINGS,
        "-ffreestanding",
        "-fvisibility=hidden",
        "-fno-jump-tables",
        "-fstack-protector-strong",
    ]
    argv += [
        *machine.codegen,
        *machine.compile,
        *(machine.baseline if cpu else ()),
        *KCFI,
        "-nostdinc",
        "-isystem",
        str(zig_root() / "lib/include"),
    ]
    argv += [part for h in machine.headers for part in ("-isystem", str(zig_root() / "lib/libc/include" / h))]
    argv += [f"-ffile-prefix-map={zig_root()}=zig", *(f"-I{i}" for i in includes), *(f"-D{d}" for d in defines)]
    argv += ["-MD", "-MF", str(sourcelist.place_of(output).absolute())]
    argv += [*extra, *(() if "-S" in extra else ("-c",)), str(name), "-o", str(output.absolute())]
    run_tool(argv, cwd=folder, what=f"compiling {name}")
    sourcelist.anchor(output, folder)


def link_kernels(objects: Sequence[Path], output: Path, target: Target) -> Link:
    """Objects to a kernel object that exports `kf_table` alone; their order does not count, their names must differ."""
    flags = ["-shared", "-e", "kf_table", *MACHINES[target.machine].link]
    return link(objects, output, flags, version_script="{ global: kf_table; local: *; };\n")


def link(
    objects: Sequence[Path],
    output: Path,
    flags: Sequence[str],
    *,
    version_script: str | None = None,
) -> Link:
    """Link with the hardening flags that every product shares; objects in the order of their names."""
    by_name = sorted(objects, key=lambda path: path.name)
    if len({path.name for path in by_name}) != len(by_name):
        raise FarmError(Code.INTERNAL, "two objects to link have one name", ", ".join(path.name for path in by_name))
    folder = output.parent / f".link-{output.name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    script: list[str] = []
    if version_script is not None:
        (folder / "exports.map").write_text(version_script, encoding="ascii")
        script = ["--version-script=exports.map"]
    for path in by_name:  # links, so that the linker sees bare names
        (folder / path.name).symlink_to(path.absolute())
    argv = [str(zig_path()), "ld.lld", *LINK, "--Map=map.txt", *flags, *script, *(path.name for path in by_name)]
    run_tool([*argv, "-o", str(output.absolute())], cwd=folder, what=f"linking {output.name}")
    kept = linkmap.read((folder / "map.txt").read_text(encoding="utf-8"))
    shutil.rmtree(folder)  # kept on a failure, for the replay
    return Link(output, tuple(by_name), kept)
