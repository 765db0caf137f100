"""Shows what a bundle or one of its files holds, as read from the bytes. It must be whole; who made it is not asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from farm.payload import GOLDEN, HEADER, KERNELS, LIBRARY, PROGRAM, as_file
from kernelfarm import canonical, digest, files, oci, oci_bundle
from kernelfarm.device import DeviceIndex, PayloadHeader
from kernelfarm.errors import Code, FarmError
from kernelfarm.golden import Golden
from kernelfarm.oci import Descriptor
from kernelfarm.oci_bundle import CONFIG, AttestationView, BundleView, PayloadView
from signing import dsse
from toolchains import elf, gate, products, target

HardeningReader = Callable[[Path, str], dict[str, Any]]
"""From a linked file and the name of its target (empty: unknown) to what the file's bytes say."""

_SHOWN = ("model", "inputs", "outputs", "ir_version", "abi_version", "arena_bytes", "weights_bytes", "groups", "tools")
_LARGEST = 1 << 20


def read_hardening(path: Path, name: str) -> dict[str, Any]:
    """What the bytes of a linked file say: each property of the target where it is one of ours, and the plain facts.

    Raises `FarmError` ELF_INVALID for a file that is not linked code.
    """
    facts = elf.read(path)
    plain = {
        "machine": facts.machine,
        "relro": facts.relro is not None,
        "now": facts.now,
        "nx_stack": not facts.stack_executable,
        "text_relocations": facts.text_relocations,
        "needed": list(facts.needed),
        "exports": list(facts.exports),
        "undefined": list(facts.undefined),
        "notes": list(facts.notes),
    }
    if path.name in (LIBRARY, PROGRAM) or products.resembles(facts):
        return {**plain, **_product(path, name or products.target_of(facts.machine))}
    if name not in target.names():
        return plain
    report = gate.report(target.load(name), gate.inspect(path))
    return {
        **plain,
        "properties": {
            str(item.property): {"holds": item.holds, "evidence": item.evidence} for item in report.findings
        },
        "impossible": [str(item) for item in report.impossible],
        "vectors": {use.register_class: use.instructions for use in report.vectors},
    }


def _product(path: Path, name: str) -> dict[str, Any]:
    """The properties of the library or the program, which are the same for every target of a machine."""
    if name not in target.names():
        return {}
    report = products.report(target.load(name), products.inspect(path))
    return {
        "properties": {
            str(item.property): {"holds": item.holds, "evidence": item.evidence} for item in report.findings
        },
        "impossible": [str(item) for item in report.impossible],
    }


def inspect(path: Path, *, hardening: HardeningReader | None = None) -> dict[str, Any]:
    """What lies at `path`, a bundle's folder or a single file, as JSON, schema "inspect/1".

    `hardening` is by default `read_hardening`. Raises `FarmError` BUNDLE_* for a damaged bundle, INSPECT_UNKNOWN for
    a file of an unknown kind, FILE_MISSING.
    """
    reader = hardening or read_hardening
    return {"schema": "inspect/1", **(_bundle(path, reader) if path.is_dir() else _file(path, reader))}


def _bundle(root: Path, hardening: HardeningReader) -> dict[str, Any]:
    view = oci_bundle.read(root).require()
    return {
        "kind": "bundle",
        "digest": view.digest,
        "name": view.name,
        "version": view.version,
        "size": sum(view.folder.blobs.values()),
        "targets": {payload.target: _payload(view, payload, hardening) for payload in view.payloads},
        "attestations": [_attestation(view, item) for item in view.attestations],
    }


def _payload(view: BundleView, payload: PayloadView, hardening: HardeningReader) -> dict[str, Any]:
    """One target's payload; the hardening is read from the linked kernels, not from the file that repeats it."""
    config = canonical.loads(view.folder.read_blob(payload.files[CONFIG]), strict=True, name=CONFIG)
    platform = payload.descriptor.platform
    return {
        "digest": payload.digest,
        "platform": platform.to_json() if platform else {},
        "size": sum(blob.size for blob in payload.files.values()),
        "files": {title: {"digest": blob.digest, "size": blob.size} for title, blob in sorted(payload.files.items())},
        **{key: config[key] for key in _SHOWN if isinstance(config, dict) and key in config},
        "header": _header(view.folder.read_blob(_require(payload, HEADER))),
        "golden": _bundled_golden(view, payload),
        "hardening": _linked(view, payload, KERNELS, payload.target, hardening),
        "runtime": {title: _linked(view, payload, title, payload.target, hardening) for title in (LIBRARY, PROGRAM)},
    }


def _bundled_golden(view: BundleView, payload: PayloadView) -> dict[str, Any]:
    with as_file(view, _require(payload, GOLDEN), GOLDEN) as path:
        return _golden(path.read_bytes())


def _linked(
    view: BundleView, payload: PayloadView, title: str, name: str, hardening: HardeningReader
) -> dict[str, Any]:
    with as_file(view, _require(payload, title), title) as path:
        return hardening(path, name)


def _require(payload: PayloadView, title: str) -> Descriptor:
    if title not in payload.files:
        raise FarmError(
            Code.PAYLOAD_INVALID,
            f"the payload of {payload.target} has no {title}",
            detail={"file": oci.blob_name(payload.digest)},
        )
    return payload.files[title]


def _attestation(view: BundleView, item: AttestationView) -> dict[str, Any]:
    name = oci.blob_name(item.envelope.digest)
    keyid, statement = dsse.read_unverified(view.folder.read_blob(item.envelope), name)
    return {
        "kind": statement.predicate_type,
        "subject": item.subject,
        "key": keyid,
        "signature": "not checked",
        "file": name,
        "predicate": dict(statement.predicate),
    }


def _file(path: Path, hardening: HardeningReader) -> dict[str, Any]:
    with files.coded(f"{path} cannot be read", path):
        with path.open("rb") as stream:
            start = stream.read(_LARGEST)
        common = {"digest": digest.of_file(path), "size": path.stat().st_size}
    if start.startswith(b"\x7fELF"):
        return {"kind": "linked file", **common, "hardening": hardening(path, "")}
    if start.startswith(b"KFHD"):
        return {"kind": "payload header", **common, "header": _header(start, path.name)}
    if start.startswith(b"KFIX"):
        headers = DeviceIndex.from_bytes(start, path.name).entries
        return {"kind": "device index", **common, "headers": canonical.to_json(headers)}
    if start.startswith(b"KFGV"):
        with files.coded(f"{path} cannot be read", path):
            return {"kind": "golden vectors", **common, "golden": _golden(path.read_bytes(), path.name)}
    if start.startswith(b"{"):
        return {"kind": "JSON document", **common, "content": canonical.loads(start, name=path.name)}
    raise FarmError(
        Code.INSPECT_UNKNOWN,
        f"{path} is of no known kind",
        "it is no bundle, no linked file, no media.hdr, media.idx or golden.bin and no JSON document",
        detail={"file": str(path)},
    )


def _header(data: bytes, name: str = HEADER) -> dict[str, Any]:
    value: dict[str, Any] = canonical.to_json(PayloadHeader.from_bytes(data, name))
    return value


def _golden(data: bytes, name: str = GOLDEN) -> dict[str, Any]:
    found = Golden.from_bytes(data, name)
    return {
        "cases": len(found.cases),
        "inputs": list(found.inputs),
        "outputs": list(found.outputs),
        "seeds": [list(case.seeds) for case in found.cases],
        "tolerance": {"absolute": found.absolute, "relative": found.relative},
    }
