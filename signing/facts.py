"""What a bundle is, read from its bytes: the digests and names that a statement about it must agree with."""

from __future__ import annotations

from dataclasses import dataclass

from kernelfarm import canonical, digest, oci
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci_bundle import CONFIG, BundleView, PayloadView
from signing.statement import BundleSignature, Statement, Subject


@dataclass(frozen=True, slots=True)
class PayloadFacts:
    """What a payload is: its digest and what its config says that it was compiled from and for."""

    target: str
    digest: Digest
    model_name: str
    model_digest: Digest
    target_digest: Digest


@dataclass(frozen=True, slots=True)
class BundleFacts:
    """What a bundle is, by digests that the caller computed from the bytes."""

    digest: Digest
    name: str
    version: str | None
    payloads: tuple[PayloadFacts, ...]

    def signature(self) -> Statement:
        """The one statement that a signature of this bundle may make."""
        payloads = tuple(Subject(item.target, item.digest) for item in self.payloads)
        return BundleSignature(self.name, self.version, payloads).statement(self.digest)


def facts_of(view: BundleView) -> BundleFacts:
    """The facts of a bundle whose layout has no fault; raises `FarmError` (with the file) for a config that is none."""
    payloads = tuple(_payload_facts(view, payload) for payload in view.require().payloads)
    return BundleFacts(view.digest, view.name, view.version, payloads)


def _payload_facts(view: BundleView, payload: PayloadView) -> PayloadFacts:
    blob = payload.files[CONFIG]
    name = oci.blob_name(blob.digest)
    config = canonical.loads(view.folder.read_blob(blob), strict=True, name=name)
    try:
        model, target = config["model"], config["target"]
        facts = PayloadFacts(
            str(target["name"]),
            payload.digest,
            str(model["name"]),
            digest.parse(model["digest"]),
            digest.parse(target["digest"]),
        )
    except (KeyError, TypeError, FarmError) as reason:
        raise _inconsistent(name, f"{CONFIG} of {payload.target} does not name its model and target") from reason
    if facts.target != payload.target:
        raise _inconsistent(name, f"{CONFIG} is for {facts.target}, the index lists it for {payload.target}")
    return facts


def _inconsistent(name: str, why: str) -> FarmError:
    return FarmError(Code.PAYLOAD_INCONSISTENT, f"{name} contradicts the bundle", why, detail={"file": name})
