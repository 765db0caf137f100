"""Object files of kernels: MLIR passes in this process, the pinned clang in parallel beside it.

An object whose kernel has the same text may come from a folder of earlier ones instead. That folder decides no byte of
an honest build: whoever gives it answers for its entries being what this compiler makes of the same text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kernelc.lowering import llvm
from kernelc.lowering.kernel import Kernel
from kernelfarm.digest import Digest, hex_of, of_bytes, of_file
from kernelfarm.errors import Code, FarmError
from kernelfarm.objects import Entry
from toolchains import elf, zig
from toolchains.target import Target


@dataclass(frozen=True, slots=True)
class Object:
    """An object file and the digests of its IR and of itself; `reused` when it comes from an earlier compile.

    `runnable` is an object of the same IR that this machine runs, where one was asked for: itself or one beside it.
    """

    path: Path
    llvm: Digest
    digest: Digest
    reused: bool = False
    runnable: Path | None = None

    def entry(self) -> Entry:
        """What a later compile may take instead of compiling."""
        return Entry(self.llvm, self.path.read_bytes())


def build_objects(
    kernels: Mapping[str, Kernel],
    target: Target,
    folder: Path,
    *,
    jobs: int,
    known: Path | None = None,
    done: Callable[[str, Object], None] | None = None,
    host: Target | None = None,
) -> dict[str, Object]:
    """One object per kernel in `folder`, by symbol, compiled by at most `jobs` processes; `done` hears of each.

    `known` is a folder of entries to take instead, by the digests of the kernels' texts; None for none. What is
    compiled is compiled for `host` as well.
    """
    objects = {symbol: found for symbol, kernel in kernels.items() if (found := _taken(known, kernel, target, folder))}
    waiting: dict[str, tuple[Digest, Future[Path], Future[Path] | None]] = {}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        for symbol, kernel in kernels.items():
            if symbol in objects:
                continue
            raw = llvm.translate(kernel, target)
            text = llvm.finish(raw, kernel, target)
            made = pool.submit(_compile, folder / f"{symbol}.ll", text, target)
            beside = made if host == target else None
            if host is not None and host != target:
                place, other = folder / f"{symbol}.{host.name}.ll", llvm.retargeted(host, target)
                beside = pool.submit(_compile, place, llvm.finish(raw, kernel, other), other, "-O1")
            waiting[symbol] = of_bytes(text.encode()), made, beside
        for symbol in kernels:
            if symbol not in objects:
                digest, future, beside = waiting[symbol]
                path = future.result()
                objects[symbol] = Object(
                    path, digest, of_file(path), runnable=None if beside is None else beside.result()
                )
            if done is not None:
                done(symbol, objects[symbol])
    return {symbol: objects[symbol] for symbol in kernels}


def _taken(known: Path | None, kernel: Kernel, target: Target, folder: Path) -> Object | None:
    """The object of an earlier compile, copied into `folder`; a damaged entry counts as none, and the log says so.

    So does one whose object is none of the target's machine.
    """
    if known is None:
        return None
    source = known / hex_of(kernel.digest)
    try:
        entry = Entry.read(source)
        if not elf.is_object(entry.data, target.machine):
            raise FarmError(Code.STORE_CORRUPT, f"{source.name} is no object of {target.machine}")
    except FileNotFoundError:
        return None
    except FarmError as reason:
        print(f"not taken from the object cache: {reason}", file=sys.stderr)
        return None
    path = folder / f"{kernel.symbol}.o"
    path.write_bytes(entry.data)
    return Object(path, entry.llvm, of_bytes(entry.data), reused=True)


def _compile(source: Path, text: str, target: Target, optimise: str = "-O2") -> Path:
    source.write_text(text, encoding="utf-8")
    output = source.with_suffix(".o")
    zig.compile_ir(source, output, target, optimise=optimise)
    return output
