"""Writes a bundle: payload folders in, a signed OCI image layout out, all or nothing.

with signing.client.open_signer(paths.home()) as signer:
    write_bundle(out / name, name=name, version="1.2.0", payloads=[...], signer=signer)
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from farm import publish, staging
from farm.payload import HEADER, PayloadFolder, device_index, payload_digest, read_folder
from farm.release import versions
from kernelfarm import digest, files, layout, nouns, oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci import Descriptor, Index, Platform
from signing import dsse, facts, verify
from signing.client import Signer
from signing.comparison import COMPARISON
from signing.statement import PROVENANCE, Provenance, Statement
from toolchains import target

__all__ = ["PayloadInput", "WrittenBundle", "payload_digest", "require_version", "write_bundle"]

_ARCHITECTURES = {"x86-64": "amd64", "aarch64": "arm64", "armv7": "arm", "riscv64": "riscv64", "hexagon": "hexagon"}
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class PayloadInput:
    """One target's payload: a folder of exactly its files, how it was made, and the verdict of the licence gate."""

    target: str
    directory: Path
    provenance: Provenance
    licences: Statement | None = None


@dataclass(frozen=True, slots=True)
class WrittenBundle:
    """`digest` is the image index's; `payloads` holds (target's name, payload's digest), sorted.

    `reused`: the folder already held this very bundle, made in the same way and signed by the same key; it stayed as
    it was. `licences` is what the licence gate says of all payloads together, in a few words.
    """

    path: Path
    digest: Digest
    payloads: tuple[tuple[str, Digest], ...]
    reused: bool
    licences: str = ""


@dataclass(slots=True)
class _Plan:
    """The blobs of a bundle, in memory or on disk, before they are written."""

    index: Descriptor
    payloads: dict[str, Descriptor]
    device_index: bytes
    documents: dict[Digest, bytes] = field(default_factory=dict)
    sources: dict[Digest, Path] = field(default_factory=dict)


def write_bundle(
    out_dir: Path, *, name: str, version: str | None, payloads: Sequence[PayloadInput], signer: Signer
) -> WrittenBundle:
    """Write the bundle `out_dir`, replacing an older bundle there only when the new one is complete and verified.

    It is staged beside `out_dir`, signed through `signer`, read again as a verifier does, then renamed. Raises
    `FarmError` PAYLOAD_INVALID for a folder that is no payload, VERSION_INVALID, OUTPUT_FOREIGN when something else
    lies at `out_dir`, class ENVIRONMENT for a full disk or a place that cannot be written, SIGNER_* when the signer
    refuses. After any error `out_dir` is as it was and no temporary folder stays behind; what a crash leaves is swept
    by the next call.
    """
    nouns.require_file_name(name)
    require_version(version)
    plan = _plan(name, version, payloads)
    with files.coded("the bundle's folder could not be made", out_dir.parent):
        out_dir.parent.mkdir(parents=True, exist_ok=True)
    files.sweep(out_dir.parent)
    publish.recover(out_dir)
    require_replaceable(out_dir)
    reused = _holds(out_dir, plan, payloads, signer)
    if not reused:
        _write(out_dir, plan, payloads, signer)
    made = tuple((item, plan.payloads[item].digest) for item in sorted(plan.payloads))
    return WrittenBundle(out_dir, plan.index.digest, made, reused)


def require_version(version: str | None) -> None:
    """Raise `FarmError` VERSION_INVALID for a text that is no semantic version."""
    if version is not None:
        versions.parse(version)


def _plan(name: str, version: str | None, payloads: Sequence[PayloadInput]) -> _Plan:
    ordered = sorted(payloads, key=lambda item: item.target)
    if not ordered or len({item.target for item in ordered}) != len(ordered):
        raise FarmError(Code.PAYLOAD_INVALID, "a bundle has one payload per target, and at least one")
    documents: dict[Digest, bytes] = {}
    sources: dict[Digest, Path] = {}
    entries: dict[str, Descriptor] = {}
    headers: list[Descriptor] = []
    for item in ordered:
        folder = read_folder(item.directory)
        entry = _entry(item.target, folder)
        documents[entry.digest] = folder.manifest.encode()
        sources |= {blob.digest: folder.paths[title] for title, blob in folder.blobs.items()}
        entries[item.target] = entry
        headers.append(folder.blobs[HEADER])
    annotations = ((oci.TITLE, name), *(((oci.VERSION, version),) if version is not None else ()))
    index = Index(tuple(entries.values()), oci.BUNDLE, annotations).encode()
    described = oci.describe(index, oci.INDEX)
    documents[described.digest] = index
    return _Plan(described, entries, device_index(headers), documents, sources)


def _entry(name: str, folder: PayloadFolder) -> Descriptor:
    """How the image index lists a payload."""
    return oci.describe(
        folder.manifest.encode(),
        oci.MANIFEST,
        artifact_type=oci.PAYLOAD,
        platform=platform_of(name),
        annotations=((oci.TARGET, name),),
    )


def platform_of(name: str) -> Platform:
    """The OCI platform of a target: GOARCH, and for x86-64 the level of its instruction set as variant."""
    found = target.load(name)
    level = re.fullmatch(r"x86-64-(v[234])", found.cpu.name)
    variant = level[1] if level else "v7" if found.machine == "armv7" else ""
    return Platform(_ARCHITECTURES[found.machine], "linux", variant)


