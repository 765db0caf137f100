"""Documents read back as they were written, and nothing else is read: the answer is a noun or a code."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kernelfarm import canonical, oci
from kernelfarm.digest import of_bytes
from kernelfarm.errors import FarmError
from kernelfarm.oci import Descriptor, Index, Manifest, Platform

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
pairs = st.dictionaries(text, st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=3).map(
    lambda found: tuple(sorted(found.items()))
)
descriptors = st.builds(
    Descriptor,
    text,
    st.binary(max_size=4).map(of_bytes),
    st.integers(0, (1 << 53) - 1),
    st.just("") | text,
    st.none() | st.builds(Platform, text, text, st.just("") | text),
    pairs,
)
manifests = st.builds(
    Manifest,
    text,
    descriptors,
    st.lists(descriptors, max_size=3).map(tuple),
    st.none() | descriptors,
    pairs,
)
indexes = st.builds(Index, st.lists(descriptors, max_size=3).map(tuple), st.just("") | text, pairs)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 1 << 60) | st.text(max_size=4) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(manifests)
def test_a_manifest_reads_back(manifest: Manifest) -> None:
    assert Manifest.decode(manifest.encode(), "m") == manifest


@given(indexes)
def test_an_index_reads_back(index: Index) -> None:
    assert Index.decode(index.encode(), "i") == index


@given(manifests, st.data())
def test_a_document_with_one_byte_changed_is_another_document_or_none(manifest: Manifest, data: st.DataObject) -> None:
    encoded = bytearray(manifest.encode())
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= data.draw(st.integers(1, 255))

    try:
        read = Manifest.decode(bytes(encoded), "m")
    except FarmError:
        return
    assert read != manifest
    assert read.encode() == encoded


@given(manifests, st.sampled_from(["config", "layers", "subject", "annotations", "artifactType", "x"]), json_values)
def test_any_value_at_any_place_is_a_noun_or_a_code(manifest: Manifest, key: str, value: Any) -> None:
    document = canonical.loads(manifest.encode()) | {key: value}
    try:
        encoded = canonical.dumps(document)
    except FarmError:  # no JSON document at all: an integer beyond 53 bits
        return
    try:
        read = Manifest.decode(encoded, "m")
    except FarmError as error:
        assert error.detail["file"] == "m"
    else:
        assert read.encode() == encoded


@given(st.binary(max_size=60))
def test_noise_is_no_document(noise: bytes) -> None:
    for kind in (Manifest, Index):
        try:
            kind.decode(noise, "n")
        except FarmError as error:
            assert error.detail["file"] == "n"
        else:
            raise AssertionError(noise)


@given(st.binary(max_size=20))
def test_a_blob_has_one_name(data: bytes) -> None:
    name = oci.blob_name(of_bytes(data))

    assert name == f"blobs/sha256/{of_bytes(data).removeprefix('sha256:')}"
