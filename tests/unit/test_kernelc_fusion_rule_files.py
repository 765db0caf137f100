"""Rule files: the example of the requirements loads as it stands; every fault names file, line and column."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from kernelc import fusion
from kernelc.fusion import library, schema, yaml_file
from kernelc.fusion.rule import Rule, Step
from kernelc.graph import Graph, weight_of
from kernelc.media.builder import GraphBuilder
from kernelfarm.errors import Code, FarmError, Status

EXAMPLE = """\
fusion_rule:
  name: "Conv_Norm_Activation"
  pattern:
    - op: "linalg.conv_2d"
    - op: "linalg.batch_norm"  # 或 InstanceNorm/GroupNorm
    - op: "linalg.leaky_relu"  # 支持参数化alpha
  constraints:
    - "conv.output_shape == norm.input_shape"
    - "norm.epsilon < 1e-3"
  schedule_hint: "TENSOR_CORE_16x8x16"
"""

PLAIN = """\
fusion_rule:
  name: mine
  pattern: [{op: conv}, {op: clip}]
  constraints: ["clip.max == 6"]
  schedule_hint: WIDE
  benefit: 9
"""


def _load(tmp_path: Path, text: str) -> tuple[Rule, ...]:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return fusion.load([path])


def _clipped(top: float) -> Graph:
    build = GraphBuilder()
    x = build.input("x", "f32", (1, 4, 6, 6))
    attrs = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}
    c = build.node("conv", [x, build.weight(weight_of(np.ones((4, 4, 3, 3)), "f32"))], attrs)
    return build.finish([("y", build.node("clip", [c], {"min": 0.0, "max": top}))])


def test_the_example_of_the_requirements_loads(tmp_path: Path) -> None:
    (rule,) = _load(tmp_path, EXAMPLE)
    assert rule.name == "Conv_Norm_Activation"
    assert rule.steps == (
        Step("conv", ("conv",)),
        Step("norm", ("batch_norm",)),
        Step("leaky_relu", ("leaky_relu",)),
    )
    assert [one.text for one in rule.constraints] == ["conv.output_shape == norm.input_shape", "norm.epsilon < 1e-3"]
    assert rule.hint == "TENSOR_CORE_16x8x16"
    assert rule.lacks == ()


def test_a_rule_rests_until_the_dialect_has_its_operation(tmp_path: Path) -> None:
    (rule,) = _load(tmp_path, EXAMPLE.replace("linalg.leaky_relu", "onnx.Gelu"))
    assert rule.lacks == ("gelu",)
    text = fusion.to_text(fusion.group(_clipped(6.0), [rule]))
    assert text.splitlines()[-1] == "rule Conv_Norm_Activation rests: the dialect has no gelu"


def test_a_rule_of_a_file_is_taken_before_the_farms_where_its_benefit_is_larger(tmp_path: Path) -> None:
    rules = [*library.builtin(), *_load(tmp_path, PLAIN)]
    assert fusion.to_text(fusion.group(_clipped(6.0), rules)) == (
        "g0_conv: n0_conv + n1_clip (t0, w0) -> t2 by mine, benefit 9, hint WIDE\n"
    )
    assert fusion.to_text(fusion.group(_clipped(5.0), rules)) == (
        "g0_conv: n0_conv + n1_clip (t0, w0) -> t2 by conv_clip, benefit 2\n"
    )


def test_a_constraint_that_does_not_hold_says_what_was_found(tmp_path: Path) -> None:
    assert fusion.to_text(fusion.group(_clipped(5.0), _load(tmp_path, PLAIN))) == (
        "g0_conv: n0_conv (t0, w0) -> t1\n"
        "g1_clip: n1_clip (t1) -> t2\n"
        'refused n1_clip after g0_conv: rule mine: "clip.max == 6" does not hold: clip.max is 5.0\n'
    )


def test_a_step_that_reads_an_earlier_one_survives_its_canonical_form(tmp_path: Path) -> None:
    text = PLAIN.replace("{op: clip}]", "{op: clip}, {op: [mul, add], reads: conv}]")
    (rule,) = _load(tmp_path, text)
    assert rule.steps[2] == Step("step", ("mul", "add"), reads="conv")
    assert library.from_json(library.to_json([rule]), "x") == (rule,)


def test_json_is_yaml(tmp_path: Path) -> None:
    data = schema.data_of(_load(tmp_path, PLAIN))
    assert _load(tmp_path, json.dumps(data)) == _load(tmp_path, PLAIN)
    assert library.from_json(library.to_json(_load(tmp_path, PLAIN)), "x") == _load(tmp_path, PLAIN)


def test_the_rule_of_the_how_to_is_the_farms() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/add-a-fusion-rule.md").read_text(encoding="utf-8")
    block = page.split("```yaml\n")[2].split("```")[0]
    (rule,) = schema.rules_of(yaml_file.read(block.encode(), "how-to"))
    assert rule in library.builtin()


SYNTAX, RULE, CONSTRAINT = Code.RULE_FILE_INVALID, Code.RULE_INVALID, Code.RULE_CONSTRAINT


@pytest.mark.parametrize(
    ("old", "new", "code", "place", "why"),
    [
        ("pattern: [", "pattern: [[", SYNTAX, (4, 3), "expected ',' or ']'"),
        ("name: mine", "name: &a mine", SYNTAX, (2, 9), "anchors and aliases"),
        ("name: mine", "name: !!python/name:os.system x", SYNTAX, (2, 9), "tags are not allowed"),
        ("benefit: 9", "name: other", SYNTAX, (6, 3), "'name' occurs twice"),
        ("fusion_rule:", "fusion_role:", RULE, (1, 1), "it must hold fusion_rule"),
        ("benefit: 9", "benefits: 9", RULE, (6, 13), "no key 'benefits'"),
        ("benefit: 9", "benefit: -1", RULE, (6, 12), "a benefit is a number"),
        ("benefit: 9", "benefit: 010", RULE, (6, 12), "a benefit is a number"),
        ("benefit: 9", "benefit: true", RULE, (6, 12), "a benefit is a number"),
        ("benefit: 9", "benefit: 99999999999999999999", RULE, (6, 12), "a benefit is a number"),
        ("  name: mine\n", "", RULE, (2, 3), "the key 'name' is missing"),
        ("name: mine", "name: conv_bias", RULE, (2, 9), "another rule is called 'conv_bias'"),
        ("name: mine", "name: my rule", RULE, (2, 9), "not a name"),
        ("{op: clip}", "{op: clop}", RULE, (3, 30), "there is no operation 'clop'"),
        ("{op: clip}", "{op: weight}", RULE, (3, 30), "there is no operation 'weight'"),
        ("{op: clip}", "{op: [relu, clip, relu]}", RULE, (3, 43), "named twice"),
        ("{op: clip}", "{op: clip, name: conv}", RULE, (3, 42), "two steps are called 'conv'"),
        ("{op: clip}", "{op: clip, repeat: 0}", RULE, (3, 44), "a step repeats from 1 to 16 times"),
        ("{op: clip}", "{op: clip, optional: yes}", RULE, (3, 46), "optional is true or false"),
        ("{op: clip}", "{op: sigmoid}, {op: mul, reads: clip}", RULE, (3, 57), "of one operation: conv"),
        ("{op: clip}", "{op: mul, reads: conv}", RULE, (3, 42), "of one operation: none"),
        ("{op: clip}", "{op: sigmoid}, {op: relu, reads: conv}", RULE, (3, 58), "only one operation of two operands"),
        ("{op: clip}", "{op: clip}, {op: mul, reads: [conv]}", RULE, (3, 54), "of one operation: conv"),
        ("[{op: conv}, {op: clip}]", "[{op: conv}]", RULE, (3, 12), "2 to 8 steps"),
        ("{op: clip}", "{op: clip, optional: true}", RULE, (3, 12), "two steps at least"),
        ("{op: conv}", "{op: conv, optional: true}", RULE, (3, 13), "the first step"),
        ("WIDE", "'a\\tb\u00e9'", RULE, (5, 19), "printable ASCII"),
        ("clip.max == 6", "clip.max == == 6", CONSTRAINT, (4, 30), "not an expression"),
        ("clip.max == 6", "clip.most == 6", CONSTRAINT, (4, 18), "clip has no fact 'most'; it has channels, "),
        ("clip.max == 6", "6 == clap.max", CONSTRAINT, (4, 23), "no step is called 'clap'; there are conv, clip"),
        ("clip.max == 6", "clip.max == '6'", CONSTRAINT, (4, 30), "a number is never equal to a text"),
        ("clip.max == 6", "clip.max.real == 6", CONSTRAINT, (4, 18), "Attribute is not part of the language"),
        ("clip.max == 6", "open('x') == 6", CONSTRAINT, (4, 18), "Call is not part of the language"),
        ("clip.max == 6", "clip.max ** 9 == 6", CONSTRAINT, (4, 18), "BinOp is not part of the language"),
        ("clip.max == 6", "clip.max + 6", CONSTRAINT, (4, 18), "a constraint must be a flag, not a number"),
        ("clip.max == 6", "clip.op == '\\\\x41'", CONSTRAINT, None, "is not part of the language"),
        ("clip.max == 6", "clip == 6", CONSTRAINT, (4, 18), "write clip.FACT"),
        ("clip.max == 6", "(" * 120 + "1" + ")" * 120, CONSTRAINT, None, ""),
        ("clip.max == 6", "-" * 299 + "1", CONSTRAINT, None, ""),
    ],
)
def test_a_fault_has_a_code_and_a_place(
    old: str, new: str, code: Code, place: tuple[int, int] | None, why: str, tmp_path: Path
) -> None:
    assert old in PLAIN
    with pytest.raises(FarmError) as caught:
        _load(tmp_path, PLAIN.replace(old, new, 1))
    assert caught.value.code is code
    assert why in caught.value.why
    path = tmp_path / "mine.yaml"
    assert caught.value.detail["file"] == str(path)
    if place is not None:
        assert (caught.value.detail["line"], caught.value.detail["column"]) == place
        assert caught.value.what.startswith(f"{path}:{place[0]}:{place[1]}: ")


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", (1, 1)),
        (b"# nothing\n", (1, 1)),
        (b"a: 1\n---\nb: 2\n", (2, 1)),
        (b"a:\n  b\0\n", (2, 4)),
        (b"\xff\xfe\xfd", (1, 1)),
        ("fusion_rule: # 规则\n  name: é".encode() + b"\xe9", (2, 10)),
        (b"[" * 900_000, (1, 13)),
        (b"a: &a [1]\nb: &b [*a, *a]\n", (1, 4)),
        (b"<<: {a: 1}\n", (1, 1)),
        (b"? [a]\n: 1\n", (1, 3)),
        (b"a: |\n  b\n", (1, 4)),
        (b'a: "\\U00110000"\n', (1, 1)),
        (b'a: "\\UFFFFFFFF"\n', (1, 1)),
        (b"a" * 2_000_000, (1, 1)),
        (b"- a\n" * 250_000, (49_999, 3)),
    ],
    ids=range(15),
)
def test_what_is_not_one_plain_document_is_refused_with_its_place(data: bytes, place: tuple[int, int]) -> None:
    with pytest.raises(FarmError) as caught:
        yaml_file.read(data, "x.yaml")
    assert caught.value.code is Code.RULE_FILE_INVALID
    assert (caught.value.detail["line"], caught.value.detail["column"]) == place
    assert caught.value.status is Status.USAGE


def test_only_a_plain_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(FarmError) as caught:
            fusion.load([path])
        assert caught.value.code is Code.RULE_FILE_INVALID
    with pytest.raises(FarmError) as caught:
        fusion.load([tmp_path / "none.yaml"])
    assert caught.value.code is Code.FILE_MISSING


def test_a_name_that_is_taken_is_told_with_both_places(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(PLAIN)
    second.write_text("# mine too\n" + PLAIN)
    with pytest.raises(FarmError) as caught:
        fusion.load([first, second])
    assert caught.value.what == f"{second}:3:9: not a fusion rule"
    assert caught.value.why == f"another rule is called 'mine': {first}:2:9"

    second.write_text(PLAIN.replace("mine", "conv_bias"))
    with pytest.raises(FarmError) as caught:
        fusion.load([second])
    own = library.SOURCES / "a_convolution.yaml"
    line = own.read_text(encoding="utf-8").splitlines().index("  - name: conv_bias") + 1
    assert caught.value.why == f"another rule is called 'conv_bias': the farm's own at {own}:{line}:11"


def test_all_files_together_hold_no_more_rules_than_one_may(tmp_path: Path) -> None:
    paths = [tmp_path / "0.yaml", tmp_path / "1.yaml"]
    for number, path in enumerate(paths):
        rules = [f"{{name: r{number}_{i}, pattern: [{{op: conv}}, {{op: clip}}]}}" for i in range(300)]
        path.write_text(f"fusion_rules: [{', '.join(rules)}]")
    with pytest.raises(FarmError) as caught:
        fusion.load(paths)
    assert (caught.value.code, caught.value.detail["file"]) == (Code.RULE_INVALID, str(paths[1]))


def test_compiles_get_the_farms_rules_and_then_the_users(tmp_path: Path) -> None:
    mine = _load(tmp_path, PLAIN) + _load(tmp_path, EXAMPLE)
    assert fusion.joined(fusion.to_json(mine), "rules.json") == library.builtin() + mine


def test_a_compile_believes_no_rules_that_it_is_given(tmp_path: Path) -> None:
    own = library.builtin()[:1]
    for data, code in (
        (fusion.to_json(own), Code.RULE_INVALID),
        (b"{}", Code.RULE_INVALID),
        (b"[" * 9999, Code.JSON_INVALID),
        (fusion.to_json(_load(tmp_path, PLAIN)) + b" ", Code.JSON_NOT_CANONICAL),
    ):
        with pytest.raises(FarmError) as caught:
            fusion.joined(data, "rules.json")
        assert caught.value.code is code


def test_comments_and_the_form_of_a_file_reach_no_canonical_byte(tmp_path: Path) -> None:
    data = fusion.to_json(_load(tmp_path, PLAIN))
    assert fusion.to_json(_load(tmp_path, f"# why\n{PLAIN}  tests: []\n")) == data
    assert fusion.to_json(_load(tmp_path, PLAIN.replace("op: conv", "op: onnx.Conv"))) == data
    assert fusion.to_json(_load(tmp_path, PLAIN.replace("benefit: 9", "benefit: 8"))) != data
