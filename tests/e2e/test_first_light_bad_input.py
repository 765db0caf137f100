"""Bad input, each with its own code and exit status, and nothing left behind in the output or in the farm's state."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kernelfarm.errors import Code, Status
from tests.support import graphs, models
from tests.support.product import Built, Done, Product
from tests.support.services import HANG_S

TEMPORARY = ".tmp-"


def not_a_model(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_text("this is not a model\n")
    return path


def empty(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.touch()
    return path


def truncated(folder: Path) -> Path:
    data = models.fetch("text-direction").read_bytes()
    path = folder / "model.onnx"
    path.write_bytes(data[: len(data) // 2])
    return path


def external_missing(folder: Path) -> Path:
    return graphs.external(folder / "model.onnx", "weights.data")


def external_outside(folder: Path) -> Path:
    (folder.parent / "secret").write_bytes(b"\0" * 1024)
    return graphs.external(folder / "model.onnx", "../secret")


def external_link_outside(folder: Path) -> Path:
    (folder.parent / "secret").write_bytes(b"\0" * 1024)
    (folder / "weights.data").symlink_to(folder.parent / "secret")
    return graphs.external(folder / "model.onnx", "weights.data")


def unknown_operator(folder: Path) -> Path:
    return graphs.unknown_operator(folder / "model.onnx")


def dynamic(folder: Path) -> Path:
    return graphs.tiny(folder / "model.onnx", side="side")


@pytest.mark.parametrize(
    ("make", "code", "detail"),
    [
        (not_a_model, Code.MODEL_INVALID, {}),
        (empty, Code.MODEL_EMPTY, {}),
        (truncated, Code.MODEL_TRUNCATED, {}),
        (external_missing, Code.EXTERNAL_MISSING, {"location": "weights.data"}),
        (external_outside, Code.EXTERNAL_OUTSIDE, {}),
        (external_link_outside, Code.EXTERNAL_OUTSIDE, {"location": "weights.data"}),
        (unknown_operator, Code.OPERATOR_UNKNOWN, {"node": 1, "name": "", "operator": "Relux", "opset": 13}),
        (dynamic, Code.SHAPE_MISSING, {}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_bad_model_is_named_by_code_and_status(
    fresh: Product, tmp_path: Path, make: Callable[[Path], Path], code: Code, detail: dict[str, Any]
):
    folder = tmp_path / "model"
    folder.mkdir()
    model = make(folder)
    before = sorted(folder.iterdir())

    done = build(fresh, model, tmp_path / "out")

    assert_error(done, code)
    assert {name: done.errors[0]["detail"].get(name) for name in detail} == detail
    assert_nothing_left(fresh, tmp_path / "out")
    assert sorted(folder.iterdir()) == before


def test_an_unknown_operator_says_which_supported_one_is_nearest(fresh: Product, tmp_path: Path):
    done = build(fresh, graphs.unknown_operator(tmp_path / "model.onnx"), tmp_path / "out")

    (error,) = done.errors
    assert error["detail"]["nearest"] == "Relu"
    assert error["what"] == "node 1 (Relux, opset 13): unknown operator"


def test_an_unknown_target_says_which_are_nearest(fresh: Product, tmp_path: Path):
    done = fresh.farm("build", graphs.relu(tmp_path / "m.onnx"), "-t", "x86-64-v5", "--out", tmp_path / "out")

    assert_error(done, Code.TARGET_UNKNOWN)
    assert set(done.errors[0]["detail"]["nearest"]) == {"x86-64-v3", "x86-64-v4"}
    assert_nothing_left(fresh, tmp_path / "out")


def test_a_shape_that_does_not_fit_is_refused(fresh: Product, tmp_path: Path):
    model = graphs.tiny(tmp_path / "m.onnx", side="side")

    done = fresh.farm("build", model, "-t", "x86-64-v3", "--shape", "1x4x8x8", "--out", tmp_path / "out")

    assert_error(done, Code.SHAPE_MISMATCH)
    assert_nothing_left(fresh, tmp_path / "out")


def test_an_output_that_is_read_only_is_an_error_of_the_environment(fresh: Product, tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()

    done = build(fresh, graphs.relu(tmp_path / "m.onnx"), out, prefix=mounted(READ_ONLY, out))

    assert_error(done, Code.READ_ONLY)
    assert_nothing_left(fresh, out)


def test_an_output_on_a_full_disk_is_an_error_of_the_environment(fresh: Product, tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()

    done = build(fresh, graphs.relu(tmp_path / "m.onnx"), out, prefix=mounted(SMALL, out))

    assert_error(done, Code.DISK_FULL)
    assert_nothing_left(fresh, out)


def test_state_on_a_full_disk_is_an_error_of_the_environment(fresh: Product, tmp_path: Path):
    full = tmp_path / "state"
    full.mkdir()
    product = Product(full, fresh.environment)
    key = shutil.copytree(fresh.home / "keys", tmp_path / "keys")

    done = build(product, graphs.tiny(tmp_path / "m.onnx"), tmp_path / "out", prefix=mounted(SMALL, full, keys=key))

    assert done.status == Status.ENVIRONMENT, (done.document, done.stderr)
    assert done.codes == [Code.DISK_FULL], done.document
    assert_nothing_left(product, tmp_path / "out")


def test_a_bundle_does_not_verify_with_another_key(tiny_bundle: Built, tmp_path: Path):
    other = Product(tmp_path / "home").with_key()

    done = tiny_bundle.product.farm("verify", tiny_bundle.bundle, "--key", other.public_key)

    assert done.status == Status.BAD
    failed = [check["error"]["code"] for check in done.document["checks"] if not check["ok"]]
    assert set(failed) == {Code.WRONG_KEY.number}


def test_a_build_without_a_key_says_how_to_make_one(tmp_path: Path):
    product = Product(tmp_path / "home")

    done = build(product, graphs.relu(tmp_path / "m.onnx"), tmp_path / "out")

    assert_error(done, Code.KEY_MISSING)
    assert "farm keys new" in done.errors[0]["next"]
    assert_nothing_left(product, tmp_path / "out")


def test_a_corrupted_store_is_found_and_the_file_named(fresh: Product, tmp_path: Path):
    model = graphs.relu(tmp_path / "m.onnx")
    built = fresh.must("build", model, "-t", "x86-64-v3", "--out", tmp_path / "out")
    weights = built["bundles"][0]["path"]
    kernels = max((path for path in store_files(fresh)), key=lambda path: path.stat().st_size)
    data = bytearray(kernels.read_bytes())
    data[len(data) // 2] ^= 1
    kernels.chmod(0o644)
    kernels.write_bytes(bytes(data))

    done = build(fresh, model, tmp_path / "again")

    assert_error(done, Code.STORE_CORRUPT)
    assert kernels.name in str(done.errors[0]["detail"]) + done.errors[0]["why"]
    assert_nothing_left(fresh, tmp_path / "again")
    assert Path(weights).is_dir()


def test_two_builds_of_the_same_thing_at_once_compile_it_once_and_both_succeed(fresh: Product, tmp_path: Path):
    model = graphs.relu(tmp_path / "m.onnx", channels=32)
    builds = [
        fresh.started("build", model, "-t", "x86-64-v3", "--out", tmp_path / f"out{number}") for number in range(2)
    ]
    ended = [process.communicate(timeout=HANG_S) for process in builds]

    assert [process.returncode for process in builds] == [0, 0], ended
    documents = [json.loads(out) for out, _err in ended]
    runs = [document["cells"][0]["run"] for document in documents]  # None: it came late and took it from the cache
    assert set(runs) - {None} == {"r1"}
    assert len({document["bundles"][0]["digest"] for document in documents}) == 1
    assert_no_temporary(fresh.home, tmp_path)


# ---- helpers

READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"'
SMALL = 'mount -t tmpfs -o size=96k tmpfs "$1"'


@cache
def can_mount() -> bool:
    probe = ("unshare", "-Urm", "sh", "-c", "mount -t tmpfs tmpfs /mnt")
    return (
        shutil.which("unshare") is not None and subprocess.run(probe, check=False, capture_output=True).returncode == 0
    )


def mounted(how: str, place: Path, *, keys: Path | None = None) -> tuple[str, ...]:
    """A command prefix: `place` mounted in a namespace of its own, and `keys` copied into it."""
    if not can_mount():
        pytest.skip("this machine gives no user namespace to mount in")
    copy = f' && cp -a "{keys}" "$1/keys"' if keys is not None else ""
    return ("unshare", "-Urm", "sh", "-c", f'{how}{copy} && shift && exec "$@"', "sh", str(place))


def build(product: Product, model: Path, out: Path, *, prefix: tuple[str, ...] = ()) -> Done:
    return product.farm("build", model, "-t", "x86-64-v3", "--out", out, prefix=prefix)


def assert_error(done: Done, code: Code) -> None:
    assert done.codes == [code], (done.document, done.stderr)
    assert done.status == code.status
    assert "Traceback" not in done.stderr


def assert_nothing_left(product: Product, out: Path) -> None:
    assert not out.exists() or list(out.iterdir()) == []
    assert_no_temporary(product.home, out)


def assert_no_temporary(*folders: Path) -> None:
    left = [path for folder in folders for path in folder.rglob("*") if TEMPORARY in path.name]
    assert left == []


def store_files(product: Product) -> list[Path]:
    return [path for path in (product.home / "store").rglob("*") if path.is_file()]
