"""Reads bills of materials of payloads: what is in them, whether they fit the payload, and who holds a component.

Nothing is read back through cyclonedx-python-lib, which would drop what it does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packageurl import PackageURL

from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.links import Links
from sbom import cyclonedx
from sbom.document import serial_of
from sbom.licence import expression
from sbom.parts import Hashes
from sbom.payload import MODEL_REF, NAME, file_ref, object_ref


@dataclass(frozen=True, slots=True)
class Component:
    """A component as it is written; empty where the bill says nothing. `inside` is the ref of the one that holds it.

    `ancestors` are those of its pedigree.
    """

    ref: str
    kind: str
    name: str
    version: str
    purl: str
    licence: str
    supplier: str
    hashes: Hashes | None
    used: bool
    inside: str
    ancestors: tuple[Component, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, for reports."""
        fields = ("ref", "kind", "name", "version", "purl", "licence", "supplier", "inside")
        shown: dict[str, Any] = {name: getattr(self, name) for name in fields if getattr(self, name)}
        shown["used"] = self.used
        if self.ancestors:
            shown["made_from"] = [item.sha256 for item in self.ancestors]
        return {**shown, "sha256": self.sha256} if self.sha256 else shown

    @property
    def sha256(self) -> str:
        """Its SHA-256 in hex; empty where the bill gives none."""
        return "" if self.hashes is None else self.hashes.sha256


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow of the formulation: its identifier, its parameters, the refs of what it used."""

    uid: str
    parameters: Mapping[str, str]
    resources: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sbom:
    """A bill as it is written: its components, the root first, what needs what, what made the bill, how it was made.

    `properties` are all that it has anywhere, as (name, value).
    """

    serial: str
    components: tuple[Component, ...]
    needs: Mapping[str, tuple[str, ...]]
    makers: tuple[Component, ...] = ()
    workflows: tuple[Workflow, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()

    def by_ref(self) -> dict[str, Component]:
        """The components by their refs."""
        return {component.ref: component for component in self.components}

    def why(self, ref: str) -> list[str]:
        """A shortest chain of refs from the payload to a component; empty when nothing needs it, as with tools."""
        groups = {component.ref: component.inside for component in self.components}
        paths: dict[str, list[str]] = {self.components[0].ref: [self.components[0].ref]}
        waiting = [self.components[0].ref]
        while waiting:
            here = waiting.pop(0)
            if here == ref or groups.get(here) == ref:
                return paths[here] if here == ref else [*paths[here][:-1], ref]
            for other in self.needs.get(here, ()):
                if other not in paths:
                    paths[other] = [*paths[here], other]
                    waiting.append(other)
        return []


def read(data: bytes, name: str = NAME) -> Sbom:
    """The bill in a file called `name`.

    Raises `FarmError` SBOM_INVALID unless it is canonical, valid by the strict schema, has the serial number of its
    content, package URLs that are some, no ref twice, and in no one place a property, parameter or kind of hash twice,
    of which readers may take either.
    """
    try:
        document = canonical.loads(data, strict=True, name=name)
    except FarmError as reason:
        raise _invalid(name, reason.why or reason.what) from reason
    if faults := cyclonedx.faults(data.decode()):
        raise _invalid(name, f"the schema of CycloneDX 1.6 says: {faults[0]}")
    if document["specVersion"] != "1.6":
        raise _invalid(name, f"it is of version {document['specVersion']}")
    if document.get("serialNumber") != serial_of(document):
        raise _invalid(name, "its serial number does not follow from its content")
    properties = tuple(_named(document, name))
    metadata = document.get("metadata", {})
    root = metadata.get("component")
    if root is None:
        raise _invalid(name, "it says nothing about what it describes")
    components = tuple(_flat([root, *document.get("components", [])], "", name))
    refs = [component.ref for component in components]
    if "" in refs or len(set(refs)) != len(refs):
        raise _invalid(name, "a component has no ref, or that of another")
    edges = document.get("dependencies", [])
    _require_once([item["ref"] for item in edges], "dependencies", name)
    needs = {item["ref"]: tuple(item.get("dependsOn", ())) for item in edges}
    if unknown := sorted(({*needs, *(ref for others in needs.values() for ref in others)}) - set(refs)):
        raise _invalid(name, f"it says what {unknown[0]} needs, which it does not list")
    tools = metadata.get("tools", {})  # before 1.5 a list, which says no refs
    makers = tuple(_flat(tools.get("components", []) if isinstance(tools, dict) else [], "", name))
    flows = [flow for formula in document.get("formulation", []) for flow in formula.get("workflows", [])]
    workflows = tuple(_workflow(flow, name) for flow in flows)
    return Sbom(document["serialNumber"], components, needs, makers, workflows, properties)


def require_fits(
    found: Sbom,
    hashes: Mapping[str, Hashes],
    linked: Links,
    model: str,
    name: str = NAME,
) -> None:
    """Raise `FarmError` PAYLOAD_INCONSISTENT unless the bill lists exactly these files, objects and sources.

    `hashes` are those of the payload's files, read again; `model` the digest that its configuration gives.
    """
    own = found.by_ref()
    objects = {object_ref(item): "" for file in linked.files for item in file.inputs}
    sources = {f"source/{source.name}": digest.hex_of(source.digest) for source in linked.sources}
    _require_same(own, "file/", {file_ref(file): value.sha256 for file, value in hashes.items()}, name)
    _require_same(own, "object/", objects, name)
    _require_same(own, "source/", sources, name)
    for file, value in sorted(hashes.items()):
        if own[file_ref(file)].hashes != value:
            raise _unfit(name, f"it has another SHA-512 of {file}")
    _require_same(own, MODEL_REF, {MODEL_REF: digest.hex_of(digest.parse(model))}, name, whole=True)
    for file_found in linked.files:
        needed = set(found.needs.get(file_ref(file_found.name), ()))
        if lacking := sorted({object_ref(item) for item in file_found.inputs} - needed):
            raise _unfit(name, f"it does not say that {file_found.name} holds {lacking[0]}")


def matches(component: Component, wanted: PackageURL) -> bool:
    """Whether a component is what a purl names: what the purl leaves out may be anything."""
    if not component.purl:
        return False
    own = PackageURL.from_string(component.purl)
    qualifiers = dict(wanted.qualifiers or {})
    return (
        (own.type, own.namespace, own.name) == (wanted.type, wanted.namespace, wanted.name)
        and wanted.version in (None, own.version)
        and wanted.subpath in (None, own.subpath)
        and all(dict(own.qualifiers or {}).get(key) == value for key, value in qualifiers.items())
    )


def parse_purl(text: str) -> PackageURL:
    """The purl that a user gives; raises `FarmError` USAGE."""
    try:
        return PackageURL.from_string(text)
    except ValueError as reason:
        advice = "Write it like pkg:pypi/ziglang or pkg:pypi/ziglang@0.17.0."
        raise FarmError(Code.USAGE, f"{text!r} is not a package URL", str(reason), advice) from reason


def licence_names(text: str) -> frozenset[str]:
    """What a licence expression may be found by, in lower case: its licences, with their exceptions and without.

    The whole text where it is no expression.
    """
    try:
        found = expression.licences(text) if text else ()
    except FarmError:
        return frozenset({text.lower()})
    return frozenset(name.lower() for item in found for name in (item, *item.split(" WITH ")))


def _flat(components: Iterable[Mapping[str, Any]], inside: str, name: str) -> Iterator[Component]:
    for item in components:
        ref = item.get("bom-ref", "")
        purl = item.get("purl", "")
        try:
            PackageURL.from_string(purl or "pkg:generic/none")
        except ValueError as reason:
            raise _invalid(name, f"{purl!r} is not a package URL") from reason
        yield Component(
            ref,
            item["type"],
            item["name"],
            item.get("version", ""),
            purl,
            _licence(item.get("licenses", [])),
            item.get("supplier", {}).get("name", ""),
            _hashes(item),
            item.get("scope") != "excluded",
            inside,
            tuple(_flat(item.get("pedigree", {}).get("ancestors", []), ref, name)),
            {entry["name"]: entry.get("value", "") for entry in item.get("properties", [])},
        )
        yield from _flat(item.get("components", []), ref, name)


def _workflow(item: Mapping[str, Any], name: str) -> Workflow:
    given = [each for entry in item.get("inputs", []) for each in entry.get("parameters", [])]
    _require_once([each.get("name", "") for each in given], f"inputs of {item['uid']}", name)
    return Workflow(
        item["uid"],
        {each.get("name", ""): each.get("value", "") for each in given},
        frozenset(each.get("ref", "") for each in item.get("resourceReferences", [])),
    )


_KEYS = {"hashes": "alg", "parameters": "name", "properties": "name"}
"""Lists of a bill in which nothing may be named twice, and what names it."""


def _named(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """All properties in a part of the bill; raises `FarmError` SBOM_INVALID where something is named twice."""
    items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    for key, label in _KEYS.items() if isinstance(value, dict) else ():
        where = f"{key} of {value.get('bom-ref', 'one place')}"
        _require_once([entry.get(label, "") for entry in value.get(key, [])], where, name)
    if isinstance(value, dict):
        yield from ((entry["name"], entry.get("value", "")) for entry in value.get("properties", []))
    for item in items:
        yield from _named(item, name)


def _require_once(names: Sequence[str], where: str, name: str) -> None:
    if twice := sorted(text for text, count in Counter(names).items() if count > 1):
        raise _invalid(name, f"it has {twice[0]} twice in the {where}")


def _hashes(item: Mapping[str, Any]) -> Hashes | None:
    found = {entry["alg"]: entry["content"] for entry in item.get("hashes", [])}
    return Hashes(found["SHA-256"], found.get("SHA-512", "")) if "SHA-256" in found else None


def _licence(entries: Iterable[Mapping[str, Any]]) -> str:
    """All licences of a component as one expression."""
    texts = [entry.get("expression") or entry["license"].get("id") or entry["license"]["name"] for entry in entries]
    return " AND ".join(f"({text})" if " OR " in text and len(texts) > 1 else text for text in texts)


def _require_same(
    own: Mapping[str, Component], prefix: str, wanted: Mapping[str, str], name: str, *, whole: bool = False
) -> None:
    listed = {
        ref: component.sha256 for ref, component in own.items() if (ref == prefix if whole else ref.startswith(prefix))
    }
    for ref in sorted(set(listed) | set(wanted)):
        if ref not in wanted:
            raise _unfit(name, f"it lists {ref}, which the payload does not have")
        if ref not in listed:
            raise _unfit(name, f"it does not list {ref}")
        if listed[ref] != wanted[ref]:
            raise _unfit(name, f"it gives {ref} the hash {listed[ref] or 'none'}, it is {wanted[ref]}")


def _invalid(name: str, why: str) -> FarmError:
    return FarmError(Code.SBOM_INVALID, f"{name} is not the bill of materials of a payload", why, detail={"file": name})


def _unfit(name: str, why: str) -> FarmError:
    what = f"{name} does not fit its payload"
    return FarmError(Code.PAYLOAD_INCONSISTENT, what, why, detail={"file": name})
