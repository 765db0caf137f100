"""`make bar-A2`: issue A2's bar, measured: four models for every target. Prints it and writes build/bar/A2.json.

    python -m benchmarks.bar_a2 [NAME...]      only these lines; the file names the others

Exits 1 when a line does not hold. The models are built at small shapes, which emulators run in seconds; speed is
measured at the shapes of use. What the tests of `tests/emulated` show (bad calls, variants by probing) is one line.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks import bar, bar_a1
from benchmarks.bar import Line
from farm import check, config, rebuild, subject
from farm.surroundings import ALL, Variation
from kernelfarm.errors import FarmError
from tests.support import models, photos
from tests.support.product import Product
from toolchains import gate, processor, target
from toolchains.emulator import Kind

STATE = bar.FOLDER / "A2"
TARGETS = target.names()
MODELS = tuple(model.name for model in models.MODELS)
REPEATS = 5
WALL_S = 7200.0
"""For one command: a bar is not decided by a busy machine."""


@dataclass(slots=True)
class Bench:
    """The product with a state of its own, and the bundles of the models, each built when it is first asked for."""

    product: Product
    documents: dict[str, Any] = field(default_factory=dict)

    def build(self, name: str) -> Any:
        """The document of `farm build` of a model at its small shape for all targets."""
        if name not in self.documents:
            self.documents[name] = self._build(name, TARGETS)
        return self.documents[name]

    def bundle(self, name: str) -> tuple[Path, tuple[str, ...]]:
        """A model's bundle and its targets: those whose cells did not fail, so that one fault hides no other."""
        cells = self.build(name)["cells"]
        good = tuple(cell["target"] for cell in cells if not cell["error"])
        made = self.build(name)["bundles"] or (self._build(name, good)["bundles"] if good else [])
        return Path(made[0]["path"]) if made else STATE, good if made else ()

    def _build(self, name: str, targets: Sequence[str]) -> Any:
        words = [word for one in targets for word in ("-t", one)]
        words += ["--shape", models.small_shape(name), "--name", name, "--out", str(STATE / "bundles")]
        return self.product.farm("build", models.fetch(name), *words).document

    @property
    def settings(self) -> config.Config:
        """The product's settings for calls in this process; its workers read them from the environment."""
        os.environ["FARM_HOME"] = str(self.product.home)
        return config.load()


Measure = Callable[[Bench], Iterator[Line]]


def demo(bench: Bench) -> Iterator[Line]:
    """The demo with every target, from nothing and again."""
    del bench
    for line in bar_a1.demo_lines():
        rows = [name for name in TARGETS if f"\n{name} " in str(line.detail)]
        holds = line.holds and len(rows) == len(TARGETS)
        yield Line(line.name, f"{line.figure}, {len(rows)} rows", line.asked, holds, line.detail)


def builds(bench: Bench) -> Iterator[Line]:
    """Every model for every target."""
    for name in MODELS:
        cells = bench.build(name)["cells"]
        failed = {cell["target"]: cell["error"]["what"] for cell in cells if cell["error"]}
        figure = f"{len(cells) - len(failed)} of {len(TARGETS)}"
        figure += f" (not {', '.join(sorted(failed))})" if failed else ""
        yield Line(f"{name} {models.small_shape(name)} builds", figure, f"{len(TARGETS)} targets", not failed, failed)


def numerics(bench: Bench) -> Iterator[Line]:
    """Beside onnxruntime: ten inputs where this processor runs the payload, one in an emulator."""
    for name in MODELS:
        bundle, targets = bench.bundle(name)
        for one in targets:
            yield _agreement(f"{name} on {one}", bench.product.farm("check", bundle, "-t", one).document)


def pictures(bench: Bench) -> Iterator[Line]:
    """The same on a photograph or a scanned page, on the targets of this processor."""
    for name in MODELS:
        bundle, targets = bench.bundle(name)
        height, width = (int(size) for size in models.small_shape(name).split("x")[2:])
        scene, page = photos.scene(0, height, width), (photos.page(0, height, width) / 255 - 0.5) / 0.5
        np.save(STATE / f"{name}.npy", np.asarray(scene if name == "face-detection" else page, np.float32))
        for one in targets:
            if processor.missing_features(target.load(one)):
                continue
            (fed,) = bench.product.must("inspect", bundle)["targets"][one]["inputs"]
            words = ("-t", one, "--input", f"{fed['name']}={STATE / name}.npy")
            yield _agreement(f"{name} on {one}, an image", bench.product.farm("check", bundle, *words).document)


def _agreement(what: str, found: Any) -> Line:
    if "error" in found:
        return Line(what, found["error"]["code"], "<= 1e-4 + 1e-3 |b|", False, found)
    how = found["how"].split()[0]
    error = found["max_abs_error"]  # a text where no number can say it
    figure = f"not run: {found['reason']}"
    if found["ran"]:
        figure = f"{error if isinstance(error, str) else f'{error:.2g}'} on {found['cases']}, {how}"
    holds = found["holds"] or (not found["ran"] and not found["missing_tool"])
    return Line(what, figure, "<= 1e-4 + 1e-3 |b|", holds, found)


def self_tests(bench: Bench) -> Iterator[Line]:
    """media-run --self-test of each payload, natively or emulated."""
    for name in MODELS:
        bundle, targets = bench.bundle(name)
        ended: dict[str, tuple[int, str]] = {}
        not_run = []
        for one in targets:
            runner = check.runner_of(one)
            if runner.kind is Kind.UNAVAILABLE:
                not_run.append(one)
                continue
            with subject.from_bundle(bench.settings, bundle, one, models.fetch(name)) as found:
                command = [*runner.argv_prefix, str(found.ready.program), str(found.ready.layout), "--target", one]
                done = subprocess.run([*command, "--self-test"], capture_output=True, text=True, check=False)
            ended[one] = (done.returncode, done.stdout + done.stderr)
        passed = sum(status == 0 for status, _said in ended.values())
        figure = f"{passed} of {len(TARGETS)} pass, {len(not_run)} not run"
        yield Line(f"golden vectors of {name}", figure, "all pass", passed + len(not_run) == len(TARGETS), ended)


