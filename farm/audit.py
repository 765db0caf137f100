"""What is in bundles and payloads, as their bills of materials say: of one bundle, or who holds a component or licence.

A bill is held against the payload that carries it before a word of it is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packageurl import PackageURL

from farm import payload_check, subject
from farm.ledger.ledger import Ledger
from farm.origin import origin_of
from farm.payload import SBOM
from kernelfarm import canonical, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Payload
from kernelfarm.oci_bundle import BundleView, PayloadView
from kernelfarm.store import ContentStore
from sbom import image
from sbom import read as sbom
from sbom.read import Component, Sbom


@dataclass(frozen=True, slots=True)
class Described:
    """A payload and its bill. `place` is the folder of its bundle, empty for one that the farm keeps."""

    place: str
    model: str
    version: str | None
    target: str
    payload: Digest
    bill: Sbom


@dataclass(frozen=True, slots=True)
class Nameless:
    """A payload without a bill, which an older farm made; `place` as in `Described`."""

    place: str
    model: str
    target: str
    payload: Digest


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for: a component that a purl names, or a licence or exception by its SPDX name; or both."""

    component: PackageURL | None = None
    licence: str = ""

    def fits(self, found: Component) -> bool:
        """Whether a component is what is looked for."""
        return (self.component is None or sbom.matches(found, self.component)) and (
            not self.licence or self.licence.lower() in sbom.licence_names(found.licence)
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A component that was found; `why` are refs from the payload to it, none for what only helped to make it."""

    where: Described
    component: Component
    why: tuple[str, ...]

    @property
    def how(self) -> str:
        """The way to it in words; what is not in the product was used to make it, or lies in the recipe's image."""
        if self.component.used:
            return " > ".join(self.why[1:])
        return "in the image" if self.component.inside == image.REF else "helped to make it"

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        where = self.where
        return {
            "place": where.place,
            "model": where.model,
            "version": where.version,
            "target": where.target,
            "payload": where.payload,
            "component": self.component.to_json(),
            "why": list(self.why),
        }


def audit(root: Path) -> dict[str, Any]:
    """What a bundle holds, by target, as JSON, schema "audit/1". Its signatures are not checked: `farm verify` does.

    Raises `FarmError` BUNDLE_* for a damaged bundle, SBOM_INVALID and PAYLOAD_INCONSISTENT for a bill that is none of
    its payload.
    """
    view = oci_bundle.read(root).require()
    described = {each.target: each for each in of_bundle(root, view)}
    return {
        "schema": "audit/1",
        "name": view.name,
        "version": view.version,
        "digest": view.digest,
        "signatures": "not checked",
        "targets": {payload.target: _target(view, payload, described[payload.target]) for payload in view.payloads},
    }


def of_bundle(root: Path, view: BundleView, without: list[Nameless] | None = None) -> Iterator[Described]:
    """The payloads of a bundle with their bills, each checked against its payload.

    One that an older farm made has none: it is added to `without`, or raises PAYLOAD_INVALID where that is None.
    """
    for payload in view.payloads:
        if SBOM not in payload.files:
            if without is None:
                raise FarmError(
                    Code.PAYLOAD_INVALID,
                    f"the payload of {payload.target} has no bill of materials",
                    "an older farm made it",
                    "Build the bundle again.",
                    {"file": SBOM},
                )
            without.append(Nameless(str(root), view.name, payload.target, payload.digest))
            continue
        payload_check.require_sbom(view, payload)
        bill = sbom.read(view.folder.read_blob(payload.files[SBOM]))
        yield Described(str(root), view.name, view.version, payload.target, payload.digest, bill)


def of_folders(roots: Sequence[Path], without: list[Nameless]) -> Iterator[Described]:
    """The payloads of bundles: each path is one, or a folder that holds some. Those that have no bill are added to
    `without`: nobody can say what they hold. Raises FILE_MISSING, BUNDLE_INVALID.
    """
    for root in roots:
        bundles = [root] if subject.is_bundle(root) else _inside(root)
        for bundle in bundles:
            yield from of_bundle(bundle, oci_bundle.read(bundle).require(), without)


def of_farm(ledger: Ledger, store: ContentStore, without: list[Nameless]) -> Iterator[Described]:
    """The payloads that a farm keeps in its cache, each once. Those without a bill are added to `without`."""
    seen: set[Digest] = set()
    for _key, _action, text in ledger.history.needed():
        if text is None:
            continue
        payload = canonical.decode(Payload, text.encode(), name="a payload in the ledger")
        file = next((file for file in payload.files if file.name == SBOM), None)
        if payload.digest in seen:
            continue
        if file is None:
            seen.add(payload.digest)
            without.append(Nameless("", payload.model_name, payload.target_name, payload.digest))
            continue
        if not store.has(file.digest):
            continue  # no longer kept
        seen.add(payload.digest)
        bill = sbom.read(store.get_bytes(file.digest), f"{SBOM} of {payload.digest}")
        yield Described("", payload.model_name, None, payload.target_name, payload.digest, bill)


def find(payloads: Iterable[Described], wanted: Wanted) -> tuple[int, list[Hit]]:
    """How many payloads were looked through, and what was found in them, in order."""
    count, hits = 0, []
    for described in payloads:
        count += 1
        for component in described.bill.components:
            if wanted.fits(component):
                hits.append(Hit(described, component, tuple(described.bill.why(component.ref))))
    hits.sort(key=lambda hit: (hit.where.model, hit.where.target, hit.where.place, hit.component.ref))
    return count, hits


def _inside(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if subject.is_bundle(path)) if folder.is_dir() else []
    if not found:
        raise FarmError(
            Code.BUNDLE_INVALID,
            f"{folder} is not a bundle",
            "it holds none either",
            "Give bundles, or a folder that holds some, as `farm build --out` leaves it.",
            {"file": str(folder)},
        )
    return found


def _target(view: BundleView, payload: PayloadView, described: Described) -> dict[str, Any]:
    components = described.bill.components
    made = origin_of(view, payload)
    unknown = [found.ref for found in components if not found.licence and _has_publisher(found)]
    return {
        "payload": payload.digest,
        "sbom": {"digest": payload.files[SBOM].digest, "serial": described.bill.serial},
        "model": {
            "name": made.model.name,
            "digest": made.model.digest,
            "before_scrubbing": made.model.before,
            "external": {item.name: item.digest for item in made.model.external},
        },
        "licences": _licences(components),
        "without_licence": unknown,
        "components": [found.to_json() for found in components],
    }


def _licences(components: Iterable[Component]) -> dict[str, list[str]]:
    """The refs of the components that declare each licence expression."""
    found: dict[str, list[str]] = {}
    for component in components:
        if component.licence:
            found.setdefault(component.licence, []).append(component.ref)
    return dict(sorted(found.items()))


def _has_publisher(component: Component) -> bool:
    """Whether somebody could have declared a licence: objects and our own documents have none of their own."""
    return component.ref.startswith(("group/", "tool/", "deb/", "wheel/", "model")) and component.kind not in (
        "file",
        "data",
    )