def require_replaceable(out_dir: Path) -> None:
    """Only a bundle, whole or damaged, or an empty folder is ever replaced: never a folder or file of the user's own.

    Another tool's OCI layout has the same names but `media.idx`, and no index that speaks of our kinds of things.
    """
    with files.coded("the output folder cannot be read", out_dir):
        if not out_dir.exists() and not out_dir.is_symlink():
            return
        names = {path.name for path in out_dir.iterdir()} if out_dir.is_dir() and not out_dir.is_symlink() else {"?"}
        ours = {layout.LAYOUT, layout.DEVICE_INDEX} <= names or _speaks_of_bundles(out_dir / layout.INDEX)
        strays = layout.strays(out_dir) if ours else []
    if names and not ours:
        what, why = f"{out_dir} exists and is not a bundle", "it would have to be replaced"
        advice = "Choose another --out, or move it away."
    elif strays:
        what, why = f"{out_dir} holds a file that is none of a bundle's", f"{strays[0]} would be removed with it"
        advice = "Move that file away, then run the command again."
    else:
        return
    raise FarmError(Code.OUTPUT_FOREIGN, what, why, advice, {"file": str(out_dir), "strays": strays[:100]})


def _speaks_of_bundles(index: Path) -> bool:
    """Whether an index.json, even a damaged one, is one of ours: it names the kind of thing that it lists."""
    if not index.is_file():
        return False
    with index.open("rb") as stream:
        return oci.BUNDLE.encode() in stream.read(layout.Limits().document)


def _holds(out_dir: Path, plan: _Plan, payloads: Sequence[PayloadInput], signer: Signer) -> bool:
    """Whether the folder holds this bundle already, with the statements that would be signed now, times aside."""
    if not (out_dir / layout.LAYOUT).exists():
        return False
    try:
        view = oci_bundle.read(out_dir).require()
        if view.digest != plan.index.digest or view.folder.read(layout.DEVICE_INDEX) != plan.device_index:
            return False
        statements = [
            dsse.open_sealed(view.folder.read_blob(item.envelope), signer.public) for item in view.attestations
        ]
        wanted = _statements(facts.facts_of(view), plan, payloads)
        made = [item for item in statements if item.predicate_type != COMPARISON]  # rebuilds came later and may stay
        return sorted(map(_timeless, made)) == sorted(map(_timeless, wanted))
    except FarmError:  # damaged, or another's: it is written anew
        return False


def _timeless(statement: Statement) -> bytes:
    """The statement without the facts of one run."""
    if statement.predicate_type == PROVENANCE:
        made = Provenance.from_statement(statement, "")
        made = dataclasses.replace(made, invocation_id="", started_on="", finished_on="", host={})
        statement = made.statement(statement.subjects[0].digest)
    return statement.encode()


def _write(out_dir: Path, plan: _Plan, payloads: Sequence[PayloadInput], signer: Signer) -> None:
    with files.coded("the bundle could not be written", out_dir), files.temp_folder(out_dir.parent) as staged:
        blobs = staged / layout.BLOB_FOLDER
        blobs.mkdir(parents=True)
        for data in plan.documents.values():
            staging.put(staged, data)
        for expected, source in plan.sources.items():
            _copy(blobs, expected, source)
        (staged / layout.LAYOUT).write_bytes(oci.LAYOUT_BYTES)
        (staged / layout.DEVICE_INDEX).write_bytes(plan.device_index)
        staging.write_top(staged, plan.index, ())
        wanted = _statements(facts.facts_of(oci_bundle.read(staged)), plan, payloads)
        sealed = signer.sign(staged, wanted)
        subjects = (plan.index, *plan.payloads.values())
        staging.write_top(staged, plan.index, staging.put_statements(staged, subjects, wanted, sealed))
        require_trusted(staged, signer)
        publish.publish(staged, out_dir)


def _statements(found: facts.BundleFacts, plan: _Plan, payloads: Sequence[PayloadInput]) -> list[Statement]:
    """What has to be signed: the provenance of each payload, the verdicts on their licences, then the bundle."""
    provenances = [
        item.provenance.statement(plan.payloads[item.target].digest)
        for item in sorted(payloads, key=lambda item: item.target)
    ]
    verdicts = [item.licences for item in sorted(payloads, key=lambda item: item.target) if item.licences is not None]
    return [*provenances, *verdicts, found.signature()]


def require_trusted(staged: Path, signer: Signer) -> None:
    """Read what was written as a verifier does; a fault here is one of the disk or of the farm."""
    view = oci_bundle.read(staged).require()
    found = facts.facts_of(view)
    statements = {}
    for item in view.attestations:
        name = oci.blob_name(item.envelope.digest)
        statements[name] = dsse.open_sealed(view.folder.read_blob(item.envelope), signer.public, name)
        verify.require_subject(statements[name], item.subject, name)
        verify.require_about(statements[name], found, name)
    verify.require_complete(statements, found)


def _copy(blobs: Path, expected: Digest, source: Path) -> None:
    state = hashlib.sha256()
    with source.open("rb") as reader, (blobs / digest.hex_of(expected)).open("wb") as writer:
        while chunk := reader.read(_CHUNK):
            state.update(chunk)
            writer.write(chunk)
    if digest.PREFIX + state.hexdigest() != expected:
        raise FarmError(
            Code.PAYLOAD_INVALID,
            f"{source.name} changed while it was copied",
            next_step="Build again.",
            detail={"file": source.name},
        )
