"""`farm audit`: what a bundle holds, and who holds a component or a licence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm import audit, payload
from farm.bundle import PayloadInput, write_bundle
from farm.cli.main import main
from farm.scheduler import Session
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.links import Input, Links, Origin, Source
from sbom.read import parse_purl
from tests.support import bundles, farms
from tests.support.farms import Compiler

BEFORE = bundles.MODEL.before or ""
HEADER = Source("zig/lib/libc/include/any-linux-any/linux/elf.h", digest.of_bytes(b"elf.h"), 5)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two targets; the program for v4 was compiled with a header of Linux."""
    work = tmp_path_factory.mktemp("audit")
    made = Input("start.o", digest.of_bytes(b"start"), Origin.SOURCES, 4, (".text",), (HEADER.name,))
    files = tuple(
        replace(file, inputs=(*file.inputs, made)) if file.name == "media-run" else file for file in bundles.LINKS.files
    )
    with_header = Links(files, (*bundles.LINKS.sources, HEADER))
    payloads = [
        PayloadInput(
            name,
            bundles.payload(work / name, name, links=links),
            bundles.provenance(name),
        )
        for name, links in (("x86-64-v3", bundles.LINKS), ("x86-64-v4", with_header))
    ]
    return write_bundle(
        work / "all" / "cls", name="cls", version="1.2.0", payloads=payloads, signer=bundles.signer()
    ).path


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, Any]:
    status = main(["audit", *map(str, words), "--json"])
    return status, json.loads(capsys.readouterr().out)


def found(document: Any) -> list[tuple[str, str, list[str]]]:
    return [(hit["target"], hit["component"]["name"], hit["why"]) for hit in document["found"]]


def test_a_bundle_is_shown_with_its_model_before_and_after_scrubbing(bundle: Path) -> None:
    shown = audit.audit(bundle)

    v3 = shown["targets"]["x86-64-v3"]
    assert (shown["name"], shown["version"], sorted(shown["targets"])) == ("cls", "1.2.0", ["x86-64-v3", "x86-64-v4"])
    assert v3["model"] == {
        "name": "cls",
        "digest": bundles.MODEL.digest,
        "before_scrubbing": BEFORE,
        "external": {},
    }
    assert sorted(v3["licences"]["MIT"]) == ["tool/ziglang", "wheel/ziglang"]
    assert v3["without_licence"] == ["model"]


