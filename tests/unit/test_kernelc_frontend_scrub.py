"""Scrubbing rule by rule: what goes, what stays, and that a second time changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from kernelc import frontend, media
from kernelc.frontend.operators.resampling import _POLICIES, COORDINATES, ROUNDINGS
from kernelc.frontend.scrub import rules
from kernelc.frontend.scrub.rewrite import WORDS, Scrubbed, scrub
from kernelc.frontend.scrub.secrets import Secrets
from kernelfarm.errors import Code, FarmError
from tests.support import graphs, onnx_files, planted
from tests.support.onnx_files import node


def scrubbed(model: onnx.ModelProto, *words: str) -> Scrubbed:
    return scrub(model, Secrets.of(words))


def data(made: Scrubbed) -> bytes:
    return bytes(made.model.SerializeToString(deterministic=True))


def tiny(folder: Path) -> onnx.ModelProto:
    return onnx.load_model(graphs.tiny(folder / "tiny.onnx"))


def simple(**names: str) -> onnx.ModelProto:
    """y = relu(x + w), under other names."""
    x, y, w = (names.get(name, name) for name in "xyw")
    nodes = [node("Add", [x, w], ["sum"], name="first"), node("Relu", ["sum"], [y])]
    return onnx_files.model(nodes, {x: [1, 3]}, (y,), {w: np.ones((1, 3), np.float32)})


def test_nothing_but_the_computation_is_left() -> None:
    model = simple()
    model.producer_name, model.producer_version, model.domain, model.doc_string = "torch", "2.9", "org.x", "by me"
    model.model_version = 7
    helper.set_model_props(model, {"author": "me"})

    made = scrubbed(model)

    text = " ".join(onnx.printer.to_text(made.model).split())
    assert text == (
        '< ir_version: 8, opset_import: ["" : 17] > model (float[1,3] x) => (float[] y)'
        " <float[1,3] w0 = {1,1,1}> { v0 = Add (x, w0) y = Relu (v0) }"
    )
    assert made.removed == {"doc strings": 1, "metadata": 2, "names": 6, "producer": 3}


def test_no_secret_is_left_wherever_it_was(tmp_path: Path) -> None:
    planted.self_check()
    model = planted.everywhere(tiny(tmp_path))
    assert planted.found_in(model.SerializeToString()) == set(planted.SECRETS)

    assert planted.found_in(data(scrubbed(model, planted.WORD))) == set()


def test_secrets_are_planted_in_every_field_of_text_that_onnx_has(tmp_path: Path) -> None:
    missing = planted.fields_of_text() - planted.fields_with_secrets(planted.everywhere(tiny(tmp_path)))

    assert len(planted.fields_of_text()) > 40
    assert missing == set()


def test_models_that_differ_in_text_alone_become_one(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    texts = planted.everywhere(model)
    planted_names = {texts.graph.input[0].name: "x", texts.graph.output[0].name: "y"}

    made = scrubbed(texts, planted.WORD)

    assert {item.old: item.kind for item in made.renamed} == dict(zip(planted_names, ("input", "output"), strict=True))
    plain = scrubbed(model).model
    for item, name in ((plain.graph.input[0], "scrubbed_input_0"), (plain.graph.output[0], "scrubbed_output_0")):
        _rename(plain, item.name, name)
    assert data(made) == plain.SerializeToString(deterministic=True)


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    for model in (tiny(tmp_path), planted.everywhere(tiny(tmp_path)), simple()):
        once = scrubbed(model, planted.WORD)
        again = scrubbed(once.model)
        assert (data(again), again.renamed, again.removed) == (data(once), (), {})


def test_the_computation_is_the_same(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    plain = media.to_text(frontend.load(onnx_files.save(tmp_path, model), {}))

    assert media.to_text(frontend.load(onnx_files.save(tmp_path, scrubbed(model).model), {})) == plain


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("images", "images"),
        ("/backbone/conv1/out", "/backbone/conv1/out"),
        ("/home/alice/in", "scrubbed_input_0"),
        ("Falkenhorst_in", "scrubbed_input_0"),
    ],
)
def test_an_input_keeps_its_name_unless_it_holds_a_secret(name: str, kept: str) -> None:
    made = scrubbed(simple(x=name), "falkenhorst")

    assert [info.name for info in made.model.graph.input] == [kept]
    assert made.model.graph.node[0].input[0] == kept
    assert [item.new for item in made.renamed] == [kept] * (name != kept)


def test_a_number_that_is_taken_is_passed_over() -> None:
    made = scrubbed(simple(x="/home/alice/in", y="scrubbed_input_0"))

    assert made.model.graph.input[0].name == "scrubbed_input_0_"
    assert made.model.graph.output[0].name == "scrubbed_input_0"


def test_numbers_of_values_pass_over_names_of_the_interface() -> None:
    made = scrubbed(simple(x="v0", y="w0"))

    assert [list(item.output) for item in made.model.graph.node] == [["v1"], ["w0"]]
    assert [item.name for item in made.model.graph.initializer] == ["w1"]


def test_a_weight_that_is_an_input_too_loses_its_name_in_both_places() -> None:
    model = simple(w="/home/alice/w")
    model.graph.input.append(helper.make_tensor_value_info("/home/alice/w", onnx.TensorProto.FLOAT, [1, 3]))

    made = scrubbed(model)

    assert [info.name for info in made.model.graph.input] == ["x", "w0"]
    assert made.renamed == ()


def test_names_of_sizes_are_numbered_and_stay_equal_where_they_were() -> None:
    nodes = [node("Add", ["a", "b"], ["y"])]
    made = scrubbed(onnx_files.model(nodes, {"a": ["secret", 3, "?"], "b": ["secret", "other", ""]}))

    sizes = [[size.dim_param for size in info.type.tensor_type.shape.dim] for info in made.model.graph.input]
    assert sizes == [["d0", "", ""], ["d0", "d1", ""]]


def test_attributes_keep_the_words_that_operators_take_and_no_others() -> None:
    nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="SAME_UPPER", note="Falkenhorst")]
    made = scrubbed(onnx_files.model(nodes, {"x": [1, 1, 4, 4]}))

    found = {item.name: helper.get_attribute_value(item) for item in made.model.graph.node[0].attribute}
    assert found == {"kernel_shape": [2, 2], "auto_pad": b"SAME_UPPER", "scrubbed": b"scrubbed"}


def test_every_word_that_a_handler_compares_with_is_kept() -> None:
    assert {*COORDINATES, *ROUNDINGS, *_POLICIES, "DCR", "CRD"} <= WORDS


def test_an_operator_that_holds_a_secret_is_refused_without_telling_it(tmp_path: Path) -> None:
    model = onnx_files.model([node("FalkenhorstPool", ["x"], ["y"], domain="com.falkenhorst")], {"x": [1]})

    with pytest.raises(FarmError) as caught:
        frontend.load(onnx_files.save(tmp_path, scrubbed(model, "falkenhorst").model), {})
    assert caught.value.code is Code.OPERATOR_UNKNOWN
    assert planted.found_in(str(caught.value.to_json()).encode()) == set()


@pytest.mark.parametrize("words", [(), ("relu", "onnx", "axis")], ids=["no word", "words that ONNX has"])
def test_what_onnx_defines_stays_whatever_it_looks_like(tmp_path: Path, words: tuple[str, ...]) -> None:
    nodes = [node("Relu", ["x"], ["r"], domain="ai.onnx"), node("Flatten", ["r"], ["y"], axis=1, domain="ai.onnx")]
    model = onnx_files.model(nodes, {"x": [1, 3]}, opset=17)
    model.opset_import[0].domain = "ai.onnx"

    made = scrubbed(model, *words).model

    assert [(item.domain, item.version) for item in made.opset_import] == [("ai.onnx", 17)]
    assert [(item.domain, item.op_type) for item in made.graph.node] == [("ai.onnx", "Relu"), ("ai.onnx", "Flatten")]
    frontend.load(onnx_files.save(tmp_path, made), {})


def test_unlisted_names_of_operators_attributes_and_domains_go(tmp_path: Path) -> None:
    model = onnx_files.model([node("FalkenhorstPool", ["x"], ["y"], domain="com.falkenhorst", zquack=1)], {"x": [1]})
    model.opset_import.add(domain="com.falkenhorst", version=1)

    made = scrubbed(model).model

    assert b"alkenhorst" not in made.SerializeToString()
    assert b"zquack" not in made.SerializeToString()
    with pytest.raises(FarmError) as caught:
        frontend.load(onnx_files.save(tmp_path, made), {})
    assert caught.value.code is Code.OPERATOR_UNKNOWN
    assert "which was scrubbed" in caught.value.why


def test_a_misspelt_operator_is_named_unless_it_holds_a_listed_word() -> None:
    model = onnx_files.model([node("Relux", ["x"], ["y"])], {"x": [1]})

    assert [scrubbed(model, *words).model.graph.node[0].op_type for words in ((), ("relux",))] == ["Relux", "scrubbed"]


def test_external_data_is_placed_in_one_file() -> None:
    model = simple()
    _external(model.graph.initializer[0], location="secret/w.bin", offset="100", author="me")

    made = scrubbed(model)

    entries = {item.key: item.value for item in made.model.graph.initializer[0].external_data}
    assert entries == {"location": "weights.data", "offset": "0", "length": "12"}
    assert [(item.location, item.offset, item.length) for item in made.ranges] == [("secret/w.bin", 100, 12)]


def test_a_place_that_is_read_twice_is_kept_once_and_others_are_aligned() -> None:
    nodes = [node("Sum", ["x", "a", "b", "c"], ["y"])]
    weights = {name: np.ones((1, 3), np.float32) for name in "abc"}
    model = onnx_files.model(nodes, {"x": [1, 3]}, weights=weights)
    for tensor, offset in zip(model.graph.initializer, ("0", "12", "0"), strict=True):
        _external(tensor, location="w.bin", offset=offset)

    made = scrubbed(model)

    places = [
        {item.key: item.value for item in tensor.external_data}["offset"] for tensor in made.model.graph.initializer
    ]
    assert places == ["0", "64", "0"]
    assert [item.offset for item in made.ranges] == [0, 12]


def test_a_model_that_was_not_scrubbed_is_refused(tmp_path: Path) -> None:
    model = simple()
    path = onnx_files.save(tmp_path, scrubbed(model).model)
    frontend.require_scrubbed(path)

    with pytest.raises(FarmError) as caught:
        frontend.require_scrubbed(onnx_files.save(tmp_path, model))
    assert caught.value.code is Code.MODEL_NOT_SCRUBBED


def test_the_payload_lists_the_rules_and_the_numbered_names() -> None:
    document = rules.document(["x", "scrubbed_input_1"], ["scrubbed_output_0_", "scrubbed_output"])

    assert document["renamed"] == ["scrubbed_input_1", "scrubbed_output_0_"]
    assert [item["name"] for item in document["rules"]] == [
        "kept", "metadata", "unused", "internal-names", "interface-names", "attribute-texts", "unknown-words",
        "external-data",
    ]  # fmt: skip


def _external(tensor: Any, **entries: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def _rename(model: onnx.ModelProto, old: str, new: str) -> None:
    for item in model.graph.node:
        for names in (item.input, item.output):
            names[:] = [new if name == old else name for name in names]
    for info in (*model.graph.input, *model.graph.output):
        info.name = new if info.name == old else info.name
