"""The strict reader of a bundle's folder: everything that is not exactly the bundle is a fault that names the file."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelfarm import digest, layout, oci, oci_bundle
from kernelfarm.errors import Code, FarmError
from kernelfarm.layout import Limits
from kernelfarm.oci import Descriptor, Index, Manifest, Platform
from tests.support import bundles


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    bundles.write(tmp_path / "cls", tmp_path / "work")
    return tmp_path / "cls"


def blob_of(bundle: Path, title: str, target: str = "x86-64-v4") -> Path:
    view = oci_bundle.read(bundle).require()
    (payload,) = [item for item in view.payloads if item.target == target]
    return view.folder.blob_path(payload.files[title])


def faults(bundle: Path, limits: Limits | None = None) -> set[tuple[Code, str]]:
    return {(fault.code, fault.detail["file"]) for fault in oci_bundle.read(bundle, limits).faults}


def name_of(bundle: Path, path: Path) -> str:
    return path.relative_to(bundle).as_posix()


def test_a_bundle_as_written_has_no_fault(bundle: Path) -> None:
    view = oci_bundle.read(bundle)

    assert view.faults == []
    assert (view.name, view.version) == ("cls", "1.2.0")
    assert [payload.target for payload in view.payloads] == ["x86-64-v3", "x86-64-v4"]
    assert len(view.attestations) == 3
    assert view.digest == digest.of_file(bundle / oci.blob_name(view.digest))


def test_a_removed_file_is_named_with_what_it_was(bundle: Path) -> None:
    kernels = blob_of(bundle, "kernels.so")
    kernels.unlink()

    (fault,) = oci_bundle.read(bundle).faults

    assert (fault.code, fault.detail["file"]) == (Code.BUNDLE_MISSING, name_of(bundle, kernels))
    assert "kernels.so of x86-64-v4" in fault.why


@pytest.mark.parametrize("name", ["oci-layout", "index.json"])
def test_a_missing_document_at_the_root_is_named(bundle: Path, name: str) -> None:
    (bundle / name).unlink()

    assert (Code.BUNDLE_MISSING, name) in faults(bundle)


def test_a_truncated_file_is_named(bundle: Path) -> None:
    kernels = blob_of(bundle, "kernels.so")
    os.truncate(kernels, 3)

    assert faults(bundle) == {(Code.BUNDLE_CORRUPT, name_of(bundle, kernels))}


def test_a_moved_file_is_damaged_where_it_is_and_missing_where_it_was(bundle: Path) -> None:
    kernels = blob_of(bundle, "kernels.so")
    other = kernels.with_name("0" * 64)
    kernels.rename(other)

    assert faults(bundle) == {
        (Code.BUNDLE_CORRUPT, name_of(bundle, other)),
        (Code.BUNDLE_MISSING, name_of(bundle, kernels)),
    }


def test_two_files_that_changed_places_are_both_named(bundle: Path) -> None:
    first, second = blob_of(bundle, "kernels.so"), blob_of(bundle, "media-run")
    aside = bundle / "aside"
    first.rename(aside)
    second.rename(first)
    aside.rename(second)

    assert faults(bundle) == {
        (Code.BUNDLE_CORRUPT, name_of(bundle, first)),
        (Code.BUNDLE_CORRUPT, name_of(bundle, second)),
    }


def test_a_blob_that_no_document_names_is_extra(bundle: Path) -> None:
    data = b"stowaway"
    name = oci.blob_name(digest.of_bytes(data))
    (bundle / name).write_bytes(data)

    assert faults(bundle) == {(Code.BUNDLE_EXTRA, name)}


@pytest.mark.parametrize(
    "name", [".hidden", "README", "blobs/readme", "blobs/sha256/short", "blobs/sha256/" + "A" * 64]
)
def test_a_file_at_a_place_that_no_document_can_name_is_extra(bundle: Path, name: str) -> None:
    (bundle / name).write_bytes(b"")

    assert faults(bundle) == {(Code.BUNDLE_EXTRA, name)}


def test_a_name_that_is_not_unicode_is_reported_readably(bundle: Path) -> None:
    (Path(os.fsdecode(os.fsencode(bundle) + b"/bad\xff"))).write_bytes(b"")

    ((code, name),) = faults(bundle)

    assert code is Code.BUNDLE_EXTRA
    assert name.encode() == rb"bad\udcff"


def as_link(path: Path) -> None:
    real = path.with_name("elsewhere")
    path.rename(real)
    real.rename(path.parents[3] / "elsewhere")
    path.symlink_to(path.parents[3] / "elsewhere")


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_socket(path: Path) -> None:
    path.unlink()
    handle = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{handle}/{path.name}")
    os.close(handle)


@pytest.mark.parametrize("replace", [as_link, as_pipe, as_folder, as_socket])
def test_anything_but_a_plain_file_is_unsafe_and_never_opened(bundle: Path, replace: Callable[[Path], None]) -> None:
    kernels = blob_of(bundle, "kernels.so")
    replace(kernels)

    assert faults(bundle) == {(Code.BUNDLE_UNSAFE, name_of(bundle, kernels))}


def test_a_linked_blob_folder_is_not_entered(bundle: Path, tmp_path: Path) -> None:
    (bundle / "blobs").rename(tmp_path / "blobs")
    (bundle / "blobs").symlink_to(tmp_path / "blobs")

    assert (Code.BUNDLE_UNSAFE, "blobs") in faults(bundle)


def test_a_folder_beside_the_documents_is_unsafe(bundle: Path) -> None:
    (bundle / "extra").mkdir()

    assert faults(bundle) == {(Code.BUNDLE_UNSAFE, "extra")}


def rewrite_top(bundle: Path, change: Callable[[tuple[Descriptor, ...]], tuple[Descriptor, ...]]) -> None:
    top = Index.decode((bundle / "index.json").read_bytes(), "index.json")
    (bundle / "index.json").write_bytes(Index(change(top.manifests)).encode())


@pytest.mark.parametrize(
    "change",
    [
        lambda listed: (*listed, listed[-1]),
        lambda listed: (listed[0], *listed),
        lambda listed: listed[1:],
        lambda listed: (listed[0], *reversed(listed[1:])),
        lambda listed: (*listed[1:], listed[0]),
        lambda listed: (oci.bare(listed[0]), *listed[1:]),
    ],
    ids=["an attestation twice", "the bundle twice", "no bundle", "another order", "the bundle last", "bare"],
)
def test_a_list_that_is_not_the_bundle_and_its_attestations_in_order_is_refused(
    bundle: Path, change: Callable[[tuple[Descriptor, ...]], tuple[Descriptor, ...]]
) -> None:
    rewrite_top(bundle, change)

    assert faults(bundle) == {(Code.BUNDLE_INVALID, "index.json")}


def test_an_attestation_that_is_no_longer_listed_leaves_its_files_unnamed(bundle: Path) -> None:
    rewrite_top(bundle, lambda listed: listed[:-1])

    found = faults(bundle)

    assert {code for code, _ in found} == {Code.BUNDLE_EXTRA}
    assert len(found) == 2  # its manifest and its statement


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(files=5), Code.BUNDLE_LIMIT),
        (Limits(document=64), Code.BUNDLE_LIMIT),
        (Limits(blob=40), Code.BUNDLE_LIMIT),
        (Limits(total=200), Code.BUNDLE_LIMIT),
        (Limits(payloads=1), Code.BUNDLE_LIMIT),
        (Limits(attestations=2), Code.BUNDLE_LIMIT),
    ],
)
def test_a_bundle_beyond_a_limit_is_not_read_on(bundle: Path, limits: Limits, code: Code) -> None:
    assert code in {found for found, _ in faults(bundle, limits)}


def test_something_that_is_no_folder_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    for path in (tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(FarmError) as caught:
            oci_bundle.read(path)
        assert caught.value.code is Code.BUNDLE_INVALID


def test_a_file_that_changes_after_it_was_hashed_is_noticed_when_it_is_read(bundle: Path) -> None:
    view = oci_bundle.read(bundle).require()
    config = view.payloads[0].files["config.json"]
    view.folder.blob_path(config).write_bytes(b"{}")

    with pytest.raises(FarmError) as caught:
        view.folder.read_blob(config)

    assert caught.value.code is Code.BUNDLE_CHANGED


def test_a_reader_says_what_a_file_is_for(bundle: Path) -> None:
    view = oci_bundle.read(bundle)

    assert view.role_of(name_of(bundle, blob_of(bundle, "kernels.so"))) == "kernels.so of x86-64-v4"
    assert view.role_of(oci.blob_name(view.digest)) == "the image index"
    assert view.role_of(layout.INDEX) == ""


def forged(bundle: Path, change: Callable[[Index, Manifest], tuple[Index, Manifest]]) -> str:
    """Write another index and another manifest of its last payload, everything else fitting; the manifest's name."""
    view = oci_bundle.read(bundle).require()
    assert view.descriptor is not None
    last = view.payloads[-1].descriptor
    index = Index.decode(view.folder.read_blob(view.descriptor), "index")
    index, manifest = change(index, Manifest.decode(view.folder.read_blob(last), "manifest"))
    data = manifest.encode()
    entry = dataclasses.replace(index.manifests[-1], digest=digest.of_bytes(data), size=len(data))
    top = dataclasses.replace(index, manifests=(*index.manifests[:-1], entry)).encode()
    for item in (view.descriptor, last, *(found.descriptor for found in view.attestations)):
        view.folder.blob_path(item).unlink()
    for envelope in view.attestations:
        view.folder.blob_path(envelope.envelope).unlink()
    (bundle / oci.blob_name(digest.of_bytes(b"{}"))).unlink()
    for blob in (data, top):
        (bundle / oci.blob_name(digest.of_bytes(blob))).write_bytes(blob)
    (bundle / "index.json").write_bytes(oci_bundle.top_index(oci.describe(top, oci.INDEX), []).encode())
    return oci.blob_name(digest.of_bytes(data))


