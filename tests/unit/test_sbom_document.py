"""The bill of materials of a payload: what is in it, valid, and the same bytes whatever order its inputs come in."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.links import Input, Linked, Links, Origin, Source
from kernelfarm.nouns import Model, ModelFile, Options, RuleSet
from sbom import cyclonedx, document, payload
from sbom.making import Making
from sbom.parts import Bill, Part
from sbom.payload import Contents
from tests.support import bundles
from tests.support.json_changes import changed

TARGET = "x86-64-v4"
MAKING = bundles.making(TARGET)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return bundles.compiled(tmp_path / "payload", TARGET)


def bill_of(folder: Path, making: Making = MAKING) -> dict[str, Any]:
    return json.loads(document.describe(folder, making))


def component(bill: dict[str, Any], ref: str) -> dict[str, Any]:
    (found,) = (item for item in bill["components"] if item["bom-ref"] == ref)
    return found


def properties(item: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in item["properties"]}


def needs(bill: dict[str, Any]) -> dict[str, list[str]]:
    return {item["ref"]: item.get("dependsOn", []) for item in bill["dependencies"]}


def test_it_is_valid_by_the_strict_schema_and_canonical(folder: Path) -> None:
    data = document.describe(folder, MAKING)

    assert cyclonedx.faults(data.decode()) == []
    assert canonical.dumps(canonical.loads(data, strict=True)) == data
    assert json.loads(data)["specVersion"] == "1.6"


def with_address(folder: Path, url: str) -> str:
    bill = bill_of(folder)
    bill["components"][0]["externalReferences"] = [{"type": "website", "url": url}]
    return json.dumps(bill)


def test_addresses_of_others_are_checked(folder: Path) -> None:
    assert cyclonedx.faults(with_address(folder, "https://example.org/été?a=1#b")) == []
    assert cyclonedx.faults(with_address(folder, "a/b")) == []
    assert "'http://[bad' is not valid" in cyclonedx.faults(with_address(folder, "http://[bad"))[0]


@pytest.mark.parametrize(("url", "loaded"), [("", "False"), ("https://example.org", "True")])
def test_the_check_of_addresses_is_loaded_for_the_first_one(
    folder: Path, tmp_path: Path, url: str, loaded: str
) -> None:
    (tmp_path / "bill.json").write_text(with_address(folder, url) if url else json.dumps(bill_of(folder)))
    code = """
