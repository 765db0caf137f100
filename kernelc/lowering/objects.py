"""Object files of kernels: MLIR passes in this process, the pinned clang in parallel beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kernelc.lowering import llvm
from kernelc.lowering.kernel import Kernel
from kernelfarm.digest import Digest, of_bytes, of_file
from toolchains import zig
from toolchains.target import Target

TIMEOUT_S = 60.0
"""For one kernel; a usual one takes a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object file and the digests of its IR and of itself."""

    path: Path
    llvm: Digest
    digest: Digest


def build_objects(
    kernels: Mapping[str, Kernel],
    target: Target,
    folder: Path,
    *,
    jobs: int,
    done: Callable[[str], None] | None = None,
) -> dict[str, Object]:
    """One object per kernel in `folder`, by symbol, compiled by at most `jobs` processes; `done` hears of each."""
    waiting: dict[str, tuple[Digest, Future[Path]]] = {}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        for symbol, kernel in kernels.items():
            text = llvm.lower(kernel, target)
            source = folder / f"{symbol}.ll"
            source.write_text(text, encoding="utf-8")
            waiting[symbol] = of_bytes(text.encode()), pool.submit(_compile, source, target)
        objects = {}
        for symbol, (digest, future) in waiting.items():
            path = future.result()
            objects[symbol] = Object(path, digest, of_file(path))
            if done is not None:
                done(symbol)
    return objects


def _compile(source: Path, target: Target) -> Path:
    output = source.with_suffix(".o")
    zig.compile_ir(source, output, target, timeout_s=TIMEOUT_S)
    return output
