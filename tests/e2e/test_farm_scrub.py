"""A model full of secrets through the whole product: no byte of them in bundle, store, logs or messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

from farm import models, subject
from kernelfarm import digest, oci_bundle
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Model
from kernelfarm.store import ContentStore
from tests.support import graphs, json_changes, planted
from tests.support.product import Done, Product

TARGET = "x86-64-v3"


@dataclass(frozen=True, slots=True)
class Secret:
    """A bundle made from a model full of secrets, and how that went."""

    product: Product
    model: Path
    bundle: Path
    done: Done


def secret_model(folder: Path, *, times: int = 1) -> Path:
    """The tiny model with secrets everywhere, in the names of both its files too: large weights have their own."""
    folder.mkdir(parents=True)
    path = graphs.tiny(folder / f"{planted.WORD}-zquack-net.onnx", side="side")
    data = f"{planted.WORD}-of-zquack.weights"
    onnx.save_model(onnx.load_model(path), path, save_as_external_data=True, location=data, size_threshold=100)
    model = onnx.load_model(path, load_external_data=False)
    for _ in range(times):
        model = planted.everywhere(model)
    path.write_bytes(model.SerializeToString())
    return path


def build(product: Product, model: Path, out: Path) -> Done:
    """With the shape given under the input's old name."""
    name = onnx.load_model(model, load_external_data=False).graph.input[0].name
    words = [word for text in (planted.WORD, "falken_horst") for word in ("--scrub-word", text)]
    return product.farm("build", model, "-t", TARGET, "--out", out, *words, "--shape", f"{name}=1x3x8x8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Secret:
    folder = tmp_path_factory.mktemp("scrub")
    product = Product(folder / "home").with_key()
    model = secret_model(folder / "models")
    done = build(product, model, folder / "out")
    assert done.status == 0, (done.document, done.stderr)
    return Secret(product, model, folder / "out/model", done)


def files_of(*folders: Path) -> Iterator[tuple[Path, bytes]]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path, path.read_bytes()


def test_no_secret_is_in_any_byte_of_the_bundle(made: Secret) -> None:
    planted.self_check()
    assert planted.found_in(made.model.read_bytes()) == set(planted.SECRETS)
    assert len(oci_bundle.read(made.bundle).require().payloads) == 1

    found = {str(path.relative_to(made.bundle)): planted.found_in(data) for path, data in files_of(made.bundle)}

    assert len(found) > 12
    assert {name: secrets for name, secrets in found.items() if secrets} == {}
    assert not any(planted.found_in(name.encode()) for name in found)


def test_no_secret_is_in_store_object_cache_or_logs(made: Secret) -> None:
    home = made.product.home
    found = {path: planted.found_in(data) for path, data in files_of(home / "store", home / "objects", home / "logs")}

    assert any(path.is_relative_to(home / "logs") for path in found)
    assert {path: secrets for path, secrets in found.items() if secrets} == {}


def test_what_was_scrubbed_is_told_without_telling_it(made: Secret) -> None:
    (told,) = made.done.document["scrubbed"]

    assert told["model"] == "model"
    assert told["before"] == digest.of_file(made.model)
    assert told["after"] != told["before"]
    assert set(told["removed"]) == {"doc strings", "metadata", "names", "producer"}
    assert [(item["kind"], item["name"]) for item in told["renamed"]] == [
        ("input", "scrubbed_input_0"),
        ("output", "scrubbed_output_0"),
    ]
    assert planted.found_in(json.dumps(told).encode() + made.done.stderr.encode()) == set()


def test_the_payload_lists_the_rules_and_its_bill_and_provenance_alone_the_digest_before(made: Secret) -> None:
    view = oci_bundle.read(made.bundle).require()
    config = json.loads(view.folder.blob_path(view.payloads[0].files["config.json"]).read_bytes())
    report = made.product.must("verify", made.bundle, "--key", made.product.public_key)

    assert config["scrub"]["schema"] == "scrub/1"
    assert config["scrub"]["renamed"] == ["scrubbed_input_0", "scrubbed_output_0"]
    assert [item["name"] for item in config["inputs"]] == ["scrubbed_input_0"]
    assert all(check["ok"] for check in report["checks"])
    told = str(made.done.document["scrubbed"][0]["before"])
    assert told == digest.of_file(made.model)
    before = digest.hex_of(digest.parse(told)).encode()
    holding = {path for path, data in files_of(made.bundle) if any(before in base for base in planted.layers(data))}
    named = {made.bundle / check["subject"] for check in report["checks"] if check["check"].startswith("provenance")}
    assert holding == {*named, view.folder.blob_path(view.payloads[0].files["sbom.cdx.json"])}


def test_a_model_with_other_secrets_is_the_same_model_but_for_its_bill(made: Secret, tmp_path: Path) -> None:
    other = secret_model(tmp_path / "models", times=2)
    assert other.read_bytes() != made.model.read_bytes()

    done = build(made.product, other, tmp_path / "out")

    # Given one model with two sets of texts, then no kernel is compiled again
    assert done.status == 0, (done.document, done.stderr)
    assert kernels(made.product, made.done)["reused"] == 0
    assert kernels(made.product, done) == {"reused": kernels(made.product, made.done)["group"]}
    # and every file but the bill is the same, bit by bit
    first, second = files_of_payload(made.bundle), files_of_payload(tmp_path / "out/model")
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == ["sbom.cdx.json"]
    # and the bills differ in the hash of the file as it was handed in, in the recipe, and in what follows from them
    bills = [json.loads(files["sbom.cdx.json"]) for files in (first, second)]
    found = json_changes.changed(*bills)
    hashes = [digest.hex_of(digest.of_file(path)) for path in (made.model, other)]
    keys = [str(each.document["cells"][0]["recipe_key"]) for each in (made.done, done)]
    short = [digest.hex_of(digest.parse(key))[:12] for key in keys]
    serials = tuple(bill["serialNumber"] for bill in bills)
    assert sorted(found.values()) == sorted(
        [
            tuple(hashes),
            tuple(text[:12] for text in hashes),
            tuple(keys),
            tuple(keys),
            tuple(short),
            tuple(f"pkg:generic/kernel-farm/model@{text}?target={TARGET}" for text in short),
            serials,
        ]
    )
    assert [where.split("/pedigree")[0] for where, pair in found.items() if pair == tuple(hashes)] == [
        f"/components/{[item['bom-ref'] for item in bills[0]['components']].index('model')}"
    ]


def kernels(product: Product, done: Done) -> Counter[str]:
    """How many kernels a build's run compiled ("group") and took from the cache ("reused"), by its log."""
    (log,) = (product.home / "logs" / str(done.document["cells"][0]["run"])).glob("*.log")
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return Counter(line["stage"] for line in lines if line["stage"] in ("group", "reused"))


def files_of_payload(bundle: Path) -> dict[str, bytes]:
    view = oci_bundle.read(bundle).require()
    return {name: view.folder.blob_path(blob).read_bytes() for name, blob in view.payloads[0].files.items()}


def test_the_compiled_model_computes_what_the_reference_says(made: Secret, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text(f"{planted.WORD}\n\nfalken_horst\n")
    product = Product(made.product.home, {"FARM_SCRUB_WORDS": str(words)})

    done = product.farm("check", made.model, "-t", TARGET, "--shape", "1x3x8x8")

    assert done.status == 0, (done.document, done.stderr)
    assert planted.found_in(json.dumps(done.document).encode() + done.stderr.encode()) <= {"zquack", "Falkenhorst"}


def test_an_error_of_the_compiler_tells_no_secret(made: Secret, tmp_path: Path) -> None:
    path = graphs.unknown_operator(tmp_path / "model.onnx")
    path.write_bytes(planted.everywhere(onnx.load_model(path)).SerializeToString())

    done = made.product.farm("build", path, "-t", TARGET, "--out", tmp_path / "out", "--scrub-word", planted.WORD)

    assert done.codes == [Code.OPERATOR_UNKNOWN]
    assert planted.found_in(json.dumps(done.document).encode()) == set()
    logs = {path: planted.found_in(data) for path, data in files_of(made.product.home / "logs")}
    assert {path: secrets for path, secrets in logs.items() if secrets} == {}


@pytest.mark.parametrize("option", ["--name", "--version"])
def test_a_name_or_version_that_tells_a_word_is_refused(made: Secret, tmp_path: Path, option: str) -> None:
    text = {"--name": "net-falkenhorst", "--version": "1.0.0-Falken.Horst"}[option]
    done = made.product.farm(
        "build", made.model, "-t", TARGET, "--out", tmp_path / "out", "--scrub-word", planted.WORD, option, text
    )

    assert done.codes == [Code.USAGE]


def test_a_model_given_again_is_known_by_the_same_words_only(made: Secret, tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "store")
    words = (planted.WORD, "falken_horst")
    wanted = models.take_in(made.model, "model", store, scratch=tmp_path, words=words).model
    plain = ContentStore(tmp_path / "plain")
    named = _named_by_the_word(tmp_path)

    subject.take_model(wanted, plain, made.model, tmp_path, words)
    subject.take_model(wanted, plain, secret_model(tmp_path / "other", times=2), tmp_path, words)
    other = models.take_in(named, "model", store, scratch=tmp_path, words=words).model

    assert isinstance(other, Model)
    with pytest.raises(FarmError) as caught:
        subject.take_model(other, plain, named, tmp_path)
    assert caught.value.code is Code.MODEL_UNAVAILABLE
    assert "FARM_SCRUB_WORDS" in caught.value.why


def _named_by_the_word(folder: Path) -> Path:
    path = graphs.relu(folder / "named.onnx")
    model = onnx.load_model(path)
    model.graph.input[0].name = model.graph.node[0].input[0] = planted.WORD
    path.write_bytes(model.SerializeToString())
    return path
