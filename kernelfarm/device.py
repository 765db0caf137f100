"""The two binary files that a device reads: `media.hdr`, one per payload, and `media.idx` at the root of the bundle.

The layouts are runtime/include/kf_format.h; everything is little-endian. Writing and reading are inverse: what
`from_bytes` accepts, `to_bytes` writes back byte for byte, so a verifier may compare a file with the one it derives.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import IntEnum

from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

FORMAT_VERSION = 1
ABI_VERSION = 1
"""Version of the contract between kernels and runtime, KF_ABI_VERSION of runtime/include/kf_abi.h."""
IR_VERSION = "0.1.0"
"""Semantic version of the compiler's IR; a device refuses another major number."""

HEADER_NAME = "media.hdr"
INDEX_NAME = "media.idx"

_INDEX_MAGIC = 0x5849464B
_HEADER_MAGIC = 0x4448464B
_INDEX = struct.Struct("<4I")
_ENTRY = struct.Struct("<32sQ")
_HEADER = struct.Struct("<8I32s")
_VARIANT = struct.Struct("<Q4I")
_BLOB = struct.Struct("<2IQ32s")
_NONE = 0xFFFFFFFF
_MAX_PAYLOADS, _MAX_VARIANTS, _MAX_BLOBS, _MAX_BLOB_BYTES = 1024, 16, 64, 1 << 40
_TARGET = re.compile(r"[a-z0-9._-]{1,31}")
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")

SIZES = {
    "kf_index": _INDEX.size,
    "kf_index_entry": _ENTRY.size,
    "kf_header": _HEADER.size,
    "kf_variant": _VARIANT.size,
    "kf_blob": _BLOB.size,
}
"""Bytes of each C struct."""


class BlobKind(IntEnum):
    """What a blob is to the loader; the numbers are in the file."""

    KERNELS = 1
    WEIGHTS = 2
    GOLDEN = 3


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of the payload, found by its digest; `size` in bytes, never 0."""

    kind: BlobKind
    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the payload: a bit mask of required CPU features, and the positions of its blobs in the header."""

    cpu_features: int
    preference: int
    kernels: int
    weights: int | None


@dataclass(frozen=True, slots=True)
class PayloadHeader:
    """`media.hdr`. `machine` is ELF's e_machine; a device takes the variant of highest preference that it can run."""

    target: str
    machine: int
    variants: tuple[Variant, ...]
    blobs: tuple[Blob, ...]
    abi_version: int = ABI_VERSION
    ir_version: str = IR_VERSION

    def to_bytes(self) -> bytes:
        """The file; raises `FarmError` DEVICE_FILE_INVALID for a header that no device would take."""
        _check_header(self)
        counts = (len(self.variants), len(self.blobs))
        size = _HEADER.size + counts[0] * _VARIANT.size + counts[1] * _BLOB.size
        versions = (self.abi_version, pack_version(self.ir_version))
        head = _HEADER.pack(
            _HEADER_MAGIC, FORMAT_VERSION, size, self.machine, *versions, *counts, self.target.encode("ascii")
        )
        variants = (
            _VARIANT.pack(v.cpu_features, v.preference, v.kernels, _NONE if v.weights is None else v.weights, 0)
            for v in self.variants
        )
        blobs = (_BLOB.pack(b.kind, 0, b.size, _raw(b.digest)) for b in self.blobs)
        return b"".join((head, *variants, *blobs))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = HEADER_NAME) -> PayloadHeader:
        """The header in a file; raises `FarmError` DEVICE_FILE_INVALID naming the file and the fault."""
        if len(data) < _HEADER.size:
            raise _invalid(name, "shorter than its fixed part")
        magic, version, size, machine, abi, ir, n_variants, n_blobs, target = _HEADER.unpack_from(data)
        _require(magic == _HEADER_MAGIC, name, "not a payload header")
        _require(version == FORMAT_VERSION, name, f"format version {version}, known is {FORMAT_VERSION}")
        _require(1 <= n_variants <= _MAX_VARIANTS, name, "number of variants out of range")
        _require(1 <= n_blobs <= _MAX_BLOBS, name, "number of blobs out of range")
        expected = _HEADER.size + n_variants * _VARIANT.size + n_blobs * _BLOB.size
        _require(size == expected == len(data), name, "its size does not fit its tables")
        text = target.rstrip(b"\0").decode("latin-1")
        blobs_at = _HEADER.size + n_variants * _VARIANT.size
        variants = tuple(_variant(fields, name) for fields in _VARIANT.iter_unpack(data[_HEADER.size : blobs_at]))
        blobs = tuple(_blob(fields, name) for fields in _BLOB.iter_unpack(data[blobs_at:]))
        header = cls(text, machine, variants, blobs, abi, unpack_version(ir))
        _check_header(header, name)
        return header


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A payload header of the bundle: digest and size of its `media.hdr`."""

    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class DeviceIndex:
    """`media.idx`: the payload headers of a bundle, in the order of the payloads in its image index."""

    entries: tuple[IndexEntry, ...]

    def to_bytes(self) -> bytes:
        """The file; raises `FarmError` DEVICE_FILE_INVALID for an empty or too long index."""
        _check_index(self, INDEX_NAME)
        size = _INDEX.size + len(self.entries) * _ENTRY.size
        entries = (_ENTRY.pack(_raw(entry.digest), entry.size) for entry in self.entries)
        return b"".join((_INDEX.pack(_INDEX_MAGIC, FORMAT_VERSION, size, len(self.entries)), *entries))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = INDEX_NAME) -> DeviceIndex:
        """The index in a file; raises `FarmError` DEVICE_FILE_INVALID naming the file and the fault."""
        _require(len(data) >= _INDEX.size, name, "shorter than its header")
        magic, version, size, count = _INDEX.unpack_from(data)
        _require(magic == _INDEX_MAGIC, name, "not an index of payloads")
        _require(version == FORMAT_VERSION, name, f"format version {version}, known is {FORMAT_VERSION}")
        _require(
            size == len(data) == _INDEX.size + count * _ENTRY.size, name, "its size does not fit the number of payloads"
        )
        found = _ENTRY.iter_unpack(data[_INDEX.size :])
        index = cls(tuple(IndexEntry(_digest(raw), header_size) for raw, header_size in found))
        _check_index(index, name)
        return index


def pack_version(text: str) -> int:
    """ "1.2.3" as the device's 32-bit number, 8, 12 and 12 bits; raises `FarmError` DEVICE_FILE_INVALID."""
    match = _VERSION.fullmatch(text)
    major, minor, patch = (int(part) for part in match.groups()) if match else (1 << 8, 0, 0)
    if major >= 1 << 8 or minor >= 1 << 12 or patch >= 1 << 12:
        raise _invalid("IR version", f"{text!r} is not MAJOR.MINOR.PATCH below 256.4096.4096")
    return major << 24 | minor << 12 | patch


