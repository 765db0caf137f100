"""What `farm build` makes of its arguments: shapes, names, and whether the output can be written."""

from __future__ import annotations

import os
from collections import namedtuple
from pathlib import Path

import pytest

from farm import destination, naming, shapes
from farm.build import Built, Order
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Options


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], {}),
        (["1x3x48x192"], {"": (1, 3, 48, 192)}),
        (["x=1x3x48x192"], {"x": (1, 3, 48, 192)}),
        (["a=1", "b=2x3"], {"a": (1,), "b": (2, 3)}),
        (["in=put=4x4"], {"in=put": (4, 4)}),
        (["1x3=5"], {"1x3": (5,)}),
    ],
)
def test_shapes(texts: list[str], expected: dict[str, tuple[int, ...]]) -> None:
    assert shapes.parse(texts) == Options.of(expected)


@pytest.mark.parametrize(
    "text", ["", "x=", "=1x2", "1x", "x1", "1x0", "0", "-1x3", "1X3", "1 x 3", "1x3.0", "01", "1x٣", "1x9999999999"]
)
def test_a_text_that_is_no_shape_is_wrong_usage(text: str) -> None:
    with pytest.raises(FarmError) as caught:
        shapes.parse([text])
    assert caught.value.code is Code.USAGE


def test_a_shape_given_twice_is_wrong_usage() -> None:
    with pytest.raises(FarmError) as caught:
        shapes.parse(["x=1x2", "x=1x3"])
    assert caught.value.code is Code.USAGE


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("model.onnx", "model"),
        ("ch_ppocr_mobile_v2.0_cls_infer.onnx", "ch_ppocr_mobile_v2.0_cls_infer"),
        ("my model (1).onnx", "my-model-1"),
        ("模型.onnx", "model"),
        (".hidden.onnx", "hidden"),
        ("..onnx", "model"),
        ("a" * 200 + ".onnx", "a" * 128),
    ],
)
def test_the_bundle_is_named_after_the_file(file: str, name: str) -> None:
    assert naming.default_name(Path("/some/where") / file) == name


def order(*models: str, name: str | None = None) -> Order:
    return Order(tuple(map(Path, models)), ("x86-64-v3",), Options(), name=name)


def test_models_are_in_the_order_of_their_names() -> None:
    assert naming.name_models(order("b.onnx", "a.onnx").models, None) == {"a": Path("a.onnx"), "b": Path("b.onnx")}


@pytest.mark.parametrize("wrong", [order("x/a.onnx", "y/a.onnx"), order("a.onnx", "b.onnx", name="c")])
def test_two_models_cannot_have_one_name(wrong: Order) -> None:
    with pytest.raises(FarmError) as caught:
        naming.name_models(wrong.models, wrong.name)
    assert caught.value.code is Code.USAGE


def built(*codes: Code) -> Built:
    return Built(1, (), (), tuple(FarmError(code, "x") for code in codes))


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        ((), 0),
        ((Code.MODEL_INVALID,), 1),
        ((Code.DISK_FULL, Code.READ_ONLY), 3),
        ((Code.MODEL_INVALID, Code.DISK_FULL), 1),
    ],
)
def test_the_exit_status_is_the_class_of_the_errors(codes: tuple[Code, ...], status: int) -> None:
    assert built(*codes).status == status


def test_a_writable_output_is_left_as_it_was(tmp_path: Path) -> None:
    destination.check(tmp_path / "new" / "deep", 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["file", "file/below", "dangling"])
def test_an_output_that_is_no_folder(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(FarmError) as caught:
        destination.check(tmp_path / out, 1)
    assert caught.value.code is Code.OUTPUT_NOT_A_FOLDER
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FarmError) as caught:
        destination.check(tmp_path / "out", 1)
    assert (caught.value.code, caught.value.status) == (Code.PERMISSION, 3)


def test_an_output_on_proc_cannot_be_written() -> None:
    with pytest.raises(FarmError) as caught:
        destination.check(Path("/proc/out"), 1)
    assert caught.value.status == 3


def test_too_little_space_is_found_before_anything_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _place: usage(100, 90, 10))
    with pytest.raises(FarmError) as caught:
        destination.check(tmp_path, 11)
    assert (caught.value.code, caught.value.status) == (Code.DISK_FULL, 3)
    assert list(tmp_path.iterdir()) == []