def test_the_forging_of_these_tests_is_sound(bundle: Path) -> None:
    forged(bundle, lambda index, manifest: (index, manifest))

    assert faults(bundle) == set()


def relisted(**fields: object) -> Callable[[Index, Manifest], tuple[Index, Manifest]]:
    """Another entry of the last payload in the index."""

    def change(index: Index, manifest: Manifest) -> tuple[Index, Manifest]:
        entry = dataclasses.replace(index.manifests[-1], **fields)  # type: ignore[arg-type]
        return dataclasses.replace(index, manifests=(*index.manifests[:-1], entry)), manifest

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda i, m: (dataclasses.replace(i, artifact_type=""), m),
        lambda i, m: (dataclasses.replace(i, annotations=i.annotations[1:]), m),
        lambda i, m: (dataclasses.replace(i, annotations=(*i.annotations, ("z", ""))), m),
        lambda i, m: (dataclasses.replace(i, manifests=tuple(reversed(i.manifests))), m),
        lambda i, m: (dataclasses.replace(i, manifests=(i.manifests[-1], i.manifests[-1])), m),
        relisted(annotations=((oci.TARGET, "../x"),)),
        relisted(annotations=()),
        relisted(annotations=((oci.TARGET, "x86-64-v4"), ("z", ""))),
        relisted(platform=None),
        relisted(artifact_type=oci.ATTESTATION),
        relisted(media_type=oci.INDEX),
    ],
)
def test_an_index_that_is_no_bundle_s_is_refused(
    bundle: Path, change: Callable[[Index, Manifest], tuple[Index, Manifest]]
) -> None:
    forged(bundle, change)

    (fault,) = oci_bundle.read(bundle).faults

    assert fault.code is Code.BUNDLE_INVALID
    assert fault.detail["file"] == oci.blob_name(digest.of_file(bundle / fault.detail["file"]))


