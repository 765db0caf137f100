"""What a bundle says of how a payload was made, read without a key: for rebuilding, which trusts no word of it."""

from __future__ import annotations

from kernelfarm import oci
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci_bundle import BundleView, PayloadView
from signing import dsse, facts, verify
from signing.statement import PROVENANCE, Provenance


def origin_of(view: BundleView, payload: PayloadView) -> Provenance:
    """The provenance of a payload. It is about these very bytes, but its signature is not checked.

    Raises `FarmError` SIGNATURE_MISSING without one, ATTESTATION_INVALID or SIGNATURE_FOREIGN for one that is no fit.
    """
    found = facts.facts_of(view)
    for item in view.attestations:
        if item.subject != payload.digest:
            continue
        name = oci.blob_name(item.envelope.digest)
        _keyid, statement = dsse.read_unverified(view.folder.read_blob(item.envelope), name)
        if statement.predicate_type == PROVENANCE:
            verify.require_about(statement, found, name)
            return Provenance.from_statement(statement, name)
    raise FarmError(
        Code.SIGNATURE_MISSING,
        f"there is no provenance of the payload of {payload.target}",
        next_step="Build the bundle again.",
        detail={"file": oci.blob_name(payload.digest)},
    )
