"""Whether the files of a payload fit each other, and the linked bytes are what `hardening.json` says of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from farm import bill_check
from farm.origin import origin_of
from farm.payload import (
    GOLDEN,
    HARDENING,
    HEADER,
    INCLUDE,
    KERNELS,
    LIBRARY,
    LINKS,
    MEDIA_TYPES,
    PROGRAM,
    SBOM,
    WEIGHTS,
    as_file,
)
from kernelfarm import canonical, golden, oci
from kernelfarm.device import BlobKind, PayloadHeader
from kernelfarm.errors import Code, FarmError
from kernelfarm.golden import Golden
from kernelfarm.layout import fault
from kernelfarm.links import Links
from kernelfarm.oci import Descriptor
from kernelfarm.oci_bundle import CONFIG, BundleView, PayloadView
from sbom import read as sbom
from sbom.parts import Hashes
from sbom.read import Sbom
from toolchains import features, gate, products, target
from toolchains.machines import MACHINES
from toolchains.properties import FLOOR, Property
from toolchains.target import Hardening, Target


def check(view: BundleView, payload: PayloadView) -> Iterator[tuple[str, str]]:
    """Yields (what was checked, what was found) of a payload; raises `FarmError` naming the file that does not fit."""
    yield "files", _files(payload)
    config = _json(view, payload.files[CONFIG])
    header = _header(view, payload)
    said = _json(view, payload.files[HARDENING])
    made_for = _target(payload, config, said)
    yield "header", _require_header(header, payload, config, made_for)
    yield "golden vectors", _require_golden(view, payload, config)
    yield "bill of materials", require_sbom(view, payload)
    yield "hardening", _require_hardening(view, payload, made_for, said)


def _files(payload: PayloadView) -> str:
    name = oci.blob_name(payload.digest)
    if wrong := sorted(set(payload.files) ^ set(MEDIA_TYPES)):
        verb = "an unknown file" if wrong[0] in payload.files else "no file"
        raise fault(Code.PAYLOAD_INVALID, name, f"the payload of {payload.target} has {verb} {wrong[0]}")
    for title, blob in sorted(payload.files.items()):
        if blob.media_type != MEDIA_TYPES[title]:
            raise fault(Code.PAYLOAD_INVALID, name, f"{title} of {payload.target} has the media type {blob.media_type}")
    return f"{len(payload.files)} files, {sum(blob.size for blob in payload.files.values())} bytes"


def _header(view: BundleView, payload: PayloadView) -> PayloadHeader:
    blob = payload.files[HEADER]
    return PayloadHeader.from_bytes(view.folder.read_blob(blob), oci.blob_name(blob.digest))


def _require_header(header: PayloadHeader, payload: PayloadView, config: Mapping[str, Any], made_for: Target) -> str:
    """The header, which the device trusts, names this payload's own blobs, this target, these versions.

    Also the machine and, where the target's file is still the same, the CPU features that its kernels need: a header
    that asks for less would let them run, and die, on a device without them.
    """
    name = oci.blob_name(payload.files[HEADER].digest)

    def require(holds: bool, why: str) -> None:
        if not holds:
            raise fault(Code.PAYLOAD_INCONSISTENT, name, f"{HEADER} of {payload.target}: {why}")

    require(header.target == payload.target, f"it is for {header.target}")
    require(header.ir_version == config.get("ir_version"), f"IR {header.ir_version}, {CONFIG} says another")
    require(header.abi_version == config.get("abi_version"), f"ABI {header.abi_version}, {CONFIG} says another")
    require(header.machine == MACHINES[made_for.machine].elf_machine, f"it is for ELF machine {header.machine}")
    if config["target"]["digest"] == made_for.digest:
        needed = (features.mask(made_for.machine, made_for.cpu.required), made_for.preference)
        asked = {(variant.cpu_features, variant.preference) for variant in header.variants}
        require(asked == {needed}, "it asks for other CPU features or another preference than its target")
    for kind, title in ((BlobKind.KERNELS, KERNELS), (BlobKind.WEIGHTS, WEIGHTS), (BlobKind.GOLDEN, GOLDEN)):
        named = {(blob.digest, blob.size) for blob in header.blobs if blob.kind is kind}
        own = (payload.files[title].digest, payload.files[title].size)
        require(named == ({own} if own[1] else set()), f"it does not name {title} of this payload, and nothing else")
    return f"names kernels, weights and golden vectors by digest, IR {header.ir_version}, ABI {header.abi_version}"


def _require_golden(view: BundleView, payload: PayloadView, config: Mapping[str, Any]) -> str:
    """The golden vectors are well formed, as strict as the product, for tensors of the sizes that config.json has."""
    blob = payload.files[GOLDEN]
    name = oci.blob_name(blob.digest)
    with as_file(view, blob, GOLDEN) as path:
        found = Golden.from_bytes(path.read_bytes(), name)
    found.require_tolerance(name)
    try:
        found.require_fits(config, name)
    except (KeyError, TypeError) as reason:
        raise fault(Code.PAYLOAD_INVALID, name, f"{CONFIG} of {payload.target} does not list its tensors") from reason
    values = sum(found.outputs) // golden.ELEMENT_BYTES
    return f"{len(found.cases)} cases of {values} values within {found.absolute:.3g} + {found.relative:.3g} * |b|"


def require_sbom(view: BundleView, payload: PayloadView) -> str:
    """The bill is valid, and lists exactly the payload's files, read again here, and what was linked into them.

    What it says of the recipe, the model and the tools is what its provenance says.
    """
    blob = payload.files[SBOM]
    name = oci.blob_name(blob.digest)
    try:
        return _require_bill(view, payload, sbom.read(view.folder.read_blob(blob), name), name)
    except FarmError as error:
        if error.detail.get("file") != name:
            raise
        why = f"{SBOM} of {payload.target}: {error.why}"
        raise FarmError(error.code, error.what, why, error.next_step, error.detail) from error


def _require_bill(view: BundleView, payload: PayloadView, found: Sbom, name: str) -> str:
    linked_blob = payload.files[LINKS]
    linked = canonical.decode(Links, view.folder.read_blob(linked_blob), name=oci.blob_name(linked_blob.digest))
    hashes = {}
    for title, each in sorted(payload.files.items()):
        if title != SBOM:
            with as_file(view, each, title) as path:
                hashes[title] = Hashes.of_file(path)
    try:
        model = str(_json(view, payload.files[CONFIG])["model"]["digest"])
    except (KeyError, TypeError) as reason:
        raise fault(Code.PAYLOAD_INVALID, name, f"{CONFIG} of {payload.target} does not name its model") from reason
    sbom.require_fits(found, hashes, linked, model, name)
    facts = bill_check.require_made_so(found, origin_of(view, payload), name)
    sources = f"{len(linked.sources)} sources"
    return f"{len(found.components)} components, {sources}, {facts} facts of its provenance, {found.serial}"


def _require_hardening(view: BundleView, payload: PayloadView, known: Target, said: Mapping[str, Any]) -> str:
    """Kernels, library and program, read again, are what hardening.json says of them, and every property holds."""
    header = view.folder.read_blob(payload.files[INCLUDE]).decode("utf-8", "replace")
    with _linked(view, payload, KERNELS) as path:
        kernels = gate.require(known, gate.inspect(path))
    shipped = []
    for title in (LIBRARY, PROGRAM):
        with _linked(view, payload, title) as path:
            shipped.append(products.require(known, products.inspect(path, header)))
    read = dataclasses.replace(kernels, products=tuple(shipped)).to_json()
    for title, found, claimed in (
        (KERNELS, {**read, "products": []}, {**said, "products": []}),
        (f"{LIBRARY} or {PROGRAM}", read, said),
    ):
        if canonical.dumps(found) != canonical.dumps(claimed):
            file = oci.blob_name(payload.files[HARDENING].digest)
            why = f"{title} of {payload.target} has another hardening than it says"
            raise fault(Code.PAYLOAD_INCONSISTENT, file, why)
    count = len(kernels.findings), len({finding.property for one in shipped for finding in one.findings})
    return f"{count[0]} properties, as read from {KERNELS}, {count[1]} from {LIBRARY} and {PROGRAM}"


@contextmanager
def _linked(view: BundleView, payload: PayloadView, title: str) -> Iterator[Path]:
    """A linked file of the payload; an error about it names its blob."""
    name = oci.blob_name(payload.files[title].digest)
    try:
        with as_file(view, payload.files[title], title) as path:
            yield path
    except FarmError as error:
        raise FarmError(error.code, error.what, error.why, error.next_step, {**error.detail, "file": name}) from error


def _target(payload: PayloadView, config: Mapping[str, Any], said: Mapping[str, Any]) -> Target:
    """The target that the payload was made for.

    Its file may have changed since: then the properties that hardening.json lists are what is read again. They may not
    leave out what every target demands that can have it at all.
    """
    file = oci.blob_name(payload.files[HARDENING].digest)
    try:
        known = target.load(payload.target)
        if config["target"]["digest"] == known.digest:
            return known
        required = tuple(Property(finding["property"]) for finding in said["findings"])
        impossible = tuple(Property(item) for item in said["impossible"])
    except (FarmError, KeyError, TypeError, ValueError) as reason:
        raise fault(Code.PAYLOAD_INVALID, file, f"it cannot be held against the target {payload.target}") from reason
    if left_out := sorted(FLOOR - set(required) - set(known.hardening.impossible)):
        why = f"it says nothing of {', '.join(left_out)}, which every target demands"
        raise fault(Code.PAYLOAD_INCONSISTENT, file, why)
    return dataclasses.replace(known, hardening=Hardening(required, impossible))


def _json(view: BundleView, blob: Descriptor) -> Mapping[str, Any]:
    name = oci.blob_name(blob.digest)
    value = canonical.loads(view.folder.read_blob(blob), strict=True, name=name)
    if not isinstance(value, dict):
        raise FarmError(Code.PAYLOAD_INVALID, f"{name} is no JSON object", detail={"file": name})
    return value
