"""The same bytes wherever and however they are compiled: each variation alone, and all of them together."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from farm import config, rebuild
from farm.config import Config
from farm.surroundings import ALL, Variation
from tests import support
from tests.support import graphs
from tests.support.product import TARGETS, Built, Product

ALONE = list(Variation)


def settings(product: Product) -> Config:
    return config.load({"FARM_HOME": str(product.home)})


@pytest.fixture
def tiny(tiny_bundle: Built, tmp_path: Path) -> Built:
    """The small bundle and the state that made it, as copies: rebuilding adds to both."""
    return own_copy(tiny_bundle, tmp_path)


def own_copy(built: Built, folder: Path) -> Built:
    home = folder / "home"
    shutil.copytree(built.product.home, home, ignore=shutil.ignore_patterns("run", "cache"))
    return dataclasses.replace(built, product=Product(home), bundle=built.copy(folder / "bundles" / built.bundle.name))


@pytest.mark.parametrize("variation", ALONE, ids=[variation.value for variation in ALONE])
def test_a_rebuild_that_varies_one_thing_gives_the_same_payload(tiny: Built, variation: Variation):
    question = rebuild.Question(tiny.bundle, (variation,), targets=("x86-64-v3",))
    if variation is Variation.HOST_NAME and not can_rename_the_host():
        pytest.skip("this machine gives no user namespace")

    report = rebuild.rebuild(settings(tiny.product), question)

    (one,) = report.rebuilt
    assert one.comparison.varied == (variation.value,)
    assert one.comparison.rebuilt == tiny.payload("x86-64-v3")
    assert one.differences == ()
    assert rebuild.on_record(settings(tiny.product), question).same


def test_the_real_model_for_both_targets_with_everything_varied(real_bundle: Built, tmp_path: Path):
    own = own_copy(real_bundle, tmp_path)

    report = rebuild.rebuild(settings(own.product), rebuild.Question(own.bundle, ALL))

    assert {one.target: one.comparison.rebuilt for one in report.rebuilt} == {
        target: real_bundle.payload(target) for target in TARGETS
    }
    assert report.same
    verified = own.product.must("verify", own.bundle, "--key", own.product.public_key)
    assert verified["digest"] == real_bundle.digest  # the comparisons are in the bundle, which is still what it was
    assert [one["check"] for one in verified["checks"] if one["check"].startswith("comparison")] == [
        f"comparison of {name}" for name in TARGETS
    ]


def test_a_rebuild_by_a_compiler_that_writes_the_time_would_be_found(tiny: Built, monkeypatch: pytest.MonkeyPatch):
    """The test of the test: surroundings that do reach the output make the comparison fail."""
    monkeypatch.setattr(rebuild, "COMPILER", str(Path(support.__file__).with_name("leaky_compiler.py")))
    question = rebuild.Question(tiny.bundle, (Variation.TIME_ZONE,), ("x86-64-v3",))

    report = rebuild.rebuild(settings(tiny.product), question)

    assert not report.same
    # the bill of materials holds the digest of every other file
    assert [item.file for item in report.rebuilt[0].differences] == ["config.json", "sbom.cdx.json"]
    assert report.error().why.startswith("config.json: first at offset ")
    verified = tiny.product.must("verify", tiny.bundle, "--key", tiny.product.public_key)
    assert "rebuilt DIFFERENT" in json.dumps(verified["checks"])


def test_models_and_targets_in_reversed_order_give_the_same_bundle(tiny_bundle: Built, tmp_path: Path):
    other = graphs.relu(tmp_path / "a-first-model.onnx")
    words = [word for name in reversed(TARGETS) for word in ("-t", name)]
    shapes = ("--shape", tiny_bundle.shape)  # spelled as there: a recipe holds options as they are given
    product = Product(tmp_path / "home").with_key()

    built = product.must("build", tiny_bundle.model, other, *words, *shapes, "--out", tmp_path / "out")

    digests = {Path(bundle["path"]).name: bundle["digest"] for bundle in built["bundles"]}
    assert digests["tiny"] == tiny_bundle.digest


def test_the_state_of_the_farm_and_the_environment_of_the_user_do_not_count(tiny_bundle: Built, tmp_path: Path):
    environment = {
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "C",
        "LANG": "tr_TR.UTF-8",
        "HOME": str(tmp_path),
        "PYTHONHASHSEED": "7",
        "PYTHONUTF8": "0",
        "TMPDIR": str(tmp_path),
    }
    product = Product(tmp_path / "state with space, ünïcode 目录", environment).with_key()
    out = tmp_path / "out"

    built = product.must(
        "build", tiny_bundle.model, "-t", "x86-64-v3", "--shape", "1x3x8x8", "--out", out, "--jobs", "1"
    )

    assert built["bundles"][0]["payloads"]["x86-64-v3"] == tiny_bundle.payload("x86-64-v3")


def can_rename_the_host() -> bool:
    return rebuild.possible((Variation.HOST_NAME, Variation.CORE))[1] == ()