def test_an_index_without_payloads_is_refused(bundle: Path) -> None:
    forged(bundle, lambda i, m: (dataclasses.replace(i, manifests=i.manifests[-1:]), m))
    assert {code for code, _ in faults(bundle)} == {Code.BUNDLE_EXTRA}  # one payload is enough; the other's files stay
    assert {code for code, _ in faults(bundle, Limits(payloads=0))} == {Code.BUNDLE_LIMIT}


def layered(change: Callable[[tuple[Descriptor, ...]], tuple[Descriptor, ...]]) -> Callable[[Manifest], Manifest]:
    return lambda manifest: dataclasses.replace(manifest, layers=change(manifest.layers))


def first_layer(**fields: object) -> Callable[[Manifest], Manifest]:
    return layered(lambda found: (dataclasses.replace(found[0], **fields), *found[1:]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: dataclasses.replace(m, artifact_type=oci.BUNDLE),
        lambda m: dataclasses.replace(m, subject=oci.bare(m.config)),
        lambda m: dataclasses.replace(m, annotations=(("version", "1"),)),
        lambda m: dataclasses.replace(m, config=dataclasses.replace(m.config, annotations=(("a", "b"),))),
        lambda m: dataclasses.replace(m, config=dataclasses.replace(m.config, media_type=oci.EMPTY)),
        layered(lambda found: tuple(reversed(found))),
        layered(lambda found: (found[0], *found)),
        first_layer(annotations=()),
        first_layer(annotations=((oci.TITLE, "../hardening.json"),)),
        first_layer(annotations=((oci.TITLE, "config.json"),)),
        first_layer(annotations=((oci.TITLE, "hardening.json"), ("z", ""))),
        first_layer(artifact_type=oci.PAYLOAD),
        first_layer(platform=Platform("amd64")),
    ],
)
def test_a_manifest_that_is_no_payload_s_is_refused(bundle: Path, change: Callable[[Manifest], Manifest]) -> None:
    name = forged(bundle, lambda index, manifest: (index, change(manifest)))

    assert (Code.BUNDLE_INVALID, name) in faults(bundle)


