"""Bills of materials as CycloneDX 1.6 JSON; the only module that talks to cyclonedx-python-lib.

The library spells what it knows; `sbom.extras` adds what it does not know (it would drop that when reading, so that
nothing is ever read back through it). What the library would make up itself, a time and a random number, is taken out.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentScope, ComponentType, Pedigree
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.license import License, LicenseAcknowledgement
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from sbom import iri
from sbom.parts import Bill, Hashes, Part

if TYPE_CHECKING:
    from cyclonedx.validation.json import JsonStrictValidator

VERSION = SchemaVersion.V1_6


def spell(bill: Bill) -> dict[str, Any]:
    """The document without serial number and time, every list in a fixed order."""
    root, parts = _component(bill.root), [_component(part) for part in bill.parts]
    known = {part.ref: BomRef(part.ref) for part in bill.every()}
    needs: dict[str, set[str]] = {ref: set() for ref in known}
    for first, second in bill.needs:
        needs[first].add(second)
    bom = Bom(
        components=parts,
        metadata=BomMetaData(
            component=root,
            tools=ToolRepository(components=[_component(part) for part in bill.makers]),
            lifecycles=[PredefinedLifecycle(LifecyclePhase.BUILD)],
        ),
        dependencies=[
            Dependency(known[ref], [Dependency(known[other]) for other in sorted(others)])
            for ref, others in sorted(needs.items())
        ],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parts that the root does not reach: tools
        text = make_outputter(bom, OutputFormat.JSON, VERSION).output_as_string()
    document: dict[str, Any] = json.loads(text)
    del document["serialNumber"], document["metadata"]["timestamp"]
    ordered: dict[str, Any] = _ordered(document)
    return ordered


def faults(document: str, most: int = 5) -> list[str]:
    """What the strict schema of CycloneDX 1.6 has against a document; empty for a valid one. Only the first ones."""
    found = _validator().validate_str(document, all_errors=True)
    texts = [str(getattr(error.data, "message", error))[:300] for error in found or ()]
    return texts[:most]


@cache
def _validator() -> JsonStrictValidator:
    with iri.checked_when_met():
        from cyclonedx.validation.json import JsonStrictValidator  # much to import: only who validates pays for it

    return JsonStrictValidator(VERSION)  # it reads its schema once


def _component(part: Part) -> Component:
    return Component(
        bom_ref=part.ref,
        type=ComponentType(part.kind.value),
        name=part.name,
        version=part.version or None,
        purl=PackageURL.from_string(part.purl) if part.purl else None,
        hashes=_hashes(part.hashes),
        licenses=_licences(part.licence),
        supplier=OrganizationalEntity(name=part.supplier) if part.supplier else None,
        description=part.description or None,
        mime_type=part.mime_type or None,
        scope=ComponentScope.REQUIRED if part.used else ComponentScope.EXCLUDED,
        properties=[Property(name=name, value=value) for name, value in part.properties],
        components=[_component(inner) for inner in part.parts],
        pedigree=Pedigree(ancestors=map(_component, part.ancestors)) if part.ancestors else None,
    )


def _hashes(hashes: Hashes | None) -> list[HashType]:
    if hashes is None:
        return []
    pairs = ((HashAlgorithm.SHA_256, hashes.sha256), (HashAlgorithm.SHA_512, hashes.sha512))
    return [HashType(alg=algorithm, content=value) for algorithm, value in pairs if value]


def _licences(expression: str) -> Sequence[License]:
    if not expression:
        return []
    return [LicenseFactory().make_from_string(expression, license_acknowledgement=LicenseAcknowledgement.DECLARED)]


def _ordered(value: Any) -> Any:
    """The value with every list sorted: none that the farm writes through the library means anything by its order."""
    if isinstance(value, dict):
        return {key: _ordered(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_ordered, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value