def test_a_component_is_found_by_its_purl_with_the_way_to_it(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = run(capsys, "find", "--component", "pkg:pypi/ziglang", bundle)

    assert status == 0
    assert document["payloads"] == 2
    start = f"object/start.o@{digest.hex_of(digest.of_bytes(b'start'))}"
    assert found(document) == [
        ("x86-64-v3", "ziglang", []),
        ("x86-64-v3", "ziglang", []),
        ("x86-64-v4", "linux-headers", ["payload", "file/media-run", start, "group/zig/lib/libc/include/"]),
        ("x86-64-v4", "ziglang", []),
        ("x86-64-v4", "ziglang", []),
    ]
    assert [hit["component"]["ref"] for hit in document["found"] if hit["component"]["used"]] == [
        "group/zig/lib/libc/include/"
    ]


def test_what_only_lies_in_the_image_is_held_by_no_payload(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = run(capsys, "find", "--component", "pkg:deb/debian/libc6", bundle)
    assert main(["audit", "find", "--licence", "LGPL-2.1-or-later", str(bundle)]) == status == 0

    assert found(document) == [("x86-64-v3", "libc6", []), ("x86-64-v4", "libc6", [])]
    assert {(hit["component"]["inside"], hit["component"]["used"]) for hit in document["found"]} == {("image", False)}
    text = capsys.readouterr().out
    assert text.count("in the image") == 2
    assert text.endswith("0 of 2 payloads hold it, 2 more were made with it or name it in the recipe's image\n")


@pytest.mark.parametrize(
    ("licence", "names"),
    [
        ("Linux-syscall-note", ["linux-headers", "media-run"]),
        ("gpl-2.0-only", ["linux-headers", "media-run"]),
        ("GPL-2.0-only WITH Linux-syscall-note", ["linux-headers", "media-run"]),
        ("GPL-3.0-only", []),
    ],
)
def test_a_licence_is_found_with_and_without_its_exception(bundle: Path, licence: str, names: list[str]) -> None:
    count, hits = audit.find(audit.of_folders([bundle.parent], []), audit.Wanted(None, licence))

    assert count == 2
    shipped = [hit for hit in hits if hit.component.used]
    assert sorted(hit.component.name for hit in shipped) == names
    assert {hit.where.target for hit in shipped} <= {"x86-64-v4"}
    assert {hit.component.name for hit in hits} - set(names) <= {"busybox-static"}  # of the image


@pytest.mark.parametrize(
    ("purl", "count"),
    [
        ("pkg:pypi/ziglang@0.17.0", 5),
        ("pkg:pypi/ziglang@0.16.0", 0),
        ("pkg:pypi/ziglang#lib/libc/include", 1),
        ("pkg:generic/kernel-farm/cls?target=x86-64-v4", 1),
        ("pkg:generic/kernel-farm-runtime", 2),
        ("pkg:deb/debian/ziglang", 0),
    ],
)
def test_what_a_purl_leaves_out_may_be_anything(bundle: Path, purl: str, count: int) -> None:
    _count, hits = audit.find(audit.of_folders([bundle], []), audit.Wanted(parse_purl(purl)))
    assert len(hits) == count


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Session]:
    with farms.session(tmp_path / "home") as made:
        yield made


def test_without_a_place_all_that_the_farm_keeps_is_searched(farm: Session) -> None:
    for name in ("x86-64-v3", "x86-64-v4"):
        number = farms.submit(farm.ledger, farms.job(farm.store, on=name))
        farms.worker(farm, Compiler()).work([number])

    count, hits = audit.find(
        audit.of_farm(farm.ledger, farm.store, []), audit.Wanted(parse_purl("pkg:generic/kernel-farm-runtime"))
    )

    assert count == 2
    assert [(hit.where.model, hit.where.target, hit.where.place) for hit in hits] == [
        ("cls", "x86-64-v3", ""),
        ("cls", "x86-64-v4", ""),
    ]


def test_a_bundle_of_an_older_farm_is_told_and_the_others_are_searched(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bundles.payload(tmp_path / "p", "x86-64-v3")
    (folder / payload.SBOM).unlink()
    old = PayloadInput("x86-64-v3", folder, bundles.provenance("x86-64-v3"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            payload, "MEDIA_TYPES", {name: kind for name, kind in payload.MEDIA_TYPES.items() if name != payload.SBOM}
        )
        write_bundle(tmp_path / "all" / "a-old", name="cls", version=None, payloads=[old], signer=bundles.signer())
    shutil.copytree(bundle, tmp_path / "all" / "b-new")

    status, document = run(capsys, "find", "--component", "pkg:generic/kernel-farm-runtime", tmp_path / "all")

    assert (status, document["payloads"], len(document["found"])) == (0, 2, 2)
    place = str(tmp_path / "all" / "a-old")
    assert document["without_bill"] == [{"place": place, "model": "cls", "target": "x86-64-v3"}]
    assert main(["audit", "find", "--licence", "MIT", str(tmp_path / "all")]) == 0
    assert f"cls for x86-64-v3 in {place} has no bill of materials" in capsys.readouterr().out


def test_a_damaged_bundle_is_not_repeated(bundle: Path, tmp_path: Path) -> None:
    copy = tmp_path / "cls"
    shutil.copytree(bundle, copy)
    blob = next(path for path in copy.rglob("*") if path.is_file() and b"CycloneDX" in path.read_bytes()[:4000])
    blob.write_bytes(blob.read_bytes().replace(b"ziglang", b"gnalgiz"))
    with pytest.raises(FarmError) as caught:
        audit.audit(copy)
    assert caught.value.code is Code.BUNDLE_CORRUPT


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["find"], Code.USAGE),
        (["find", "--component", "ziglang"], Code.USAGE),
        (["find", "--licence", "MIT", "/nonexistent"], Code.BUNDLE_INVALID),
        (["/nonexistent"], Code.BUNDLE_INVALID),
    ],
)
def test_wrong_usage_has_a_code(words: list[str], code: Code, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = run(capsys, *words)
    assert document["error"]["code"] == code.number
    assert status == int(code.status)


def test_the_text_names_components_and_says_that_signatures_are_not_checked(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(bundle)]) == 0
    text = capsys.readouterr().out
    assert "pkg:pypi/ziglang@0.17.0" in text
    assert BEFORE in text
    assert "and 4 packages of the image, " in text
    assert "pkg:deb/" not in text  # they would fill the screen, and are not shipped
    assert "Signatures were not checked" in text
    assert main(["audit", "find", "--licence", "Linux-syscall-note", str(bundle)]) == 0
    assert "1 of 2 payloads hold it" in capsys.readouterr().out