def unpack_version(number: int) -> str:
    """Inverse of `pack_version`."""
    return f"{number >> 24}.{number >> 12 & 4095}.{number & 4095}"


def _variant(fields: tuple[int, ...], name: str) -> Variant:
    features, preference, kernels, weights, reserved = fields
    _require(reserved == 0, name, "reserved field in use")
    return Variant(features, preference, kernels, None if weights == _NONE else weights)


def _blob(fields: tuple[int, int, int, bytes], name: str) -> Blob:
    kind, reserved, size, raw = fields
    _require(reserved == 0, name, "reserved field in use")
    _require(kind in tuple(BlobKind), name, f"blob of unknown kind {kind}")
    return Blob(BlobKind(kind), _digest(raw), size)


def _check_header(header: PayloadHeader, name: str = HEADER_NAME) -> None:
    _require(_TARGET.fullmatch(header.target) is not None, name, f"target name {header.target!r}")
    _require(1 <= len(header.variants) <= _MAX_VARIANTS, name, "number of variants out of range")
    _require(1 <= len(header.blobs) <= _MAX_BLOBS, name, "number of blobs out of range")
    _require(0 < header.machine < 1 << 16, name, "machine out of range")
    _require(0 <= header.abi_version < 1 << 32, name, "ABI version out of range")
    goldens = sum(blob.kind is BlobKind.GOLDEN for blob in header.blobs)
    _require(goldens <= 1, name, "golden vectors twice")
    for blob in header.blobs:
        _require(0 < blob.size < _MAX_BLOB_BYTES, name, "size of a blob out of range")
    for variant in header.variants:
        _require(0 <= variant.cpu_features < 1 << 64, name, "CPU features out of range")
        _require(0 <= variant.preference < 1 << 32, name, "preference out of range")
        _require(_is(header, variant.kernels, BlobKind.KERNELS), name, "variant without kernels")
        _require(
            variant.weights is None or _is(header, variant.weights, BlobKind.WEIGHTS),
            name,
            "variant with wrong weights",
        )


def _is(header: PayloadHeader, place: int, kind: BlobKind) -> bool:
    return 0 <= place < len(header.blobs) and header.blobs[place].kind == kind


def _check_index(index: DeviceIndex, name: str) -> None:
    _require(1 <= len(index.entries) <= _MAX_PAYLOADS, name, "number of payloads out of range")
    _require(all(0 < entry.size <= 1 << 16 for entry in index.entries), name, "size of a payload header out of range")


def _raw(value: Digest) -> bytes:
    return bytes.fromhex(digest.hex_of(digest.parse(value)))


def _digest(raw: bytes) -> Digest:
    return Digest(digest.PREFIX + raw.hex())


def _require(holds: bool, name: str, why: str) -> None:
    if not holds:
        raise _invalid(name, why)


def _invalid(name: str, why: str) -> FarmError:
    return FarmError(Code.DEVICE_FILE_INVALID, f"{name} is malformed", why, detail={"file": name})
