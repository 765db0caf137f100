"""Whether a bill of materials says of how its payload was made what the payload's provenance says.

Both are signed by one key, and still may be at odds. Compared are facts, not the words of a bill: one that another
version of the farm wrote is read the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packageurl import PackageURL

from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import recipe_key
from sbom import declared
from sbom.parts import PREFIX, SHORT
from sbom.payload import MODEL_REF, tool_ref
from sbom.read import Component, Sbom
from signing.statement import Provenance

_Claim = tuple[str, str, str]
"""What is spoken of, what the bill says of it, what the provenance says; empty for nothing."""
_NOTHING = Component("", "", "", "", "", "", "", None, False, "")
_TOOL, _GROUP, _DATA = tool_ref(""), "group/", f"{MODEL_REF}/"
_OWN_GROUPS = ("group/runtime/", "group/generated/")
_MAKER = "maker/kernel-farm"


def require_made_so(bill: Sbom, made: Provenance, name: str) -> int:
    """How many facts the bill has from its provenance; raises `FarmError` PAYLOAD_INCONSISTENT where one differs.

    `name` is the bill's file.
    """
    count = 0
    for what, said, given in _claims(bill, made):
        if said != given:
            why = f"of {what} it says {said or 'nothing'}, its provenance says {given or 'nothing'}"
            raise FarmError(Code.PAYLOAD_INCONSISTENT, f"{name} does not fit its payload", why, detail={"file": name})
        count += 1
    return count


def _claims(bill: Sbom, made: Provenance) -> Iterator[_Claim]:
    recipe = made.recipe
    root_facts = {
        "abi-version": str(recipe.abi_version),
        "ir-version": recipe.ir_version,
        "recipe-key": recipe_key(recipe),
        "target": made.target_name,
        "target-digest": recipe.target_digest,
    }
    rules = recipe.options.rules
    parameters = {name: value for name, value in root_facts.items() if name != "recipe-key"} | {
        "compiler-source": recipe.compiler_source,
        "runtime-source": recipe.runtime_source,
        **({} if rules is None else {"fusion-rules": rules.digest}),
        **{f"shape:{name}": "x".join(map(str, dims)) for name, dims in recipe.options.shapes},
    }
    yield from _root(bill.components[0], made, root_facts)
    yield from _properties(bill, root_facts | parameters)
    yield from _model(bill, made)
    yield from _tools(bill, made)
    yield from _sources(bill, made)
    yield from _workflow(bill, made, parameters)


def _root(root: Component, made: Provenance, facts: Mapping[str, str]) -> Iterator[_Claim]:
    for name, value in facts.items():
        yield f"the payload's {name}", root.properties.get(PREFIX + name, ""), value
    version = digest.hex_of(recipe_key(made.recipe))[:SHORT]
    yield "the payload's name", root.name, f"{made.model.name}/{made.target_name}"
    yield from _version("the payload", root, version)
    yield "the name in the payload's purl", _purl(root).name, made.model.name
    yield "the target in the payload's purl", _qualifier(root, "target"), made.target_name


def _properties(bill: Sbom, facts: Mapping[str, str]) -> Iterator[_Claim]:
    """The same facts, wherever else the bill repeats one of them."""
    for name, value in bill.properties:
        short = name.removeprefix(PREFIX)
        if name != short and short in facts:
            yield f"the property {name}", value, facts[short]


def _model(bill: Sbom, made: Provenance) -> Iterator[_Claim]:
    model, said = made.model, bill.by_ref().get(MODEL_REF, _NOTHING)
    yield "the model's name", said.name, model.name
    yield "the model's hash", said.sha256, digest.hex_of(model.digest)
    yield "the model's version", said.version, digest.hex_of(model.digest)[:SHORT]
    yield "the name in the model's purl", _purl(said).name, model.name
    yield "the checksum in the model's purl", _qualifier(said, "checksum"), model.digest
    before = () if model.before is None else (digest.hex_of(model.before),)
    yield "the model before scrubbing", " ".join(item.sha256 or "no hash" for item in said.ancestors), " ".join(before)
    for item, value in zip(said.ancestors, before, strict=True):
        yield "the name of the model before scrubbing", item.name, model.name
        yield "the version of the model before scrubbing", item.version, value[:SHORT]
    listed = {item.ref: item for item in bill.components if item.ref.startswith(_DATA)}
    external = {f"{_DATA}{item.name}": item for item in model.external}
    yield "the model's data", " ".join(sorted(listed)), " ".join(sorted(external))
    for ref, file in external.items():
        yield f"the name of {ref}", listed[ref].name, file.name
        yield f"the hash of {ref}", listed[ref].sha256, digest.hex_of(file.digest)


def _tools(bill: Sbom, made: Provenance) -> Iterator[_Claim]:
    listed = {item.ref: item for item in bill.components if item.ref.startswith(_TOOL)}
    known = {tool_ref(tool.name): tool for tool in made.recipe.tools}
    yield "its tools", " ".join(sorted(listed)), " ".join(sorted(known))
    for ref, tool in known.items():
        said = listed[ref]
        yield f"the name of {ref}", said.name, tool.name
        yield f"the name in the purl of {ref}", _purl(said).name, declared.normalised(tool.name)
        yield from _version(ref, said, tool.version)
        yield f"the installed files of {ref}", said.properties.get(f"{PREFIX}installed-files", ""), tool.digest


def _sources(bill: Sbom, made: Provenance) -> Iterator[_Claim]:
    """What compiled, and the groups of sources: our own, and those that come with a tool of the recipe."""
    maker = next((item for item in bill.makers if item.ref == _MAKER), _NOTHING)
    yield from _version("its farm", maker, digest.hex_of(made.recipe.compiler_source)[:SHORT])
    versions = {declared.normalised(tool.name): tool.version for tool in made.recipe.tools}
    for item in bill.components:
        if item.ref in _OWN_GROUPS:
            yield from _version(item.ref, item, digest.hex_of(made.recipe.runtime_source)[:SHORT])
        elif item.ref.startswith(_GROUP):
            purl = _purl(item)
            yield from _version(item.ref, item, versions.get(purl.name, "") if purl.type == "pypi" else "")


def _workflow(bill: Sbom, made: Provenance, parameters: Mapping[str, str]) -> Iterator[_Claim]:
    yield "the number of workflows", str(len(bill.workflows)), "1"
    (flow,) = bill.workflows
    yield "the workflow's uid", flow.uid, recipe_key(made.recipe)
    used = sorted(ref for ref in flow.resources if ref.startswith(_TOOL))
    yield (
        "the tools of the workflow",
        " ".join(used),
        " ".join(sorted(tool_ref(tool.name) for tool in made.recipe.tools)),
    )
    for name in sorted({*flow.parameters, *parameters}):
        yield f"the parameter {name} of the workflow", flow.parameters.get(name, ""), parameters.get(name, "")


def _version(what: str, said: Component, given: str) -> Iterator[_Claim]:
    yield f"the version of {what}", said.version, given
    yield f"the version in the purl of {what}", _purl(said).version or "", given


def _purl(component: Component) -> PackageURL:
    return PackageURL.from_string(component.purl or "pkg:generic/nothing")


def _qualifier(component: Component, name: str) -> str:
    return str(dict(_purl(component).qualifiers or {}).get(name, ""))