def test_a_size_that_is_not_the_blob_s_is_a_fault_of_the_document_that_gives_it(bundle: Path) -> None:
    layer = layered(lambda found: (dataclasses.replace(found[0], size=found[0].size + 1), *found[1:]))
    name = forged(bundle, lambda index, manifest: (index, layer(manifest)))

    assert faults(bundle) == {(Code.BUNDLE_CORRUPT, name)}


def test_a_size_in_the_index_of_the_layout_is_checked_too(bundle: Path) -> None:
    rewrite_top(bundle, lambda listed: (dataclasses.replace(listed[0], size=listed[0].size + 1), *listed[1:]))

    assert (Code.BUNDLE_CORRUPT, "index.json") in faults(bundle)


def reattested(bundle: Path, change: Callable[[Manifest], Manifest]) -> str:
    """Write another manifest of an attestation, everything else fitting; its name."""
    view = oci_bundle.read(bundle).require()
    old, *others = view.attestations
    data = change(Manifest.decode(view.folder.read_blob(old.descriptor), "manifest")).encode()
    view.folder.blob_path(old.descriptor).unlink()
    made = oci.describe(data, oci.MANIFEST)
    (bundle / oci.blob_name(made.digest)).write_bytes(data)
    assert view.descriptor is not None
    top = oci_bundle.top_index(view.descriptor, [made, *(item.descriptor for item in others)])
    (bundle / "index.json").write_bytes(top.encode())
    return oci.blob_name(made.digest)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: dataclasses.replace(m, artifact_type=oci.PAYLOAD),
        lambda m: dataclasses.replace(m, subject=None),
        lambda m: dataclasses.replace(m, layers=()),
        lambda m: dataclasses.replace(m, layers=m.layers * 2),
        lambda m: dataclasses.replace(m, annotations=(("created", "now"),)),
        lambda m: dataclasses.replace(m, config=m.layers[0]),
        lambda m: dataclasses.replace(m, layers=(dataclasses.replace(m.layers[0], media_type="text/plain"),)),
    ],
)
def test_a_manifest_that_is_no_attestation_s_is_refused(bundle: Path, change: Callable[[Manifest], Manifest]) -> None:
    name = reattested(bundle, change)

    assert (Code.BUNDLE_INVALID, name) in faults(bundle)


def of_another_kind(subject: Descriptor) -> Descriptor:
    kinds = {oci.INDEX: oci.MANIFEST, oci.MANIFEST: oci.INDEX}
    return dataclasses.replace(subject, media_type=kinds[subject.media_type])


@pytest.mark.parametrize(
    "other",
    [
        lambda subject: dataclasses.replace(subject, digest=digest.of_bytes(b"elsewhere")),
        lambda subject: dataclasses.replace(subject, size=1),
        of_another_kind,
    ],
)
def test_an_attestation_of_something_elsewhere_is_foreign(
    bundle: Path, other: Callable[[Descriptor], Descriptor]
) -> None:
    def change(manifest: Manifest) -> Manifest:
        assert manifest.subject is not None
        return dataclasses.replace(manifest, subject=other(manifest.subject))

    name = reattested(bundle, change)

    assert (Code.SIGNATURE_FOREIGN, name) in faults(bundle)


def test_a_file_that_is_written_to_while_it_is_hashed_is_noticed(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = blob_of(bundle, "kernels.so")
    inode, real = kernels.stat().st_ino, os.read

    def read(file: int, count: int) -> bytes:
        data = real(file, count)
        if data and os.fstat(file).st_ino == inode:
            os.utime(kernels, ns=(1, 1))
        return data

    monkeypatch.setattr(os, "read", read)

    assert faults(bundle) == {(Code.BUNDLE_CHANGED, name_of(bundle, kernels))}


def test_a_file_that_grows_without_end_is_not_read_without_end(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = blob_of(bundle, "kernels.so")
    inode, real = kernels.stat().st_ino, os.read
    monkeypatch.setattr(os, "read", lambda file, n: b"x" * n if os.fstat(file).st_ino == inode else real(file, n))

    assert (Code.BUNDLE_LIMIT, name_of(bundle, kernels)) in faults(bundle, Limits(blob=1 << 22))


@pytest.mark.parametrize("replace", [as_pipe, as_folder, as_socket])
def test_a_file_that_is_exchanged_after_it_was_listed_is_not_followed(
    bundle: Path, replace: Callable[[Path], None]
) -> None:
    view = oci_bundle.read(bundle).require()
    config = view.payloads[0].files["config.json"]
    replace(view.folder.blob_path(config))

    with pytest.raises(FarmError) as caught:
        view.folder.read_blob(config)

    assert caught.value.code is Code.BUNDLE_UNSAFE
