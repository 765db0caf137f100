"""`farm explain` says before a compile what a build does: groups, rules, layouts, and why it goes no further."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.cli.explain import as_text
from kernelc.explanation import Explanation
from kernelfarm import canonical
from kernelfarm.errors import Code, Status
from tests.support import graphs, models
from tests.support.product import Product
from toolchains import target

TARGET = "x86-64-v3"
MINE = """\
fusion_rules:
  - {name: mine, benefit: 9, schedule_hint: WIDE, pattern: [{op: conv}, {op: hard_swish}]}
  - {name: never, pattern: [{op: conv}, {op: sigmoid}]}
  - {name: unready, pattern: [{op: conv}, {op: onnx.Gelu}]}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE, encoding="utf-8")
    return path


@pytest.fixture
def product(tmp_path: Path) -> Product:
    """Without a key: nothing is signed."""
    return Product(tmp_path / "home")


def of_real_model(product: Product, *more: str | Path) -> Any:
    real = models.find("text-direction")
    return product.must("explain", models.fetch(real.name), "-t", TARGET, "--shape", real.shape, *more)


def test_a_user_sees_which_rule_made_how_many_groups(product: Product, rules: Path):
    plain, ruled = of_real_model(product), of_real_model(product, "--rules", rules)

    def told(document: Any) -> dict[str, tuple[bool, int, int]]:
        return {one["name"]: (one["own"], one["matches"], one["groups"]) for one in document["rules"]}

    assert told(plain)["conv_hard_swish"] == (True, 18, 18)
    assert told(ruled)["conv_hard_swish"] == (True, 0, 0)
    assert told(ruled)["mine"] == (False, 18, 18)
    assert told(ruled)["never"] == (False, 0, 0)
    assert ruled["resting"] == [{"name": "unready", "lacks": ["gelu"]}]
    made = [group for group in ruled["groups"] if group["rule"] == "mine"]
    assert len(made) == 18
    assert {(tuple(group["ops"]), group["benefit"], group["hint"]) for group in made} == {
        (("conv", "hard_swish"), 9, "WIDE")
    }
    assert [group["nodes"] for group in ruled["groups"]] == [group["nodes"] for group in plain["groups"]]


def test_every_refusal_has_a_reason(product: Product):
    document = of_real_model(product)

    homes = {node: group["name"] for group in document["groups"] for node in group["nodes"]}
    assert len(document["refused"]) > 0
    for one in document["refused"]:
        assert homes[one["node"]] != one["group"]
        assert one["reason"]
    assert {one["reason"].partition(" ")[2] for one in document["refused"]} >= {
        "is read by 2 nodes and must be written"
    }


def test_it_is_what_the_build_does(product: Product, tmp_path: Path, rules: Path):
    model = graphs.tiny(tmp_path / "tiny.onnx")
    asked = (model, "-t", TARGET, "--shape", "1x3x8x8", "--rules", rules)
    found = canonical.from_json(Explanation, product.must("explain", *asked))

    built = product.with_key().must("build", *asked, "--runner", "process", "--out", tmp_path / "out")

    blobs = [path.read_bytes() for path in (Path(built["bundles"][0]["path"]) / "blobs" / "sha256").iterdir()]
    (config,) = (canonical.loads(data) for data in blobs if b'"schema":"payload/1"' in data)
    assert {stage["name"]: stage["digest"] for stage in config["stages"]}["fusion"] == found.fusion
    compiled = [group["name"] for group in config["groups"]]
    assert [group.name for group in found.groups if group.layout.of == group.output] == [
        name for name in compiled if name.startswith("g")
    ]
    text = as_text(found)
    assert "rule unready rests: the dialect has no gelu" in text
    assert any(line.split()[1:4] == ["conv", "+", "hard_swish"] for line in text.splitlines())


