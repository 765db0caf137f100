"""What CycloneDX 1.6 has and cyclonedx-python-lib does not: model card, formulation, compositions. Added as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sbom import image
from sbom.making import Making
from sbom.parts import PREFIX
from sbom.payload import MODEL_REF, Contents, file_ref, tool_ref


def add(document: dict[str, Any], contents: Contents, making: Making) -> None:
    """Add them to the document of a payload."""
    for component in document["components"]:
        if component["bom-ref"] == MODEL_REF:
            component["modelCard"] = _card(contents.config)
    document["formulation"] = [_formula(contents, making)]
    document["compositions"] = _compositions(document, contents)


def _card(config: Mapping[str, Any]) -> dict[str, Any]:
    tensors = {
        name: [{"format": f"{_text(item, 'dtype')} {_shape(item)} {_text(item, 'name')}"} for item in config[name]]
        for name in ("inputs", "outputs")
    }
    return {"bom-ref": "model-card", "modelParameters": tensors}


def _formula(contents: Contents, making: Making) -> dict[str, Any]:
    """One workflow, the compile: its steps are the compiler's stages, its digests those that `config.json` has too."""
    stages = [stage for stage in contents.config.get("stages", ()) if isinstance(stage, dict)]
    rules = making.recipe.options.rules
    parameters = {
        "abi-version": str(making.recipe.abi_version),
        "compiler-source": making.recipe.compiler_source,
        "ir-version": making.recipe.ir_version,
        "runtime-source": making.recipe.runtime_source,
        "target": making.target_name,
        "target-digest": making.recipe.target_digest,
        **({} if rules is None else {"fusion-rules": rules.digest}),
        **{f"shape:{name}": "x".join(map(str, dims)) for name, dims in making.recipe.options.shapes},
    }
    workflow = {
        "bom-ref": "workflow/compile",
        "uid": making.recipe_key,
        "name": "compile",
        "taskTypes": ["build"],
        "resourceReferences": [*({"ref": tool_ref(tool.name)} for tool in making.recipe.tools), {"ref": image.REF}],
        "inputs": [
            {"resource": {"ref": MODEL_REF}},
            {"parameters": [{"name": name, "value": value} for name, value in sorted(parameters.items())]},
        ],
        "outputs": [{"type": "artifact", "resource": {"ref": file_ref(name)}} for name in sorted(contents.hashes)],
        "steps": [{"name": _text(stage, "name")} for stage in stages],
        "properties": [
            {"name": f"{PREFIX}stage:{number:03}:{_text(stage, 'name')}", "value": _text(stage, "digest")}
            for number, stage in enumerate(stages)
        ],
    }
    return {"bom-ref": "formula/compile", "workflows": [workflow]}


def _compositions(document: Mapping[str, Any], contents: Contents) -> list[dict[str, Any]]:
    """How complete the lists are: the linker says everything that it linked; of a library's sources, only those used.

    The model is one part, and what it was trained on is not known. The image holds stand-ins of ours, too.
    """
    linked = [file_ref(file.name) for file in contents.links.files]
    groups = sorted(part["bom-ref"] for part in document["components"] if part["bom-ref"].startswith("group/"))
    return [
        {"aggregate": "complete", "assemblies": ["payload"], "dependencies": ["payload", *sorted(linked)]},
        *([{"aggregate": "incomplete", "assemblies": groups}] if groups else []),
        {"aggregate": "incomplete_third_party_only", "assemblies": [image.REF]},
        {"aggregate": "unknown", "dependencies": [MODEL_REF]},
    ]


def _text(item: Any, name: str) -> str:
    return str(item.get(name, "")) if isinstance(item, dict) else ""


def _shape(item: Any) -> str:
    shape = item.get("shape", []) if isinstance(item, dict) else []
    return "x".join(map(str, shape)) if isinstance(shape, list) else ""
