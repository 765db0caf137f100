"""The compile image in figures: bytes per layer, time of a build, time from an edit of the compiler to a first compile.

`python -m benchmarks.image [--build]`; with `--build` also builds from an empty store (downloads) and from a full one.
Prints JSON. A compile counts only when its payload is that of the unedited compiler.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from containers import image
from containers.bubblewrap import BubblewrapRunner
from containers.image import Image, code
from containers.image.code import Code
from containers.runner import Progress, Runner
from farm import models
from kernelfarm import canonical
from kernelfarm.digest import Digest
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from tests.support import graphs
from toolchains import target

ROOT = Path(__file__).resolve().parents[1]
SHARED = Home(ROOT / "build" / "image-home")
TARGET = "x86-64-v3"
REPEATS = 3
RunnerOf = Callable[[Image, Path], Runner]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", action="store_true")
    with_builds = parser.parse_args().build
    built = image.ensure(SHARED.create())
    figures: dict[str, Any] = {
        "digest": built.digest,
        "docker_id": built.docker_id,
        "unpacked_bytes": {layer.name: layer.unpacked for layer in built.layers} | {"all": built.unpacked},
        "archive_bytes": built.archive.stat().st_size,
        "edit_s": edits(built),
    }
    if with_builds:
        figures["build_s"] = builds(built)
    print(json.dumps(figures, indent=2))


def builds(built: Image) -> dict[str, float]:
    """Seconds of a build with an empty content store and of one with all packages in it."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        home = Home(Path(name)).create()
        cold = _seconds(lambda: _same(image.ensure(home), built))
        warm = _seconds(lambda: _same(image.ensure(home, again=True), built))
    return {"cold": cold, "warm": warm}


def edits(
    built: Image, runner_of: RunnerOf = BubblewrapRunner, *, turns: int = REPEATS, home: Home = SHARED
) -> dict[str, list[float]]:
    """Seconds from an edit of a compiler file to the compiler's first word, and to the end of a first small compile.

    `runner_of` makes the runner over an image and a folder of our own code, which is unpacked in `home`.
    """
    first_words, ends = [], []
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        source = Path(name) / "source"
        for room in code.ROOMS:
            shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
        model = _model(Path(name))
        expected, _first = _compile(built, model, code.unpacked(home, source), Path(name) / "before", runner_of)
        for turn in range(turns):
            with (source / "kernelc" / "pipeline.py").open("a") as stream:
                stream.write(f"# edit {turn}\n")
            start = time.monotonic()
            found, first = _compile(built, model, code.unpacked(home, source), Path(name) / f"turn-{turn}", runner_of)
            ends.append(time.monotonic() - start)
            first_words.append(first - start)
            if found != expected:
                raise SystemExit(f"the payload changed: {found}, not {expected}")
    return {"to_first_word": first_words, "to_first_compile": ends}


def _model(folder: Path) -> bytes:
    """A small model as the farm hands it to a compile: scrubbed."""
    store = ContentStore(folder / "store")
    taken = models.take_in(graphs.tiny(folder / "tiny.onnx"), "tiny", store, scratch=folder)
    return store.get_bytes(taken.model.digest)


def _compile(built: Image, model: bytes, own: Code, scratch: Path, runner_of: RunnerOf) -> tuple[Digest, float]:
    """The payload of a small model, and when the compiler said its first word."""
    (scratch / "in").mkdir(parents=True)
    (scratch / "in" / "model.onnx").write_bytes(model)
    request = {
        "schema": "compile-request/1",
        "model": "model.onnx",
        "model_name": "tiny",
        "shapes": {},
        "target": target.load(TARGET).to_json(),
        "jobs": 2,
        "rules": None,
    }
    (scratch / "in" / "request.json").write_bytes(canonical.dumps(request))
    words: list[float] = []

    def hear(progress: Progress) -> None:
        del progress
        words.append(time.monotonic())

    accepted, _ended = runner_of(built, own.folder).compile_in(scratch, on_progress=hear)
    return canonical.digest_of(accepted.files), words[0]


def _same(found: Image, expected: Image) -> None:
    if found.digest != expected.digest:
        raise SystemExit(f"another image: {found.digest}, not {expected.digest}")


def _seconds(act: Callable[[], None]) -> float:
    start = time.monotonic()
    act()
    return time.monotonic() - start


if __name__ == "__main__":
    main()
