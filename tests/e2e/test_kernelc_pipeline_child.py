"""The compile child as the farm starts it: payload, progress, errors, and the same bytes in other surroundings."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from containers import result
from farm import native
from kernelfarm import canonical, device, digest
from kernelfarm.errors import Code, FarmError
from tests.support import graphs, onnx_files
from toolchains import processor, target

needs_v3 = pytest.mark.skipif(
    bool(processor.missing_features(target.load("x86-64-v3"))), reason="this processor lacks AVX2"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: exit status, lines of progress, standard error, its output folder."""

    status: int
    progress: list[dict[str, Any]]
    log: str
    out: Path


def compile_model(
    folder: Path,
    *,
    side: int = 8,
    name: str = "x86-64-v3",
    jobs: int = 2,
    model: bytes | None = None,
    scrubbed: bool = True,
    **environment: str,
) -> Ended:
    """Run a child over the tiny model, or over the bytes of another file."""
    given, out, scratch = folder / "in", folder / "out", folder / "tmp"
    for place in (given, out, scratch):
        place.mkdir(parents=True)
    graphs.tiny(given / "model.onnx", side="side")
    if model is not None:
        (given / "model.onnx").write_bytes(model)
    if scrubbed:
        onnx_files.scrub(given / "model.onnx")
    request = {
        "schema": "compile-request/1",
        "model": "model.onnx",
        "model_name": "tiny",
        "shapes": {"x": [1, 3, side, side]},
        "target": target.load(name).to_json(),
        "jobs": jobs,
        "rules": None,
    }
    (given / "request.json").write_bytes(canonical.dumps(request))
    done = subprocess.run(
        [sys.executable, "-I", "-m", "kernelc", "in", "out"],
        cwd=folder,
        env={"PATH": "", "LC_ALL": "C", "TMPDIR": str(scratch), "HOME": str(scratch), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert list(scratch.iterdir()) == []
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return Ended(done.returncode, lines, done.stderr, out)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return compile_model(tmp_path_factory.mktemp("first"))


def test_the_result_is_accepted_by_the_farm(first: Ended) -> None:
    assert first.status == 0, first.log
    accepted = result.accept(first.out)

    assert [entry.name for entry in accepted.files] == sorted(result.COMPILED_FILES)


def test_the_stages_are_recorded_in_order(first: Ended) -> None:
    names = [stage.name for stage in result.accept(first.out).stages]

    assert names[0] == "import"
    assert [name for name in names if not name.startswith("simplify-")] == [
        "import", "fusion", "layout", "schedule", "linalg", "weights", "llvm", "objects", "table", "link", "runtime",
        "links", "gate", "golden", "header",
    ]  # fmt: skip


def test_progress_names_every_kernel(first: Ended) -> None:
    groups = [line for line in first.progress if line["stage"] == "group"]

    assert [line["done"] for line in groups] == list(range(1, groups[0]["total"] + 1))
    assert all(line["name"].startswith("kf_") for line in groups)


def test_the_configuration_describes_the_payload(first: Ended) -> None:
    payload = first.out / "payload"
    document = canonical.loads((payload / "config.json").read_bytes(), strict=True)

    assert document["schema"] == "payload/1"
    assert document["inputs"] == [{"name": "x", "dtype": "f32", "shape": [1, 3, 8, 8]}]
    assert document["outputs"] == [{"name": "y", "dtype": "f32", "shape": [1, 5]}]
    assert document["scrub"]["renamed"] == []
    assert len(document["scrub"]["rules"]) == 8
    assert document["weights_bytes"] == (payload / "weights.bin").stat().st_size
    assert document["flop"] == sum(group["flop"] for group in document["groups"]) > 0
    assert "ziglang" in document["tools"]


def test_the_header_points_at_kernels_weights_and_golden_vectors(first: Ended) -> None:
    payload = first.out / "payload"
    header = device.PayloadHeader.from_bytes((payload / "media.hdr").read_bytes())

    assert header.target == "x86-64-v3"
    assert [blob.size for blob in header.blobs] == [
        (payload / name).stat().st_size for name in ("kernels.so", "weights.bin", "golden.bin")
    ]


def self_test(payload: Path, layout: Path) -> subprocess.CompletedProcess[str]:
    ready = native.prepare(payload, "x86-64-v3", layout)
    command = [str(ready.program), str(ready.layout), "--self-test"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_v3
def test_the_payload_passes_its_self_test(first: Ended, tmp_path: Path) -> None:
    done = self_test(first.out / "payload", tmp_path / "layout")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok y cases=2 max_abs_error=")


@needs_v3
@pytest.mark.parametrize("foreign", [("kernels.so", "weights.bin"), ("golden.bin",)])
def test_kernels_or_vectors_of_another_model_fail_the_self_test(
    first: Ended, tmp_path: Path, foreign: tuple[str, ...]
) -> None:
    model = graphs.tiny(tmp_path / "tiny.onnx", side="side", seed=2).read_bytes()
    other = compile_model(tmp_path / "other", model=model)
    mixed = shutil.copytree(first.out / "payload", tmp_path / "mixed")
    for name in foreign:
        shutil.copy(other.out / "payload" / name, mixed / name)
    files = {name: mixed / name for name in ("kernels.so", "weights.bin", "golden.bin")}
    header = device.PayloadHeader.from_bytes((mixed / "media.hdr").read_bytes())
    blobs = tuple(
        replace(blob, digest=digest.of_file(path), size=path.stat().st_size)
        for blob, path in zip(header.blobs, files.values(), strict=True)
    )
    (mixed / "media.hdr").write_bytes(replace(header, blobs=blobs).to_bytes())

    done = self_test(mixed, tmp_path / "layout")

    assert done.returncode == 1
    assert done.stdout.startswith("BAD y ")


def test_no_path_of_the_builder_is_in_the_payload(first: Ended) -> None:
    for path in sorted((first.out / "payload").iterdir()):
        assert str(first.out.parent).encode() not in path.read_bytes(), path.name


def test_other_surroundings_give_the_same_bytes(first: Ended, tmp_path: Path) -> None:
    other = compile_model(tmp_path / "another place ü", jobs=1, TZ="Asia/Tokyo", PYTHONHASHSEED="5", LC_ALL="C.UTF-8")

    assert other.status == 0, other.log
    for path in sorted((first.out / "payload").iterdir()):
        assert (other.out / "payload" / path.name).read_bytes() == path.read_bytes(), path.name
    assert (other.out / "result.json").read_bytes() == (first.out / "result.json").read_bytes()


def test_a_model_that_is_none_leaves_an_error_and_nothing_else(tmp_path: Path) -> None:
    ended = compile_model(tmp_path / "work", model=b"not a model", scrubbed=False)

    report = FarmError.from_json(json.loads((ended.out / "error.json").read_bytes()))
    assert report.code is Code.MODEL_INVALID
    assert ended.status == int(report.status) == 1
    assert [path.name for path in ended.out.iterdir()] == ["error.json"]
    assert "Traceback" not in ended.log


def test_a_model_that_was_not_scrubbed_is_refused(tmp_path: Path) -> None:
    ended = compile_model(tmp_path / "work", scrubbed=False)

    report = FarmError.from_json(json.loads((ended.out / "error.json").read_bytes()))
    assert report.code is Code.MODEL_NOT_SCRUBBED
    assert [path.name for path in ended.out.iterdir()] == ["error.json"]


def test_a_form_that_the_backend_lacks_names_the_node(tmp_path: Path) -> None:
    ended = compile_model(tmp_path / "work", model=_down_columns(tmp_path / "model.onnx"))

    report = FarmError.from_json(json.loads((ended.out / "error.json").read_bytes()))
    assert report.code is Code.OPERATOR_NOT_LOWERED
    assert report.detail["op"] == "softmax"
    assert [path.name for path in ended.out.iterdir()] == ["error.json"]


def _down_columns(path: Path) -> bytes:
    from onnx import helper

    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=2)]
    return graphs.save(path, nodes, [1, 3, 8, 8], [1, 3, 8, 8], {}).read_bytes()


def test_a_model_that_computes_nothing_is_refused(tmp_path: Path) -> None:
    model = onnx_files.model([onnx_files.node("Identity", ["x"], ["y"])], {"x": [1, 3, 8, 8]})

    ended = compile_model(tmp_path / "run", model=model.SerializeToString())

    error = FarmError.from_json(canonical.loads((ended.out / "error.json").read_bytes(), strict=True))
    assert error.code is Code.LAYOUT_INFEASIBLE
    assert ended.status == int(error.status)
    assert [path.name for path in ended.out.iterdir()] == ["error.json"]


def test_wrong_usage_has_its_own_status(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "kernelc", "in"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "usage" in done.stderr