def identity(bench: Bench) -> Iterator[Line]:
    """Each variation alone and all together, every cell."""
    for asked in (ALL, *((variation,) for variation in Variation)):
        word = "all together" if asked == ALL else asked[0].value
        cells: Counter[str] = Counter()
        details: dict[str, Any] = {}
        for name in MODELS:
            bundle, targets = bench.bundle(name)
            if not targets:
                continue
            try:
                report = rebuild.rebuild(bench.settings, rebuild.Question(bundle, asked, model=models.fetch(name)))
            except FarmError as error:
                details[name] = str(error)
                continue
            details[name] = report.to_json()
            cells.update("same" if one.comparison.same else "DIFFERS" for one in report.rebuilt)
        unvaried = not cells and all("cannot be varied" in str(text) for text in details.values())
        figure = "not varied on this machine" if unvaried else ", ".join(f"{n} {how}" for how, n in cells.items())
        wanted = len(MODELS) * len(TARGETS)
        yield Line(f"rebuild, {word}", figure, f"{wanted} same", unvaried or cells == {"same": wanted}, details)


def object_cache(bench: Bench) -> Iterator[Line]:
    """One operator of a model is changed: what is compiled again for one target."""
    model = onnx.load(str(models.fetch("text-direction")))
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Sigmoid"
    counts = {}
    for number, data in enumerate((models.fetch("text-direction").read_bytes(), model.SerializeToString())):
        path = STATE / "edited.onnx"
        path.write_bytes(data)
        words = ("-t", TARGETS[-1], "--shape", models.small_shape("text-direction"), "--out", STATE / "edited")
        built = bench.product.must("build", path, *words)
        logs = sorted((bench.product.home / "logs" / built["cells"][0]["run"]).glob("*.log"))
        lines = [json.loads(line) for line in logs[-1].read_text().splitlines() if line.startswith("{")]
        counts[number] = Counter(line["stage"] for line in lines if line["stage"] in ("group", "reused"))
    first, second = counts[0], counts[1]
    figure = f"{second['group']} compiled, {second['reused']} taken of {first['group']}"
    holds = 1 <= second["group"] <= 2 and second["group"] + second["reused"] >= first["group"]
    yield Line("objects after a change of one operator", figure, "1 or 2 compiled", holds, counts)


def speed(bench: Bench) -> Iterator[Line]:
    """One thread, one image, beside onnxruntime at the shapes of use, on the widest target of this processor."""
    able = [name for name in ("x86-64-v4", "x86-64-v3") if not processor.missing_features(target.load(name))]
    for name in MODELS:
        words = ("-t", able[0], "--shape", models.find(name).shape)
        reports = [bench.product.farm("bench", models.fetch(name), *words).document for _ in range(REPEATS)]
        valid = [report["ratio_best"] for report in reports if report.get("valid")]
        median = statistics.median(valid) if len(valid) == REPEATS else float("inf")
        figure = f"{median:.2f}, median of {len(valid)} valid of {REPEATS}"
        yield Line(f"time of {name} by onnxruntime's on {able[0]}", figure, "<= 2.0", median <= 2.0, reports)


def vectors(bench: Bench) -> Iterator[Line]:
    """Instructions on full-width registers in the linked kernels of the largest model."""
    bundle, targets = bench.bundle("face-detection")
    inspected = bench.product.must("inspect", bundle)["targets"] if targets else {}
    for one in targets:
        wanted = target.load(one).vector.register_class
        blob = inspected[one]["files"]["kernels.so"]["digest"].removeprefix("sha256:")
        kernels = bundle / "blobs" / "sha256" / blob
        used = {use.register_class: use.instructions for use in gate.inspect(kernels).code.vectors}
        figure = str(used.get(wanted, 0)) if wanted else "no vector unit"
        holds = not wanted or used.get(wanted, 0) > 0
        yield Line(f"{wanted or 'vector'} instructions for {one}", figure, "> 0", holds, used)


def machines(bench: Bench) -> Iterator[Line]:
    """The tests that run on every machine: bad calls, hostile bundles, probing, operators."""
    del bench
    command = [sys.executable, "-m", "pytest", "-n", "2", "tests/emulated"]
    done = subprocess.run(
        command, cwd=models.ROOT, env={**os.environ, "CI": "true"}, capture_output=True, text=True, check=False
    )
    last = next((line for line in reversed(done.stdout.splitlines()) if line.strip()), "")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    yield Line("tests/emulated under CI", last[:60], "all pass", done.returncode == 0, done.stdout[-4000:], failed)


MEASURES: Mapping[str, Measure] = {
    "demo": demo,
    "builds": builds,
    "numerics": numerics,
    "pictures": pictures,
    "self-test": self_tests,
    "speed": speed,
    "vectors": vectors,
    "object-cache": object_cache,
    "machines": machines,
    "identity": identity,
}


def main(words: list[str]) -> int:
    """Measure the named lines, or all."""
    names = bar.options("A2", __doc__, list(MEASURES), words).lines
    if not names:
        shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(parents=True, exist_ok=True)
    bench = Bench(Product(STATE / "home", wall_s=WALL_S).with_key())
    return bar.measure("A2", names, {name: partial(measure, bench) for name, measure in MEASURES.items()})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