import pathlib, sys
from sbom import cyclonedx
assert cyclonedx.faults(pathlib.Path(sys.argv[1]).read_text()) == []
print("rfc3987_syntax" in sys.modules)
"""
    words = [sys.executable, "-c", code, tmp_path / "bill.json"]

    done = subprocess.run(words, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == loaded


def test_every_file_has_both_hashes_of_its_bytes(folder: Path) -> None:
    bill = bill_of(folder)

    files = {item["name"]: item for item in bill["components"] if item["bom-ref"].startswith("file/")}
    assert sorted(files) == sorted(path.name for path in folder.iterdir())
    for name, item in files.items():
        data = (folder / name).read_bytes()
        assert item["hashes"] == [
            {"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()},
            {"alg": "SHA-512", "content": hashlib.sha512(data).hexdigest()},
        ]
    kinds = {name: item["type"] for name, item in files.items() if item["type"] != "file"}
    assert kinds == {
        "golden.bin": "data",
        "kernels.so": "library",
        "libmedia_engine.so": "library",
        "media-run": "application",
        "weights.bin": "data",
    }
    assert properties(files["media-run"])["bsi:component:executable"] == "executable"
    assert properties(files["weights.bin"])["bsi:component:executable"] == "non-executable"


def test_the_model_is_named_by_its_digest_after_scrubbing_and_its_tensors(folder: Path) -> None:
    external = ModelFile("data/w.bin", digest.of_bytes(b"w"), 1)
    model = Model("cls", digest.of_bytes(b"a model"), 7, (external,))

    found = component(bill_of(folder, bundles.making(TARGET, model=model)), "model")

    assert found["type"] == "machine-learning-model"
    assert found["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a model").hexdigest()}]
    assert found["modelCard"]["modelParameters"] == {
        "inputs": [{"format": "f32 1x3 x"}],
        "outputs": [{"format": "f32 1x2 y"}],
    }
    assert [(item["name"], item["hashes"][0]["content"]) for item in found["components"]] == [
        ("data/w.bin", hashlib.sha256(b"w").hexdigest())
    ]
    assert "pedigree" not in found  # nobody handed in a file


@pytest.mark.parametrize("before", [b"a model", b"a model by somebody"], ids=["nothing to scrub", "scrubbed"])
def test_the_model_before_scrubbing_is_its_ancestor(folder: Path, before: bytes) -> None:
    model = Model("cls", digest.of_bytes(b"a model"), 7, before=digest.of_bytes(before))

    bill = bill_of(folder, bundles.making(TARGET, model=model))

    found = component(bill, "model")
    assert found["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a model").hexdigest()}]
    assert properties(found)["kernel-farm:hashed"] == "after scrubbing"
    (ancestor,) = found["pedigree"]["ancestors"]
    assert (ancestor["type"], ancestor["name"]) == ("machine-learning-model", "cls")
    assert ancestor["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(before).hexdigest()}]
    assert properties(ancestor) == {"kernel-farm:hashed": "before scrubbing"}
    assert cyclonedx.faults(json.dumps(bill)) == []


def test_models_that_differ_in_what_was_scrubbed_differ_in_that_hash_and_what_follows_from_it(folder: Path) -> None:
    makings = [
        bundles.making(TARGET, model=replace(bundles.MODEL, before=digest.of_bytes(text)))
        for text in (b"by A", b"by B")
    ]
    first, second = (bill_of(folder, making) for making in makings)

    found = changed(first, second)

    number = next(n for n, item in enumerate(first["components"]) if item["bom-ref"] == "model")
    ancestor = f"/components/{number}/pedigree/ancestors/0"
    key = next(
        n
        for n, item in enumerate(first["metadata"]["component"]["properties"])
        if item["name"] == "kernel-farm:recipe-key"
    )
    texts = [hashlib.sha256(text).hexdigest() for text in (b"by A", b"by B")]
    keys = [making.recipe_key for making in makings]
    short = [digest.hex_of(key)[:12] for key in keys]
    root = "/metadata/component"
    purls = [f"pkg:generic/kernel-farm/cls@{version}?target={TARGET}" for version in short]
    assert found == {
        f"{ancestor}/hashes/0/content": tuple(texts),
        f"{ancestor}/version": tuple(text[:12] for text in texts),
        f"{root}/properties/{key}/value": tuple(keys),
        f"{root}/version": tuple(short),
        f"{root}/purl": tuple(purls),
        "/formulation/0/workflows/0/uid": tuple(keys),
        "/serialNumber": (first["serialNumber"], second["serialNumber"]),
    }


def test_what_was_linked_in_comes_from_the_link_map(folder: Path) -> None:
    bill = bill_of(folder)

    graph = needs(bill)
    (kernel,) = graph["file/kernels.so"]
    (shared,) = graph["file/media-run"]
    assert graph[kernel] == ["model"]
    assert graph["file/libmedia_engine.so"] == [shared]
    assert graph[shared] == ["source/runtime/src/api.c"]
    assert properties(component(bill, shared)) == {
        "kernel-farm:kept": digest.of_bytes(b"o"),
        "kernel-farm:kept-in-libmedia_engine.so": "1 bytes of .text",
        "kernel-farm:kept-in-media-run": "1 bytes of .text",
        "kernel-farm:origin": "sources",
    }
    group = component(bill, "group/runtime/")
    assert (group["name"], group["supplier"]["name"], group["licenses"][0]["license"]["id"]) == (
        "kernel-farm-runtime",
        "Kernel Farm",
        "Apache-2.0",
    )
    assert [item["name"] for item in group["components"]] == ["runtime/src/api.c"]


def test_tools_have_purl_version_licence_and_supplier_and_are_no_part_of_the_product(folder: Path) -> None:
    zig = component(bill_of(folder), "tool/ziglang")

    assert (zig["purl"], zig["version"], zig["scope"]) == ("pkg:pypi/ziglang@0.17.0", "0.17.0", "excluded")
    assert zig["supplier"] == {"name": "Zig Software Foundation"}
    assert zig["licenses"] == [{"license": {"acknowledgement": "declared", "id": "MIT"}}]


def test_the_packages_of_the_image_are_listed_below_it_and_none_is_in_the_product(folder: Path) -> None:
    bill = bill_of(folder)

    image = component(bill, "image")
    packages = {item["bom-ref"]: item for item in image["components"]}
    assert (image["type"], image["scope"]) == ("container", "excluded")
    assert "in its provenance" in image["description"]
    assert properties(image) == {"kernel-farm:lock": bundles.LOCK.digest}
    assert sorted(packages) == ["deb/busybox-static", "deb/libc6", "wheel/numpy", "wheel/ziglang"]
    assert {item["scope"] for item in packages.values()} == {"excluded"}
    assert (packages["deb/libc6"]["purl"], packages["deb/libc6"]["version"]) == (
        "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12",
        "2.36-9",
    )
    assert packages["deb/libc6"]["licenses"][0]["license"]["id"] == "LGPL-2.1-or-later"
    assert packages["wheel/numpy"]["supplier"] == {"name": "NumPy Developers"}
    assert needs(bill)["image"] == sorted(packages)
    assert not {"image", *packages} & {
        ref for first, others in needs(bill).items() for ref in others if first != "image"
    } - {"wheel/ziglang"}


def test_a_tool_that_the_image_brings_names_its_package_there(folder: Path) -> None:
    older = replace(bundles.TOOLS[0], version="0.16.0")
    other = replace(MAKING, recipe=replace(MAKING.recipe, tools=(older,)))

    brought, not_brought = bill_of(folder), bill_of(folder, other)

    assert properties(component(brought, "tool/ziglang"))["kernel-farm:package-in-image"] == "wheel/ziglang"
    assert needs(brought)["tool/ziglang"] == ["wheel/ziglang"]
    assert "kernel-farm:package-in-image" not in properties(component(not_brought, "tool/ziglang"))
    assert needs(not_brought)["tool/ziglang"] == []


def test_the_order_of_the_lock_means_nothing(folder: Path) -> None:
    mixed = replace(MAKING, image=replace(bundles.LOCK, packages=bundles.LOCK.packages[::-1]))

    assert document.describe(folder, mixed) == document.describe(folder, MAKING)


def test_the_formulation_tells_the_recipe(folder: Path) -> None:
    rules = RuleSet(digest.of_bytes(b"rules"), 5)
    options = replace(Options.of({"x": (1, 3)}), rules=rules)
    making = replace(MAKING, recipe=replace(MAKING.recipe, options=options))

    (formula,) = bill_of(folder, making)["formulation"]

    (workflow,) = formula["workflows"]
    parameters = {entry["name"]: entry["value"] for entry in workflow["inputs"][1]["parameters"]}
    assert workflow["uid"] == making.recipe_key
    assert (parameters["shape:x"], parameters["target"]) == ("1x3", TARGET)
    assert parameters["fusion-rules"] == rules.digest
    assert workflow["resourceReferences"] == [{"ref": "tool/ziglang"}, {"ref": "image"}]
    assert {"type": "artifact", "resource": {"ref": "file/kernels.so"}} in workflow["outputs"]


def test_no_time_and_a_serial_number_that_follows_from_the_content(folder: Path) -> None:
    first = bill_of(folder)
    (folder / "weights.bin").write_bytes(b"others")
    second = bill_of(folder)

    assert "timestamp" not in first["metadata"]
    assert first["serialNumber"] == document.serial_of(first)
    assert uuid.UUID(first["serialNumber"]).version == 5
    assert first["serialNumber"] != second["serialNumber"]


def shuffled(bill: Bill, draw: random.Random) -> Bill:
    def mixed(part: Part) -> Part:
        inner = [mixed(each) for each in part.parts]
        own = list(part.properties)
        draw.shuffle(inner)
        draw.shuffle(own)
        return replace(part, parts=tuple(inner), properties=tuple(own))

    parts, makers, edges = [mixed(part) for part in bill.parts], list(bill.makers), list(bill.needs)
    for each in (parts, makers, edges):
        draw.shuffle(each)
    return Bill(bill.root, tuple(makers), tuple(parts), frozenset(edges))


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_inputs_give_the_same_bytes(folder: Path, seed: int) -> None:
    bill = payload.bill(Contents.read(folder), MAKING)

    assert document.of_bill(shuffled(bill, random.Random(seed))) == document.of_bill(bill)


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_links_files_and_tools_give_the_same_bytes(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    sources = [Source(f"runtime/src/{name}.c", digest.of_bytes(name.encode()), 1) for name in "abcdef"]
    inputs = [
        Input(f"{name}.o", digest.of_bytes(name.encode()), Origin.SOURCES, 1, (".text", ".data"), (source.name,))
        for name, source in zip("abcdef", sources, strict=True)
    ]
    names = ["kernels.so", "libmedia_engine.so", "media-run"]
    plain = bundles.compiled(
        tmp_path / "a", TARGET, links=Links(tuple(Linked(n, tuple(inputs)) for n in names), tuple(sources))
    )
    for items in (sources, inputs, names):
        draw.shuffle(items)
    mixed = bundles.compiled(
        tmp_path / "b", TARGET, links=Links(tuple(Linked(n, tuple(inputs)) for n in names), tuple(sources))
    )

    assert document.describe(mixed, MAKING) == document.describe(plain, MAKING)


def planted(name: str, *inputs: Input, sources: tuple[Source, ...] = ()) -> Links:
    files = tuple(
        replace(file, inputs=(*file.inputs, *inputs)) if file.name == name else file for file in bundles.LINKS.files
    )
    return Links(files, (*bundles.LINKS.sources, *sources))


def test_an_object_that_nobody_can_explain_is_said_to_be_of_unknown_origin(tmp_path: Path) -> None:
    stranger = Input("libgpl.a(evil.o)", digest.of_bytes(b"evil"), Origin.UNKNOWN, 4, (".text",))
    folder = bundles.compiled(tmp_path / "payload", TARGET, links=planted("media-run", stranger))

    bill = bill_of(folder)

    ref = f"object/libgpl.a(evil.o)@{hashlib.sha256(b'evil').hexdigest()}"
    assert properties(component(bill, ref))["kernel-farm:origin"] == "unknown"
    assert ref in needs(bill)["file/media-run"]
    assert "licenses" not in component(bill, "file/media-run")  # of its parts one is not known
    assert component(bill, "file/libmedia_engine.so")["licenses"][0]["license"]["id"] == "Apache-2.0"


def test_sources_of_nobody_that_is_listed_have_no_licence(tmp_path: Path) -> None:
    source = Source("elsewhere/gpl.c", digest.of_bytes(b"gpl"), 3)
    made = Input("gpl.o", digest.of_bytes(b"o2"), Origin.SOURCES, 2, (".text",), (source.name,))
    folder = bundles.compiled(tmp_path / "payload", TARGET, links=planted("media-run", made, sources=(source,)))

    bill = bill_of(folder)

    assert "licenses" not in component(bill, "group/elsewhere")
    assert "licenses" not in component(bill, "file/media-run")
    assert cyclonedx.faults(json.dumps(bill)) == []


def test_a_stranger_has_no_version_of_ours(tmp_path: Path) -> None:
    sources = [Source(f"zig/lib/{name}", digest.of_bytes(b"x"), 3) for name in ("libc/musl/a.c", "std/mem.zig")]
    names = tuple(source.name for source in sources)
    made = Input("x.o", digest.of_bytes(b"o2"), Origin.SOURCES, 2, (".text",), names)
    links = planted("media-run", made, sources=tuple(sources))
    bill = bill_of(bundles.compiled(tmp_path / "payload", TARGET, links=links))

    stranger = component(bill, "group/zig/lib/libc/musl")
    assert ("version" in stranger, stranger["purl"]) == (False, "pkg:generic/zig-lib-libc-musl")
    assert component(bill, "group/zig/lib/std/")["version"] == "0.17.0"


@pytest.mark.parametrize(
    ("origin", "sources"),
    [(Origin.SOURCES, ()), (Origin.MODEL, ("a.c",)), (Origin.UNKNOWN, ("a.c",))],
)
def test_an_object_whose_origin_and_sources_do_not_fit_is_refused(origin: Origin, sources: tuple[str, ...]) -> None:
    with pytest.raises(FarmError) as caught:
        Input("evil.o", digest.of_bytes(b"evil"), origin, 4, (".text",), sources)
    assert caught.value.code is Code.SCHEMA_MISMATCH


def cut_links(folder: Path) -> None:
    (folder / "links.json").write_bytes(b"{}")


def no_links(folder: Path) -> None:
    (folder / "links.json").unlink()


def links_of_nothing(folder: Path) -> None:
    (folder / "links.json").write_bytes(canonical.encode(Links((), ())))


def unlisted_source(folder: Path) -> None:
    (folder / "links.json").write_bytes(canonical.encode(Links(bundles.LINKS.files, ())))


def links_of_a_stranger(folder: Path) -> None:
    files = (*bundles.LINKS.files, Linked("other.so", ()))
    (folder / "links.json").write_bytes(canonical.encode(Links(files, bundles.LINKS.sources)))


def config_without_tensors(folder: Path) -> None:
    (folder / "config.json").write_bytes(canonical.dumps({"model": {}}))


def config_of_no_stages(folder: Path) -> None:
    config = canonical.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes(canonical.dumps({**config, "stages": 5}))


def config_of_a_list(folder: Path) -> None:
    (folder / "config.json").write_bytes(b"[]")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (cut_links, ""),
        (no_links, ""),
        (links_of_nothing, "says nothing of kernels.so"),
        (unlisted_source, "does not list the source runtime/src/api.c"),
        (links_of_a_stranger, "names other.so, which is not there"),
        (config_without_tensors, "has no model, inputs, outputs and stages"),
        (config_of_no_stages, "has no model, inputs, outputs and stages"),
        (config_of_a_list, "has no model, inputs, outputs and stages"),
    ],
)
def test_a_payload_whose_own_documents_are_none_is_refused(
    folder: Path, change: Callable[[Path], None], why: str
) -> None:
    change(folder)
    with pytest.raises(FarmError) as caught:
        document.describe(folder, MAKING)
    assert caught.value.code is Code.PAYLOAD_INVALID
    assert why in caught.value.why