def test_each_kernel_has_a_tile_and_a_predicted_cost_and_each_stage_a_time(product: Product):
    document = of_real_model(product)

    kernels = {one["name"]: one for one in document["kernels"]}
    assert [one["name"] for one in document["groups"] if one["name"] not in kernels] == ["g73_reshape"]  # only a name
    assert next(iter(kernels)) == "input0"
    assert {one["family"] for one in kernels.values()} >= {"conv 1x1", "conv kxk", "depthwise", "cast", "elementwise"}
    assert all(
        one["half_cycles"] > 0 and one["written"] > 0 and one["registers"] <= one["most"] == 16
        for one in kernels.values()
    )
    # the first convolution multiplies more than the gate of a squeeze, and takes longer
    assert kernels["g0_conv"]["half_cycles"] > 100 * kernels["g4_conv"]["half_cycles"]
    stages = {one["name"]: one["microseconds"] for one in document["stages"]}
    assert list(stages) == [
        *("import", "simplify-fold", "simplify-batch-norm", "simplify-activations", "simplify-bias"),
        *("simplify-fold-again", "simplify-moves", "fusion", "kernels"),
    ]
    assert all(stages.values())


def test_kernels_are_measured_in_their_places(product: Product, tmp_path: Path):
    model = graphs.tiny(tmp_path / "tiny.onnx")

    done = product.farm("explain", model, "-t", TARGET, "--shape", "1x3x8x8", "--measure", "--rounds", "3")

    # another process on this core makes times invalid, and says so; bits and order it does not change
    found = done.document["measured"]
    assert (done.status == Status.DONE) is found["valid"]
    assert not [fault for fault in found["faults"] if "bits" in fault]
    assert [one["name"] for one in found["kernels"]] == [one["name"] for one in done.document["kernels"]]
    assert found["inferences"] >= 9
    assert found["sum_ns"] == sum(one["nanoseconds"] for one in found["kernels"])
    assert sum(one["share"] for one in found["kernels"]) == pytest.approx(1)
    assert 0 < found["reading_ns"] < found["engine_ns"]
    assert {one["family"] for one in found["classes"]} == {one["family"] for one in done.document["kernels"]}


def test_what_this_processor_cannot_run_is_not_measured(product: Product, tmp_path: Path):
    done = product.farm("explain", graphs.relu(tmp_path / "relu.onnx"), "-t", "hexagon-v67", "--measure")

    assert (done.status, done.codes) == (Status.ENVIRONMENT, [Code.NOT_RUNNABLE_HERE])


def test_what_cannot_be_built_is_told_as_a_build_would(product: Product, tmp_path: Path):
    nothing = tmp_path / "nothing.onnx"
    nothing.write_bytes(b"not a model")

    done = product.farm("explain", nothing, "-t", TARGET)

    assert (done.status, done.codes) == (Status.BAD, [Code.MODEL_INVALID])
    assert product.farm("explain", nothing, "-t", "x86-64-v9").codes == [Code.TARGET_UNKNOWN]
    assert product.farm("explain", nothing, "-t", TARGET, "--rules", tmp_path / "none").codes == [Code.FILE_MISSING]


@pytest.mark.parametrize("name", target.names())
def test_a_layout_has_the_lanes_of_the_target(product: Product, tmp_path: Path, name: str):
    model = graphs.relu(tmp_path / "relu.onnx", channels=64)
    (group,) = product.must("explain", model, "-t", name)["groups"]
    assert group["layout"]["lanes"] == max(target.load(name).vector.f32_lanes, 4)
    assert (group["rule"], group["shape"]) == (None, [1, 64, 8, 8])


def test_the_layout_flow_is_told(product: Product):
    real = models.find("face-detection")
    found = canonical.from_json(
        Explanation, product.must("explain", models.fetch(real.name), "-t", "x86-64-v4", "--shape", "1x3x64x64")
    )

    told = found.layouts
    assert told.cost == told.bound < told.blocked < told.plain
    assert sum(count for _, count in told.layouts) == len({group.layout.of for group in found.groups}) + 1
    (cast,) = told.casts
    assert (cast.before, cast.after) == ("NCHWc16", "NCHW")
    lanes = {group.name: group.layout.lanes for group in found.groups}
    assert {lanes[name] for name in cast.readers} >= {1}
    text = as_text(found)
    assert f"cast of {cast.value} from NCHWc16 to NCHW" in text
    assert f"predicted {told.cost} half cycles, the least" in text
