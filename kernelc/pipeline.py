"""The compiler from end to end: a request and a model file in, the files of a payload out.

Every stage's result has a digest; two builds that differ are told apart by the first stage whose digests differ.
Nothing of machine, clock or folder reaches the output: sources are compiled inside a private folder by name.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelc import frontend, fusion, media
from kernelc.fusion import FusionResult, Rule
from kernelc.graph import Graph, Group
from kernelc.layout.geometry import is_alias
from kernelc.lowering.objects import Object, build_objects
from kernelc.lowering.program import Program, build_program
from kernelc.lowering.table import table_source
from kernelc.numerics.golden import golden_of
from kernelc.report import configuration, layout_document, schedule_document
from kernelc.request import Request
from kernelc.validation import machine, validate
from kernelfarm import canonical, device, digest, files, golden, links, objects
from kernelfarm.device import Blob, BlobKind, PayloadHeader, Variant
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from toolchains import features, gate, origins, products, runtime_build, zig
from toolchains.machines import MACHINES
from toolchains.target import Target
from toolchains.zig import Link

KERNELS, WEIGHTS, HARDENING, CONFIG = "kernels.so", "weights.bin", "hardening.json", "config.json"
GOLDEN = golden.NAME

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

    Objects of kernels are taken from the folder `in_dir`/objects where that has them; those that were compiled go to
    `out_dir`/objects. Raises `FarmError`; then `out_dir` holds no result.
    """
    stages = Stages(progress)
    imported, graph, fused = front(request, in_dir, stages)
    final = out_dir / "payload"
    with tempfile.TemporaryDirectory() as temporary, files.coded("the payload could not be written", final):
        payload = Path(temporary) / "payload"
        payload.mkdir()
        made = _Objects(in_dir / objects.FOLDER, Path(temporary) / objects.FOLDER)
        program = _back(graph, fused.groups, request, made, Path(temporary), payload, stages)
        _write(payload / GOLDEN, golden_of(imported).to_bytes())
        stages.record("golden", digest.of_file(payload / GOLDEN))
        header = _header(request.target, payload).to_bytes()
        _write(payload / device.HEADER_NAME, header)
        stages.record("header", digest.of_bytes(header))
        model = digest.of_file(in_dir / request.model)
        document = configuration(program, request.model_name, model, request.target, stages.digests)
        _write(payload / CONFIG, canonical.dumps(document))
        try:
            shutil.copytree(payload, final)
            shutil.copytree(made.fresh, out_dir / objects.FOLDER)
            _write(out_dir / "result.json", canonical.dumps(_result(final, stages.digests)))
        except BaseException:
            for left in (final, out_dir / objects.FOLDER):
                shutil.rmtree(left, ignore_errors=True)
            raise


def front(request: Request, in_dir: Path, stages: Stages) -> tuple[Graph, Graph, FusionResult]:
    """The graph as imported, the simplified one, and how that is fused. The payload says that it was scrubbed."""
    frontend.require_scrubbed(in_dir / request.model)
    imported = frontend.load(in_dir / request.model, request.shapes)
    stages.graph("import", imported)
    graph = frontend.simplify(imported, lambda name, result: stages.graph(f"simplify-{name}", result))
    if all(is_alias(graph, node) for node in graph.nodes):
        why = "every output is an input, at most by another shape or order of its dimensions, or a constant"
        raise FarmError(Code.LAYOUT_INFEASIBLE, "the model computes nothing", why, "There is nothing to compile.")
    fused = fusion.group(graph, _rules(request, in_dir), on_chip_bytes=request.target.memory.on_chip_bytes)
    stages.record("fusion", digest.of_bytes(fusion.to_text(fused).encode()))
    return imported, graph, fused


def _rules(request: Request, in_dir: Path) -> Sequence[Rule]:
    """The farm's own rules, and after them the user's."""
    if request.rules is None:
        return fusion.builtin()
    path = in_dir / request.rules
    with files.coded("the fusion rules could not be read", path):
        return fusion.joined(path.read_bytes(), request.rules)


@dataclass(frozen=True, slots=True)
class _Objects:
    """Folders of object entries: those of earlier compiles, which may be missing, and the new ones of this compile."""

    known: Path
    fresh: Path


