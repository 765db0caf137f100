"""The library and a bundle in a process of the oldest and of the newest C library that Debian serves for a machine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from farm import config
from tests.support import device, emulated, rootfs
from toolchains import emulator, features, zig
from toolchains.process import run_tool
from toolchains.target import Target

TRIPLES = {
    "aarch64": "aarch64-linux-gnu",
    "armv7": "arm-linux-gnueabihf",
    "riscv64": "riscv64-linux-gnu",
    "x86-64": "x86_64-linux-gnu",
}


def compile_loader(goal: Target, folder: Path) -> Path:
    """A program for the oldest C library that the target names."""
    version = goal.run.oldest_libc.removeprefix("glibc-")
    argv = [str(zig.zig_path()), "cc", "-target", f"{TRIPLES[goal.machine]}.{version}", "-s", "-O1"]
    argv += [f"-I{device.RUNTIME / 'include'}", str(device.RUNTIME / "tests" / "load.c"), "-ldl", "-o", "load"]
    kept = str(emulator.tools_dir().parent / "zig-cache")
    cache = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), kept)
    run_tool(argv, cwd=folder, extra_env=cache, what="compiling a program with a libc")
    return folder / "load"


def native(root: Path) -> list[str]:
    """This machine's processor with the loader and libraries of a root folder; links in it may be absolute."""
    places = [root / part / "x86_64-linux-gnu" for part in ("lib", "usr/lib")]
    loaders = [path for place in places for path in sorted(place.glob("ld-*.so*")) if not path.is_symlink()]
    return [str(loaders[0]), "--library-path", ":".join(map(str, places))]


@pytest.mark.bar
@pytest.mark.parametrize("name", ["aarch64", "armv7", "riscv64", "x86-64-v3"])
def test_the_library_loads_and_runs_under_the_oldest_and_the_newest_libc(name: str, tmp_path: Path) -> None:
    goal = emulated.load(name)
    emulator_argv = () if goal.machine == "x86-64" else emulated.prefix(goal)
    try:
        roots = rootfs.oldest_and_newest(goal.machine)
    except rootfs.NotServedError as reason:
        if config.under_ci(os.environ):
            raise
        pytest.skip(str(reason))
    program = compile_loader(goal, tmp_path)
    mask = features.mask(goal.machine, goal.cpu.required)
    bundle = device.write(tmp_path / "bundle", replace(device.tiny(goal), cpu_features=mask))

    for root in roots:
        answer = device.run(
            program,
            device.runtime(goal) / "libmedia_engine.so",
            bundle,
            prefix=[*emulator_argv, "-L", str(root)] if emulator_argv else native(root),
            timeout_s=60,
        )
        assert (answer.returncode, answer.stdout) == (0, "ran\n"), f"{root.name}: {answer.stderr}"
