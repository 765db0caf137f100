"""Rule files of a user: they reach every compile of their build and all that repeat it; an edit costs little."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kernelfarm.errors import Code, Status
from tests.support import graphs, models
from tests.support.product import Product

PAGE = (models.ROOT / "docs" / "how-to" / "add-a-fusion-rule.md").read_text(encoding="utf-8")
HOW_TO = PAGE.split("```yaml\n")[1].split("```")[0]
TARGET, SHAPE = "x86-64-v3", "1x3x8x8"
MINE = """\
fusion_rules:
  - name: mine
    benefit: 9
    pattern: [{op: conv}, {op: hard_swish}]
  - name: unready
    pattern: [{op: conv}, {op: onnx.Gelu}]
"""


def build(product: Product, model: Path, out: Path, *more: str | Path, shape: str = SHAPE) -> Any:
    """The document of a build whose every cell is done."""
    return product.must("build", model, "-t", TARGET, "--shape", shape, "--out", out, "--runner", "process", *more)


def bundle_of(document: Any) -> Path:
    return Path(document["bundles"][0]["path"])


def config_of(document: Any) -> Any:
    """config.json of the only payload of a build."""
    found = [path.read_bytes() for path in (bundle_of(document) / "blobs" / "sha256").iterdir()]
    (config,) = (json.loads(data) for data in found if b'"schema":"payload/1"' in data)
    return config


def stages_of(document: Any) -> dict[str, str]:
    return {stage["name"]: stage["digest"] for stage in config_of(document)["stages"]}


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return graphs.tiny(tmp_path / "tiny.onnx")


def test_rules_decide_a_key_of_their_own_and_travel_with_the_bundle(fresh: Product, model: Path, tmp_path: Path):
    rules = written(tmp_path / "mine.yaml", MINE)
    plain = build(fresh, model, tmp_path / "plain")

    ruled = build(fresh, model, tmp_path / "ruled", "--rules", rules)

    assert plain["rules"] is None
    assert ruled["rules"]["names"] == ["mine", "unready"]
    assert ruled["rules"]["resting"] == [{"name": "unready", "lacks": ["gelu"]}]
    assert ruled["cells"][0]["recipe_key"] != plain["cells"][0]["recipe_key"]
    assert ruled["cells"][0]["execution_key"] != plain["cells"][0]["execution_key"]
    assert stages_of(ruled)["fusion"] != stages_of(plain)["fusion"]
    assert stages_of(ruled)["objects"] == stages_of(plain)["objects"]  # the same operations under another rule's name
    again = written(tmp_path / "again.json", json.dumps(json.loads(_as_json(rules))))
    assert build(fresh, model, tmp_path / "ruled", "--rules", again)["cells"][0]["cached"]

    fresh.must("verify", bundle_of(ruled), "--key", fresh.public_key)
    assert fresh.must("check", model, "-t", TARGET, "--shape", SHAPE, "--rules", rules)["holds"]
    assert fresh.must("rebuild", bundle_of(ruled), "--runner", "process")["same"]


def _as_json(path: Path) -> bytes:
    from kernelc import fusion

    return fusion.to_json(fusion.load([path]))


def test_a_rebuild_elsewhere_wants_the_rules_as_it_wants_the_model(fresh: Product, model: Path, tmp_path: Path):
    rules = written(tmp_path / "mine.yaml", MINE)
    made = bundle_of(build(fresh, model, tmp_path / "out", "--rules", rules))
    elsewhere = Product(tmp_path / "elsewhere")
    asked = ("rebuild", made, "--runner", "process", "--model", model)

    assert elsewhere.farm(*asked).codes == [Code.RULES_UNAVAILABLE]
    other = written(tmp_path / "other.yaml", MINE.replace("9", "8"))
    assert elsewhere.farm(*asked, "--rules", other).codes == [Code.RULES_UNAVAILABLE]
    assert elsewhere.must(*asked, "--rules", rules)["same"]


def test_a_build_that_is_resumed_knows_its_rules(fresh: Product, model: Path, tmp_path: Path):
    rules = written(tmp_path / "mine.yaml", MINE)
    first = build(fresh, model, tmp_path / "out", "--rules", rules)

    again = fresh.must("build", "--resume", first["id"])

    assert again["rules"] == first["rules"]
    assert again["cells"][0]["execution_key"] == first["cells"][0]["execution_key"]
    refused = fresh.farm("build", "--resume", first["id"], "--rules", rules)
    assert (refused.status, refused.codes) == (Status.USAGE, [Code.USAGE])


HOSTILE = {
    "not UTF-8": (b"fusion_rule:\n  name: \xff\n", Code.RULE_FILE_INVALID, (2, 9)),
    "a bomb": (b"a: &a [1]\nb: &b [*a, *a, *a]\n", Code.RULE_FILE_INVALID, (1, 4)),
    "deep": (b"[" * 100_000, Code.RULE_FILE_INVALID, (1, 13)),
    "huge": (b"# " + b"x" * (2 << 20), Code.RULE_FILE_INVALID, (1, 1)),
    "a wrong type": (b"fusion_rule: [1]\n", Code.RULE_INVALID, (1, 14)),
    "no operation": (b"fusion_rule:\n  name: x\n  pattern: [{op: conv}, {op: clop}]\n", Code.RULE_INVALID, (3, 30)),
    "a call": (
        b"fusion_rule:\n  name: x\n  pattern: [{op: conv}, {op: clip}]\n  constraints: [\"open('/') == 1\"]\n",
        Code.RULE_CONSTRAINT,
        (4, 18),
    ),
}


@pytest.mark.parametrize(("data", "code", "place"), HOSTILE.values(), ids=HOSTILE)
def test_a_fault_of_a_file_is_the_users_and_nothing_is_built(
    data: bytes, code: Code, place: tuple[int, int], tmp_path: Path
):
    product = Product(tmp_path / "home")
    rules = tmp_path / "mine.yaml"
    rules.write_bytes(data)

    done = product.farm("build", "none.onnx", "-t", TARGET, "--rules", rules)

    assert (done.status, done.codes) == (Status.USAGE, [code])
    detail = done.errors[0]["detail"]
    assert (detail["file"], detail["line"], detail["column"]) == (str(rules), *place)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_edited_rule_compiles_the_groups_that_it_touches(fresh: Product, tmp_path: Path):
    """The rule of the how-to: three additions could follow a convolution or a transposed one, from some size on."""
    path, rules = models.fetch("face-detection"), tmp_path / "fusion.yaml"
    assert ">= 16" in HOW_TO

    def built(text: str) -> tuple[Counter[str], set[str]]:
        written(rules, text)
        made = build(fresh, path, tmp_path / "out", "--rules", rules, shape="1x3x64x64")
        (log,) = (fresh.home / "logs" / made["cells"][0]["run"]).glob("*.log")
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        told = Counter(line["stage"] for line in lines if line["stage"] in ("group", "reused"))
        return told, {group["symbol"] for group in config_of(made)["groups"]}

    first, kernels = built(HOW_TO.replace(">= 16", ">= 1000"))
    assert first == {"group": len(kernels)}
    for text, touched in ((HOW_TO, 2), (HOW_TO.replace(">= 16", ">= 8"), 2), (HOW_TO.replace("99", "98"), 0)):
        told, found = built(text)
        assert (told["group"], told["reused"]) == (touched, len(found) - touched)
        assert len(found - kernels) == touched
        kernels |= found


def test_the_page_shows_what_explain_says(tmp_path: Path):
    rules = written(tmp_path / "fusion.yaml", HOW_TO)
    arguments = ["explain", str(models.fetch("face-detection")), "-t", TARGET, "--shape", "1x3x64x64"]
    done = subprocess.run(
        [sys.executable, "-m", "farm.cli.main", *arguments, "--rules", rules],
        env={**os.environ, "FARM_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    shown = [line for line in PAGE.split("```\n")[4].splitlines() if line]
    assert len(shown) == 4
    assert [line for line in shown if line not in done.stdout.splitlines()] == []
