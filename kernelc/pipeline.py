"""The compiler from end to end: a request and a model file in, the files of a payload out.

Every stage's result has a digest; two builds that differ are told apart by the first stage whose digests differ.
Nothing of machine, clock or folder reaches the output: sources are compiled inside a private folder by name.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelc import frontend, fusion, media
from kernelc.graph import Graph, Group
from kernelc.layout.assign import ALIASES
from kernelc.lowering.objects import build_objects
from kernelc.lowering.program import Program, build_program
from kernelc.lowering.table import table_source
from kernelc.report import configuration, layout_document, schedule_document
from kernelc.request import Request
from kernelfarm import canonical, device, digest, files
from kernelfarm.device import Blob, BlobKind, PayloadHeader, Variant
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from toolchains import features, gate, runtime_build, zig
from toolchains.machines import MACHINES
from toolchains.target import Target

KERNELS, WEIGHTS, HARDENING, CONFIG = "kernels.so", "weights.bin", "hardening.json", "config.json"

Progress = Callable[[str, int, int, str], None]
"""progress(stage, done, total, what): `done` of `total` steps of a stage are over, the last one worked on `what`."""


@dataclass(slots=True)
class Stages:
    """Digests of the stages in order of completion, with a word to the caller about each."""

    progress: Progress
    digests: list[tuple[str, Digest]] = field(default_factory=list)

    def record(self, name: str, value: Digest) -> None:
        """A stage is over."""
        self.digests.append((name, value))
        self.progress(name, 1, 1, "")

    def graph(self, name: str, graph: Graph) -> None:
        """A stage that gives a graph: its digest is that of the verified Media text."""
        self.record(name, digest.of_bytes(media.to_text(graph).encode()))

    def json(self, name: str, value: Any) -> None:
        """A stage that gives a document."""
        self.record(name, digest.of_bytes(canonical.dumps(value)))


def compile_model(request: Request, in_dir: Path, out_dir: Path, progress: Progress) -> None:
    """Compile `in_dir`/model into `out_dir`/payload and describe it in `out_dir`/result.json.

    Raises `FarmError`; then `out_dir` holds no result.
    """
    stages = Stages(progress)
    graph, groups = _front(request, in_dir, stages)
    final = out_dir / "payload"
    with tempfile.TemporaryDirectory() as temporary, files.coded("the payload could not be written", final):
        payload = Path(temporary) / "payload"
        payload.mkdir()
        program = _back(graph, groups, request, Path(temporary), payload, stages)
        model = digest.of_file(in_dir / request.model)
        document = configuration(program, request.model_name, model, request.target, stages.digests)
        _write(payload / CONFIG, canonical.dumps(document))
        try:
            shutil.copytree(payload, final)
            _write(out_dir / "result.json", canonical.dumps(_result(final, stages.digests)))
        except BaseException:
            shutil.rmtree(final, ignore_errors=True)
            raise


def _front(request: Request, in_dir: Path, stages: Stages) -> tuple[Graph, Sequence[Group]]:
    graph = frontend.load(in_dir / request.model, request.shapes)
    stages.graph("import", graph)
    graph = frontend.simplify(graph, lambda name, result: stages.graph(f"simplify-{name}", result))
    if all(node.op in ALIASES for node in graph.nodes):
        why = "every output is an input as it is, or a constant"
        raise FarmError(Code.LAYOUT_INFEASIBLE, "the model computes nothing", why, "There is nothing to compile.")
    fused = fusion.group(graph)
    stages.record("fusion", digest.of_bytes(fusion.to_text(fused).encode()))
    return graph, fused.groups


def _back(
    graph: Graph, groups: Sequence[Group], request: Request, work: Path, payload: Path, stages: Stages
) -> Program:
    target = request.target
    program = build_program(graph, groups, target)
    stages.json("layout", layout_document(program))
    stages.json("schedule", schedule_document(program))
    stages.json("linalg", {symbol: kernel.digest for symbol, kernel in program.kernels.items()})
    _write(payload / WEIGHTS, program.weights.data)
    stages.record("weights", digest.of_bytes(program.weights.data))
    _link(program, target, request.jobs, work, payload / KERNELS, stages)
    report = gate.require(target, gate.inspect(payload / KERNELS, program.kernels))
    _write(payload / HARDENING, canonical.encode(report))
    stages.record("gate", digest.of_file(payload / HARDENING))
    _runtime(target, work, payload, stages)
    header = _header(target, payload).to_bytes()
    _write(payload / device.HEADER_NAME, header)
    stages.record("header", digest.of_bytes(header))
    return program


def _link(program: Program, target: Target, jobs: int, work: Path, output: Path, stages: Stages) -> None:
    folder = work / "objects"
    folder.mkdir()
    kernels = program.kernels
    finished: list[str] = []

    def done(symbol: str) -> None:
        finished.append(symbol)
        stages.progress("group", len(finished), len(kernels), symbol)

    objects = build_objects(kernels, target, folder, jobs=jobs, done=done)
    stages.json("llvm", {symbol: made.llvm for symbol, made in objects.items()})
    stages.json("objects", {symbol: made.digest for symbol, made in objects.items()})
    table = folder / "table.c"
    _write(table, table_source(program).encode())
    shutil.copyfile(runtime_build.source_root() / "include" / "kf_abi.h", folder / "kf_abi.h")
    stages.record("table", digest.of_file(table))
    zig.compile_c(table, table.with_suffix(".o"), target)
    zig.link_kernels([*(made.path for made in objects.values()), table.with_suffix(".o")], output, target)
    stages.record("link", digest.of_file(output))


def _runtime(target: Target, work: Path, payload: Path, stages: Stages) -> None:
    folder = work / "runtime"
    folder.mkdir()
    written = runtime_build.build_runtime(target, payload, folder)
    stages.json("runtime", {path.name: digest.of_file(path) for path in sorted(written)})


def _header(target: Target, payload: Path) -> PayloadHeader:
    kernels, weights = (payload / name for name in (KERNELS, WEIGHTS))
    mask = features.mask(target.machine, target.cpu.required)
    return PayloadHeader(
        target.name,
        MACHINES[target.machine].elf_machine,
        (Variant(mask, target.preference, 0, 1),),
        (
            Blob(BlobKind.KERNELS, digest.of_file(kernels), kernels.stat().st_size),
            Blob(BlobKind.WEIGHTS, digest.of_file(weights), weights.stat().st_size),
        ),
    )


def _result(payload: Path, stages: Sequence[tuple[str, Digest]]) -> dict[str, Any]:
    entries = {path.name: {"digest": digest.of_file(path), "size": path.stat().st_size} for path in payload.iterdir()}
    return {
        "schema": "compile-result/1",
        "files": entries,
        "stages": [{"name": name, "digest": value} for name, value in stages],
    }


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o644)
