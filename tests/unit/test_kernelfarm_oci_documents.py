"""OCI documents: one byte string per noun, and no other is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernelfarm import oci
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci import Descriptor, Index, Manifest, Platform

A = Digest("sha256:" + "a" * 64)
B = Digest("sha256:" + "b" * 64)
CONFIG = Descriptor(oci.PAYLOAD_CONFIG, A, 3)
LAYER = Descriptor("application/vnd.kernelfarm.kernels.v1", B, 5, annotations=((oci.TITLE, "kernels.so"),))
MANIFEST = Manifest(oci.PAYLOAD, CONFIG, (LAYER,))


def changed(data: bytes, **fields: Any) -> bytes:
    """The document with other top-level fields (None removes one), still canonical."""
    value = json.loads(data) | fields
    kept = {key: item for key, item in value.items() if item is not None}
    return json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()


def test_a_manifest_has_these_bytes() -> None:
    assert MANIFEST.encode() == (
        b'{"artifactType":"application/vnd.kernelfarm.payload.v1",'
        b'"config":{"digest":"sha256:' + b"a" * 64 + b'",'
        b'"mediaType":"application/vnd.kernelfarm.payload.config.v1+json","size":3},'
        b'"layers":[{"annotations":{"org.opencontainers.image.title":"kernels.so"},"digest":"sha256:'
        + b"b"
        * 64
        + b'",'
        b'"mediaType":"application/vnd.kernelfarm.kernels.v1","size":5}],'
        b'"mediaType":"application/vnd.oci.image.manifest.v1+json","schemaVersion":2}'
    )


def test_an_index_lists_a_platform_and_a_version() -> None:
    entry = Descriptor(oci.MANIFEST, A, 9, oci.PAYLOAD, Platform("amd64", "linux", "v4"), ((oci.TARGET, "x86-64-v4"),))
    index = Index((entry,), oci.BUNDLE, ((oci.TITLE, "cls"), (oci.VERSION, "1.2.0")))

    value = json.loads(index.encode())

    assert value["manifests"][0]["platform"] == {"architecture": "amd64", "os": "linux", "variant": "v4"}
    assert value["annotations"] == {
        "org.opencontainers.image.title": "cls",
        "org.opencontainers.image.version": "1.2.0",
    }
    assert Index.decode(index.encode(), "x") == index


def test_the_empty_config_is_the_one_that_oci_defines() -> None:
    assert oci.describe(oci.EMPTY_BYTES, oci.EMPTY) == Descriptor(
        "application/vnd.oci.empty.v1+json",
        Digest("sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
        2,
    )


@pytest.mark.parametrize(
    "data",
    [
        changed(MANIFEST.encode(), extra=1),
        changed(MANIFEST.encode(), schemaVersion=1),
        changed(MANIFEST.encode(), mediaType=oci.INDEX),
        changed(MANIFEST.encode(), annotations={}),
        changed(MANIFEST.encode(), config=None),
        changed(MANIFEST.encode(), layers={}),
        changed(MANIFEST.encode(), layers=[3]),
        changed(MANIFEST.encode(), artifactType=7),
        changed(MANIFEST.encode(), config={"mediaType": "m", "digest": A, "size": -1}),
        changed(MANIFEST.encode(), config={"mediaType": "m", "digest": A, "size": True}),
        changed(MANIFEST.encode(), config={"mediaType": "m", "digest": A.upper(), "size": 1}),
        changed(MANIFEST.encode(), config={"mediaType": "m", "digest": "sha512:" + "a" * 128, "size": 1}),
        changed(MANIFEST.encode(), config={"mediaType": "m", "digest": A, "size": 1, "urls": ["x"]}),
        changed(MANIFEST.encode(), config={"mediaType": "m", "digest": A, "size": 1, "platform": {"os": "linux"}}),
        changed(MANIFEST.encode(), annotations={"a": 1}),
        b"[]",
    ],
)
def test_what_writing_would_not_produce_is_not_read(data: bytes) -> None:
    with pytest.raises(FarmError) as caught:
        Manifest.decode(data, "blobs/sha256/x")

    assert (caught.value.code, caught.value.detail["file"]) == (Code.BUNDLE_INVALID, "blobs/sha256/x")


@pytest.mark.parametrize("data", [MANIFEST.encode() + b"\n", MANIFEST.encode().replace(b":", b": ", 1)])
def test_another_spelling_of_the_same_document_is_not_canonical(data: bytes) -> None:
    with pytest.raises(FarmError) as caught:
        Manifest.decode(data, "m")

    assert caught.value.code is Code.JSON_NOT_CANONICAL
