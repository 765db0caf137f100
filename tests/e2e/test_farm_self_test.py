"""`farm check BUNDLE --self-test`: golden vectors through a bundle's own programs, with nothing but the bundle."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from farm import config, native, self_test
from farm.native import NotRunnableError
from kernelfarm.errors import Code, FarmError, Status
from tests.support.product import TARGETS, Built, Product
from toolchains import processor, target


def test_a_machine_that_has_nothing_but_the_bundle_can_test_it(tiny_bundle: Built, tmp_path: Path) -> None:
    done = Product(tmp_path / "home").farm("check", tiny_bundle.bundle, "--self-test")

    assert (done.status, done.document["schema"]) == (Status.DONE, "self-tests/1"), done.stderr
    assert list(done.document["targets"]) == list(TARGETS)
    for name, found in done.document["targets"].items():
        assert found["payload"] == tiny_bundle.payload(name)
        assert found["ran"] == (not processor.missing_features(target.load(name)))
        assert [line.split()[0] for line in found["said"]] == ["ok"] * found["ran"]


@pytest.mark.parametrize("more", [("--inputs", "3"), ("--shape", "1x3x8x8"), ("--model", "model.onnx")])
def test_it_takes_no_inputs(tiny_bundle: Built, more: tuple[str, str]) -> None:
    assert tiny_bundle.product.farm("check", tiny_bundle.bundle, "--self-test", *more).codes == [Code.USAGE]


def test_only_a_bundle_has_golden_vectors(tiny_bundle: Built) -> None:
    done = tiny_bundle.product.farm("check", tiny_bundle.model, "-t", TARGETS[0], "--self-test")

    assert done.codes == [Code.USAGE]


def test_a_damaged_bundle_is_not_run(tiny_bundle: Built, tmp_path: Path) -> None:
    damaged = tiny_bundle.copy(tmp_path / "bundle")
    blob = max((damaged / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    blob.write_bytes(blob.read_bytes()[:-1] + b"?")

    done = tiny_bundle.product.farm("check", damaged, "--self-test")

    assert (done.status, done.codes) == (Status.BAD, [Code.BUNDLE_CORRUPT])


def test_what_this_machine_cannot_run_is_said_to_be_not_run(
    tiny_bundle: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise NotRunnableError("E14 cpu: lacks avx512f")

    monkeypatch.setattr(native, "self_test", refuse)
    found = self_test.test(config.load({"FARM_HOME": str(tmp_path)}), tiny_bundle.bundle, TARGETS[0])

    assert (found.reason, found.said) == ("E14 cpu: lacks avx512f", ())
    assert found.to_json()["how"] == "not run"


def test_an_unknown_target_is_named_with_those_of_the_bundle(tiny_bundle: Built, tmp_path: Path) -> None:
    with pytest.raises(FarmError) as raised:
        self_test.test(config.load({"FARM_HOME": str(tmp_path)}), tiny_bundle.bundle, "riscv64")

    assert raised.value.code is Code.TARGET_UNKNOWN
