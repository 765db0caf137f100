"""Writing a bundle: a function of the payloads, whole or not at all, and never over something of the user's own."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from farm import bundle, publish
from farm.bundle import PayloadInput, payload_digest, write_bundle
from kernelfarm import oci, oci_bundle
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.oci import Index, Platform
from signing.keys import PublicKey
from signing.statement import Statement
from tests.support import bundles


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in bundles.plain_files(folder)}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_bundle_is_one_index_with_a_payload_per_target(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work")

    index = Index.decode((made.path / oci.blob_name(made.digest)).read_bytes(), "index")

    assert index.artifact_type == "application/vnd.kernelfarm.bundle.v1"
    assert dict(index.annotations) == {oci.TITLE: "cls", oci.VERSION: "1.2.0"}
    assert [dict(item.annotations)[oci.TARGET] for item in index.manifests] == ["x86-64-v3", "x86-64-v4"]
    assert [item.platform for item in index.manifests] == [
        Platform("amd64", "linux", "v3"),
        Platform("amd64", "linux", "v4"),
    ]
    assert [item.digest for item in index.manifests] == [payload for _, payload in made.payloads]


def test_a_payload_is_its_files_by_name_with_their_media_types(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work")

    (v3, _) = oci_bundle.read(made.path).payloads

    assert {title: blob.media_type.removeprefix("application/vnd.kernelfarm.") for title, blob in v3.files.items()} == {
        "NOTICE": "text/plain",
        "config.json": "payload.config.v1+json",
        "golden.bin": "golden.v1",
        "hardening.json": "hardening.v1+json",
        "kernels.so": "kernels.v1",
        "libmedia_engine.so": "library.v1",
        "links.json": "links.v1+json",
        "media-run": "program.v1",
        "media.hdr": "header.v1",
        "media_engine.h": "include.v1",
        "sbom.cdx.json": "application/vnd.cyclonedx+json",
        "weights.bin": "weights.v1",
    }


def test_the_payload_digest_is_a_function_of_the_folder_alone(tmp_path: Path) -> None:
    first = bundles.payload(tmp_path / "a", "x86-64-v4")
    second = bundles.payload(tmp_path / "b", "x86-64-v4")
    os.utime(second / "kernels.so", (0, 0))
    (second / "kernels.so").chmod(0o400)

    assert payload_digest(first) == payload_digest(second)
    (second / "weights.bin").write_bytes(b"other")
    assert payload_digest(first) != payload_digest(second)


def test_the_digest_follows_from_payloads_name_and_version_only(tmp_path: Path) -> None:
    one = bundles.write(tmp_path / "one", tmp_path / "work")
    two = bundles.write(tmp_path / "two", tmp_path / "work", signed_by=bundles.signer(2))
    other = bundles.write(tmp_path / "three", tmp_path / "work", version="1.2.1")

    assert one.digest == two.digest
    assert contents(one.path) != contents(two.path)  # the attestations
    assert other.digest != one.digest
    assert other.payloads == one.payloads


def test_a_bundle_may_have_no_version(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work", version=None)

    assert oci_bundle.read(made.path).require().version is None
    assert bundles.verified(made.path).ok


def test_writing_the_same_bundle_again_leaves_it_as_it_was(tmp_path: Path) -> None:
    first = bundles.write(tmp_path / "cls", tmp_path / "work")
    before = contents(first.path)

    second = bundles.write(tmp_path / "cls", tmp_path / "work")

    assert (first.reused, second.reused) == (False, True)
    assert contents(second.path) == before


def test_another_time_of_the_run_is_no_reason_to_sign_again(tmp_path: Path) -> None:
    bundles.write(tmp_path / "cls", tmp_path / "work", targets=["x86-64-v4"])
    later = bundles.provenance("x86-64-v4", started_on="2027-01-01T00:00:00Z")
    payload = PayloadInput("x86-64-v4", tmp_path / "work" / "x86-64-v4", later)

    again = write_bundle(tmp_path / "cls", name="cls", version="1.2.0", payloads=[payload], signer=bundles.signer())

    assert again.reused


@pytest.mark.parametrize("title", ["index.json", "media.idx", "blob"])
def test_a_damaged_bundle_is_written_anew(tmp_path: Path, title: str) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work")
    damaged = max((made.path / "blobs/sha256").iterdir()) if title == "blob" else made.path / title
    damaged.write_bytes(b"damage")

    assert not bundles.write(tmp_path / "cls", tmp_path / "work").reused
    assert bundles.verified(made.path).ok


def test_another_payload_replaces_the_bundle_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    first = bundles.write(tmp_path / "out" / "cls", tmp_path / "work")
    second = bundles.write(tmp_path / "out" / "cls", tmp_path / "work", salt="new")

    assert first.digest != second.digest
    assert oci_bundle.read(second.path).require().digest == second.digest
    assert names(tmp_path / "out") == ["cls"]


def test_where_names_cannot_be_swapped_the_old_bundle_steps_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "_exchange", lambda *_: False)
    bundles.write(tmp_path / "out" / "cls", tmp_path / "work")
    second = bundles.write(tmp_path / "out" / "cls", tmp_path / "work", salt="new")

    assert oci_bundle.read(second.path).require().digest == second.digest
    assert names(tmp_path / "out") == ["cls"]


def test_a_bundle_that_stepped_aside_before_a_crash_comes_back(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "out" / "cls", tmp_path / "work")
    made.path.rename(tmp_path / "out" / ".cls.farm.previous")

    publish.recover(made.path)

    assert bundles.verified(made.path).ok
    assert names(tmp_path / "out") == ["cls"]


def refused(out: Path, payloads: Sequence[PayloadInput], **more: object) -> FarmError:
    arguments = {"name": "cls", "version": "1.2.0", "signer": bundles.signer(), **more}
    with pytest.raises(FarmError) as caught:
        write_bundle(out, payloads=payloads, **arguments)  # type: ignore[arg-type]
    return caught.value


def one(tmp_path: Path) -> PayloadInput:
    folder = bundles.payload(tmp_path / "work", "x86-64-v4")
    return PayloadInput("x86-64-v4", folder, bundles.provenance("x86-64-v4"))


@pytest.mark.parametrize(
    "make",
    ["a file", "a folder of the user's own", "a link", "a folder with one file more", "another tool's OCI layout"],
)
def test_something_else_at_the_output_is_never_replaced(tmp_path: Path, make: str) -> None:
    out = tmp_path / "cls"
    if make == "a file":
        out.write_bytes(b"mine")
    elif make == "a folder of the user's own":
        out.mkdir()
        (out / "thesis.txt").write_bytes(b"mine")
    elif make == "a link":
        (tmp_path / "real").mkdir()
        out.symlink_to(tmp_path / "real")
    elif make == "another tool's OCI layout":
        (out / "blobs").mkdir(parents=True)
        (out / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        (out / "index.json").write_text('{"schemaVersion":2,"manifests":[]}')
    else:
        bundles.write(out, tmp_path / "other")
        (out / "notes.txt").write_bytes(b"mine")

    error = refused(out, [one(tmp_path)])

    assert (error.code, error.status) == (Code.OUTPUT_FOREIGN, Status.USAGE)
    assert out.is_symlink() or out.is_file() or set(names(out)) & {"thesis.txt", "notes.txt", "index.json"}


def test_names_of_others_beside_the_output_are_left_alone(tmp_path: Path) -> None:
    others = (".tmp-draft", ".tmp-0123456789abcdef", ".cls.previous")
    for name in others:
        (tmp_path / name).mkdir()

    write_bundle(tmp_path / "cls", name="cls", version=None, payloads=[one(tmp_path)], signer=bundles.signer())

    assert {*others, "cls"} <= set(names(tmp_path))


def test_an_empty_folder_at_the_output_is_filled(tmp_path: Path) -> None:
    (tmp_path / "cls").mkdir()

    bundles.write(tmp_path / "cls", tmp_path / "work")

    assert bundles.verified(tmp_path / "cls").ok


@pytest.mark.parametrize("version", ["", "1", "1.2", "01.2.3", "1.2.3.4", "v1.2.3", "1.2.3-", "1.2.3 ", "1.2.३"])
def test_a_version_is_semantic(tmp_path: Path, version: str) -> None:
    assert refused(tmp_path / "cls", [one(tmp_path)], version=version).code is Code.VERSION_INVALID


@pytest.mark.parametrize("name", ["../cls", "", ".cls", "a/b"])
def test_a_name_is_a_file_name(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path / "cls", [one(tmp_path)], name=name).code is Code.NAME_INVALID


def test_a_folder_that_is_no_payload_is_refused_with_the_file(tmp_path: Path) -> None:
    missing, extra, linked = (bundles.payload(tmp_path / name, "x86-64-v4") for name in ("m", "e", "l"))
    (missing / "media-run").unlink()
    (extra / "notes.txt").write_bytes(b"")
    (linked / "media-run").unlink()
    (linked / "media-run").symlink_to(linked / "kernels.so")

    for folder, file in ((missing, "media-run"), (extra, "notes.txt"), (linked, "media-run")):
        payload = PayloadInput("x86-64-v4", folder, bundles.provenance("x86-64-v4"))
        error = refused(tmp_path / "out" / "cls", [payload])
        assert (error.code, error.detail["file"]) == (Code.PAYLOAD_INVALID, file)
    assert not (tmp_path / "out").exists()


def test_a_bundle_has_at_least_one_payload_and_one_per_target(tmp_path: Path) -> None:
    payload = one(tmp_path)

    assert refused(tmp_path / "cls", []).code is Code.PAYLOAD_INVALID
    assert refused(tmp_path / "cls", [payload, payload]).code is Code.PAYLOAD_INVALID


@dataclasses.dataclass
class Refusing:
    """A signer that refuses."""

    public: PublicKey = dataclasses.field(default_factory=lambda: bundles.signer().public)

    def sign(self, layout: Path, statements: Sequence[Statement]) -> list[bytes]:
        assert (layout / "index.json").is_file()
        raise FarmError(Code.SIGNER_REFUSED, "no", f"{len(statements)} statements")


def test_when_the_signer_refuses_the_old_bundle_stays_and_nothing_else(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "out" / "cls", tmp_path / "other", salt="old")
    before = contents(made.path)

    error = refused(made.path, [one(tmp_path)], signer=Refusing())

    assert error.code is Code.SIGNER_REFUSED
    assert contents(made.path) == before
    assert names(tmp_path / "out") == ["cls"]


def test_a_provenance_of_another_model_is_not_signed(tmp_path: Path) -> None:
    other = dataclasses.replace(bundles.MODEL, name="other")
    payload = dataclasses.replace(one(tmp_path), provenance=bundles.provenance("x86-64-v4", model=other))

    assert refused(tmp_path / "out" / "cls", [payload]).code is Code.SIGNATURE_FOREIGN
    assert names(tmp_path / "out") == []


def test_a_signer_that_signs_something_else_is_found_out_before_the_bundle_appears(tmp_path: Path) -> None:
    class Swapping(bundles.LocalSigner):
        def sign(self, layout: Path, statements: Sequence[Statement]) -> list[bytes]:
            return list(reversed(super().sign(layout, statements)))

    signer = Swapping(bundles.signer().private)

    assert refused(tmp_path / "out" / "cls", [one(tmp_path)], signer=signer).code is Code.SIGNATURE_FOREIGN
    assert names(tmp_path / "out") == []


def test_an_output_that_cannot_be_written_is_an_error_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    error = refused(tmp_path / "file" / "out" / "cls", [one(tmp_path)])

    assert error.status is Status.ENVIRONMENT


@pytest.mark.parametrize(
    ("target", "platform"),
    [("x86-64-v3", Platform("amd64", "linux", "v3")), ("x86-64-v4", Platform("amd64", "linux", "v4"))],
)
def test_a_target_has_an_oci_platform(target: str, platform: Platform) -> None:
    assert bundle.platform_of(target) == platform
