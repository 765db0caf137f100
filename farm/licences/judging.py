"""Licences of a bundle that is written: judged, recorded as signed verdicts, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from farm import attest
from farm.licences import gate, materials
from farm.licences.gate import Terms
from farm.origin import origin_of
from kernelfarm import oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci_bundle import BundleView
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from sbom.licence.nouns import Finding, Role, Verdict
from signing import dsse, facts, verify
from signing.client import Signer
from signing.keys import PublicKey
from signing.statement import Statement


@dataclass(frozen=True, slots=True)
class Recorded:
    """The verdicts in a bundle by target, None where a payload has none. `signed`: the signatures were checked."""

    view: BundleView
    signed: bool
    verdicts: Mapping[str, Verdict | None]


def read(root: Path, public: PublicKey | None) -> Recorded:
    """The verdicts that a bundle holds. Without a key nothing says who judged.

    Raises `FarmError` for a bundle with a fault, and for statements that do not verify under the key.
    """
    view = oci_bundle.read(root).require()
    known = gate.verdicts(_statements(view, public))
    return Recorded(view, public is not None, {item.target: known.get(item.digest) for item in view.payloads})


def _statements(view: BundleView, public: PublicKey | None) -> dict[str, Statement]:
    found = {}
    about = facts.facts_of(view)
    for item in view.attestations:
        name = oci.blob_name(item.envelope.digest)
        data = view.folder.read_blob(item.envelope)
        statement = dsse.read_unverified(data, name)[1] if public is None else dsse.open_sealed(data, public, name)
        verify.require_subject(statement, item.subject, name)
        verify.require_about(statement, about, name)
        found[name] = statement
    return found


def judge(recorded: Recorded, terms: Terms, home: Home, store: ContentStore) -> dict[Digest, tuple[Statement, Verdict]]:
    """Judge every payload again, by its digest. A model's licence that the terms do not give stays as recorded."""
    view = recorded.view
    made = {}
    for payload in view.payloads:
        contents = materials.of_bundle(view, payload)
        given = contents.model in terms.licences or "" in terms.licences
        known = terms.licences if given else {**terms.licences, **_licences(recorded.verdicts[payload.target])}
        made_in = origin_of(view, payload).execution.image
        found = gate.verdict(contents, replace(terms, licences=known), home, store, made_in)
        made[payload.digest] = (gate.statement(contents, found), found)
    return made


def record(root: Path, made: Mapping[Digest, tuple[Statement, Verdict]], signer: Signer) -> None:
    """Sign the verdicts into the bundle, in the place of older ones. Raises as `attest.attach`."""
    attest.attach(root, [statement for statement, _ in made.values()], signer)


def _licences(found: Verdict | None) -> dict[str, str]:
    every = () if found is None else found.materials
    return {item.name: item.declared for item in every if item.role is Role.MODEL and item.declared}


def finding(recorded: Recorded, prefix: str) -> Finding:
    """The finding whose key begins with these hex digits. Raises `FarmError` USAGE where none or several do."""
    wanted = prefix.removeprefix("sha256:")
    every = {item.key: item for found in recorded.verdicts.values() if found is not None for item in found.findings}
    fitting = [item for key, item in sorted(every.items()) if key.removeprefix("sha256:").startswith(wanted)]
    if len(fitting) != 1 or not wanted:
        why = f"{len(fitting)} findings of the bundle begin so"
        raise FarmError(Code.USAGE, f"{prefix!r} names no finding", why, "`farm licences BUNDLE` lists them.")
    return fitting[0]
