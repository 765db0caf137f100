"""What a bundle is, read from its bytes: the digests and names that a statement about it must agree with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelfarm import canonical, digest, oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import ToolIdentity
from kernelfarm.oci_bundle import CONFIG, BundleView, PayloadView
from signing.statement import BundleSignature, Statement, Subject


@dataclass(frozen=True, slots=True)
class PayloadFacts:
    """What a payload is: its digest and what its config says that it was compiled from, for and with."""

    target: str
    digest: Digest
    model_name: str
    model_digest: Digest
    target_digest: Digest
    ir_version: str
    abi_version: int
    tools: tuple[ToolIdentity, ...]


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
    for payload, found in zip(view.payloads, payloads, strict=True):
        if (found.model_name, found.model_digest) != (view.name, payloads[0].model_digest):
            name = oci.blob_name(payload.files[CONFIG].digest)
            raise _inconsistent(name, f"the payload of {found.target} is of another model than the bundle, {view.name}")
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
            str(config["ir_version"]),
            int(config["abi_version"]),
            tuple(_tool(key, value) for key, value in sorted(config["tools"].items())),
        )
    except (KeyError, TypeError, AttributeError, ValueError, FarmError) as reason:
        raise _inconsistent(name, f"{CONFIG} of {payload.target} does not name its model, target and tools") from reason
    if facts.target != payload.target:
        raise _inconsistent(name, f"{CONFIG} is for {facts.target}, the index lists it for {payload.target}")
    return facts


def _tool(name: str, entry: Mapping[str, Any]) -> ToolIdentity:
    return ToolIdentity(name, str(entry["version"]), digest.parse(entry["digest"]))


def _inconsistent(name: str, why: str) -> FarmError:
    what = f"{name} contradicts the bundle"
    return FarmError(Code.PAYLOAD_INCONSISTENT, what, why, oci_bundle.AGAIN, {"file": name})
