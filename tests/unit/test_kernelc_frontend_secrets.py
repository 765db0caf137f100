"""What may not stay in a name, and what may although it looks a little like it."""

from __future__ import annotations

import pytest

from kernelc.frontend.scrub.secrets import Secrets
from kernelfarm.errors import Code, FarmError


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("/home/alice/net.onnx:0", "path"),
        ("x_/home/alice", ""),  # one word: "x_" and a scope
        ("in:/home/alice", "path"),
        ("C:\\Users\\alice", "path"),
        ("c:/models/x", "path"),
        ("\\\\server\\share", "path"),
        ("~/net/in", "path"),
        ("~alice/net", "path"),
        ("../net/in", "path"),
        ("$HOME/in", "path"),
        ("%USERPROFILE%", "path"),
        ("%2Fhome%2Falice", "path"),
        ("／home／alice", "path"),  # full width
        ("/Users/alice/x", "path"),
        ("net/train.py", "path"),
        ("best.ckpt", "path"),
        ("alice@corp.example", "e-mail"),
        ("from <Alice.B+x@mail.corp.example>", "e-mail"),
        ("https://corp.example/x", "page"),
        ("s3://bucket/x", "page"),
        ("file:x", "page"),
        ("x", ""),
        ("images", ""),
        ("input:0", ""),
        ("/backbone/conv1/Conv_output_0", ""),
        ("/model/out/Softmax_output_0", ""),
        ("serving_default_x:0", ""),
        ("StatefulPartitionedCall/functional_1/Add:0", ""),
        ("norm@1", ""),
        ("a.b.c", ""),
        ("输入", ""),
    ],
)
def test_paths_and_addresses(text: str, kind: str) -> None:
    assert Secrets().found(text) == kind


@pytest.mark.parametrize(
    "text", ["Falkenhorst", "x_falkenhorst_1", "FALKEN-HORST", "falken horst", "Fälkenhorst", "ｆａｌｋｅｎhorst",
             "fal\u200bkenhorst", "Falken%68orst"]
)  # fmt: skip
def test_a_listed_word_in_any_dress(text: str) -> None:
    assert Secrets.of(["falken_horst"]).found(text) == "word"


def test_a_word_in_another_script() -> None:
    assert Secrets.of(["猎鹰"]).found("输入_猎鹰_0") == "word"


def test_other_words_stay() -> None:
    assert Secrets.of(["falkenhorst"]).found("falken") == ""


@pytest.mark.parametrize("word", ["", "ab", "--", "鹰", "x" * 201])
def test_a_word_too_short_or_too_long_is_refused_without_telling_it(word: str) -> None:
    with pytest.raises(FarmError) as caught:
        Secrets.of(["fine", word])
    assert caught.value.code is Code.USAGE
    assert len(word) < 2 or word not in str(caught.value)
