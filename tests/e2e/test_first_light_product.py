"""The product path on the real model: build, verify, check, bench, inspect, all through the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from kernelfarm.errors import Code, Status
from tests.support.product import TARGETS, Built, Product
from toolchains import gate, processor, target


@pytest.mark.parametrize("name", TARGETS)
def test_the_real_model_agrees_with_onnxruntime_on_ten_seeded_inputs(real_bundle: Built, name: str):
    done = real_bundle.product.farm("check", real_bundle.bundle, "-t", name, "--seed", "1")

    assert done.status == Status.DONE, (done.document, done.stderr)
    lacking = processor.missing_features(target.load(name))
    if not done.document["ran"]:
        assert lacking
        pytest.skip(f"this processor lacks {', '.join(lacking)}")
    assert (done.document["holds"], done.document["cases"]) == (True, 1 if lacking else 10)  # lacking: in an emulator
    assert done.document["max_abs_error"] <= 1e-4 + 1e-3  # probabilities: at most 1
    assert done.document["payload"] == real_bundle.payload(name)


def test_checking_the_model_takes_the_very_payload_of_the_bundle_from_the_cache(real_bundle: Built):
    found = real_bundle.product.must(
        "check", real_bundle.model, "-t", "x86-64-v3", "--shape", real_bundle.shape, "--inputs", "1"
    )

    assert found["cached"]
    assert found["payload"] == real_bundle.payload("x86-64-v3")


def test_an_input_of_the_user_is_fed(real_bundle: Built, tmp_path: Path):
    np.save(tmp_path / "x.npy", np.full((1, 3, 48, 192), 0.5, np.float32))

    found = real_bundle.product.must(
        "check", real_bundle.bundle, "-t", "x86-64-v3", "--input", f"x={tmp_path / 'x.npy'}"
    )

    assert (found["holds"], found["cases"]) == (True, 1)


def test_the_bundle_verifies_with_the_public_key_alone(real_bundle: Built, tmp_path: Path):
    bundle = real_bundle.copy(tmp_path / "moved elsewhere")
    key = tmp_path / "farm.pub"
    shutil.copy(real_bundle.product.public_key, key)
    found = Product(tmp_path / "no state at all").must("verify", bundle, "--key", key)

    assert (found["ok"], found["signature"]) == (True, "verified")
    assert {name: facts["digest"] for name, facts in found["targets"].items()} == {
        name: real_bundle.payload(name) for name in TARGETS
    }


@pytest.mark.parametrize(("name", "register"), [("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")])
def test_the_linked_kernels_use_the_full_width_of_the_vector_registers(
    real_bundle: Built, tmp_path: Path, name: str, register: str
):
    kernels = kernels_of(real_bundle, name, tmp_path / "kernels.so")

    used = {use.register_class: use.instructions for use in gate.inspect(kernels).code.vectors}

    assert used[register] > 1000, used


@pytest.mark.parametrize("name", TARGETS)
def test_every_hardening_property_is_read_from_the_linked_bytes(real_bundle: Built, name: str):
    found = real_bundle.product.must("inspect", real_bundle.bundle)["targets"][name]["hardening"]

    assert {key for key, fact in found["properties"].items() if not fact["holds"]} == set()
    assert found["exports"] == ["kf_table"]
    assert found["needed"] == []


def test_a_build_of_the_same_thing_again_is_all_cache_and_leaves_the_bundle_as_it_is(real_bundle: Built):
    words = [word for name in TARGETS for word in ("-t", name)]
    out = real_bundle.bundle.parent

    again = real_bundle.product.must("build", real_bundle.model, *words, "--shape", real_bundle.shape, "--out", out)

    assert [cell["cached"] for cell in again["cells"]] == [True, True]
    assert again["bundles"][0]["reused"]
    assert again["bundles"][0]["digest"] == real_bundle.digest


def test_every_stage_of_the_compiler_is_on_record_in_the_payload(real_bundle: Built):
    config = json.loads(file_of(real_bundle, "x86-64-v3", "config.json").read_bytes())

    names = [stage["name"] for stage in config["stages"]]
    assert len(names) >= 4
    assert len(set(names)) == len(names)
    assert all(stage["digest"].startswith("sha256:") for stage in config["stages"])


def test_a_speed_figure_comes_with_its_checks(real_bundle: Built):
    """How fast it is belongs to `make bar-A1`; here: what is measured agrees with onnxruntime, beside a peak."""
    name = next(name for name in reversed(TARGETS) if not processor.missing_features(target.load(name)))

    done = real_bundle.product.farm("bench", real_bundle.bundle, "-t", name, "--rounds", "2")

    found = done.document
    assert done.status == (0 if found["valid"] else 1)
    assert found["max_abs_error"] < 1e-4
    assert found["flop"] > 20_000_000
    assert min(found["peak_gflops"], found["ours"]["milliseconds"], found["peers"]["onnxruntime"]["milliseconds"]) > 0


def test_a_target_that_the_bundle_lacks_is_named_with_those_it_has(real_bundle: Built):
    done = real_bundle.product.farm("check", real_bundle.bundle, "-t", "x86-64-v2")

    assert done.codes == [Code.TARGET_UNKNOWN]
    assert done.errors[0]["detail"]["nearest"] == list(TARGETS)


def file_of(built: Built, name: str, title: str) -> Path:
    """A file of a payload inside the bundle."""
    digest = built.product.must("inspect", built.bundle)["targets"][name]["files"][title]["digest"]
    return built.bundle / "blobs" / "sha256" / digest.removeprefix("sha256:")


def kernels_of(built: Built, name: str, copy: Path) -> Path:
    """A copy of the linked kernels of a target."""
    shutil.copy(file_of(built, name, "kernels.so"), copy)
    return copy


@pytest.mark.parametrize("verb", ["check", "bench"])
def test_a_shape_for_a_bundle_is_wrong_usage(real_bundle: Built, verb: str):
    done = real_bundle.product.farm(verb, real_bundle.bundle, "-t", "x86-64-v3", "--shape", real_bundle.shape)

    assert (done.status, done.codes) == (Status.USAGE, [Code.USAGE])


def test_an_inspector_without_the_model_gives_its_file(real_bundle: Built, tmp_path: Path):
    elsewhere = Product(tmp_path / "home")
    words = ("check", real_bundle.bundle, "-t", "x86-64-v3", "--inputs", "1")

    refused = elsewhere.farm(*words)
    found = elsewhere.must(*words, "--model", real_bundle.model)

    assert refused.codes == [Code.MODEL_UNAVAILABLE]
    assert found["holds"]


def test_another_model_than_the_bundle_s_is_refused(real_bundle: Built, tiny_bundle: Built, tmp_path: Path):
    words = ("check", real_bundle.bundle, "-t", "x86-64-v3", "--model", tiny_bundle.model)

    done = Product(tmp_path / "home").farm(*words)

    assert done.codes == [Code.MODEL_UNAVAILABLE]