def _back(
    graph: Graph,
    groups: Sequence[Group],
    request: Request,
    entries: _Objects,
    work: Path,
    payload: Path,
    stages: Stages,
) -> Program:
    target = request.target
    program = build_program(graph, groups, target)
    stages.json("layout", layout_document(program))
    stages.json("schedule", schedule_document(program))
    stages.json("linalg", {symbol: kernel.digest for symbol, kernel in program.kernels.items()})
    _write(payload / WEIGHTS, program.weights.data)
    stages.record("weights", digest.of_bytes(program.weights.data))
    linked, compiled = _link(program, request, entries, work, payload / KERNELS, stages)
    kernels = gate.require(target, gate.inspect(payload / KERNELS, program.kernels, wide=program.layout.wide))
    found = origins.document((linked, *_runtime(target, work, payload, stages)), compiled)
    _write(payload / links.NAME, canonical.encode(found))
    stages.record("links", digest.of_file(payload / links.NAME))
    report = dataclasses.replace(kernels, products=products.require_both(target, payload))
    _write(payload / HARDENING, canonical.encode(report))
    stages.record("gate", digest.of_file(payload / HARDENING))
    return program


def _link(
    program: Program, request: Request, entries: _Objects, work: Path, output: Path, stages: Stages
) -> tuple[Link, set[Path]]:
    """Compile or take the objects, and link them; the link, and the objects that come from the model.

    Progress tells objects apart: "group" was compiled, "reused" taken.
    """
    folder = work / "link"
    folder.mkdir()
    entries.fresh.mkdir()
    target, kernels = request.target, program.kernels
    finished: list[str] = []

    def done(symbol: str, built: Object) -> None:
        finished.append(symbol)
        stages.progress("reused" if built.reused else "group", len(finished), len(kernels), symbol)
        if not built.reused:
            _write(entries.fresh / digest.hex_of(kernels[symbol].digest), built.entry().to_bytes())

    host = machine.host_of(target)
    built = build_objects(kernels, target, folder, jobs=request.jobs, known=entries.known, done=done, host=host)
    _validate(program, built, host, work / "validation", stages)
    stages.json("llvm", {symbol: one.llvm for symbol, one in built.items()})
    stages.json("objects", {symbol: one.digest for symbol, one in built.items()})
    table = folder / "table.c"
    _write(table, table_source(program).encode())
    shutil.copyfile(runtime_build.source_root() / "include" / "kf_abi.h", folder / "kf_abi.h")
    stages.record("table", digest.of_file(table))
    zig.compile_c(table, table.with_suffix(".o"), target)
    compiled = {made.path for made in built.values()}
    link = zig.link_kernels([*compiled, table.with_suffix(".o")], output, target)
    stages.record("link", digest.of_file(output))
    return link, compiled


def _validate(program: Program, built: Mapping[str, Object], host: Target | None, folder: Path, stages: Stages) -> None:
    """Run what was compiled. What was taken was run when it was compiled; on other processors nothing is."""
    fresh = {symbol: made.runnable for symbol, made in built.items() if made.runnable is not None}
    if host is None:
        stages.progress("validated", 0, 0, "not run: no kernels for x86-64-v3 run on this processor")
        return
    validate(program, fresh, host, folder, lambda n, of, name: stages.progress("validated", n, of, name))


def _runtime(target: Target, work: Path, payload: Path, stages: Stages) -> tuple[Link, ...]:
    folder = work / "runtime"
    folder.mkdir()
    built = runtime_build.build_runtime(target, payload, folder)
    stages.json("runtime", {path.name: digest.of_file(path) for path in sorted(built.files)})
    return built.links


def _header(target: Target, payload: Path) -> PayloadHeader:
    named = ((BlobKind.KERNELS, KERNELS), (BlobKind.WEIGHTS, WEIGHTS), (BlobKind.GOLDEN, GOLDEN))
    mask = features.mask(target.machine, target.cpu.required)
    return PayloadHeader(
        target.name,
        MACHINES[target.machine].elf_machine,
        (Variant(mask, target.preference, 0, 1),),
        tuple(Blob(kind, digest.of_file(payload / name), (payload / name).stat().st_size) for kind, name in named),
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
