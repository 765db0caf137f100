"""A verification policy: what a bundle must be beyond whole and signed. A TOML file; all but `schema` is optional:

schema = "verify-policy/1"
names = ["cls"]                                  # models whose bundles are accepted
targets = ["x86-64-v3", "x86-64-v4"]             # payloads that must be there
builders = ["urn:kernel-farm:builder:process:1"] # who may have built them
models = ["sha256:..."]                          # model files that may have been compiled
tools = { ziglang = "0.17.0" }                   # versions that must have been used

One policy is built in: `release` accepts what was compiled in a sandbox of the pinned image alone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from kernelfarm import oci
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci_bundle import BundleView
from signing.statement import SEALED, Provenance, builder_id

_SCHEMA = "verify-policy/1"
_LISTS = ("names", "targets", "builders", "models")


@dataclass(frozen=True, slots=True)
class Policy:
    """A parsed policy. An empty list or mapping demands nothing."""

    name: str
    names: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    builders: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = ()

    def require(self, view: BundleView, provenances: Mapping[Digest, Provenance], *, signed: bool) -> str:
        """Raises `FarmError` POLICY_REFUSED at the first demand that the bundle does not meet; returns what was met."""
        if not signed:
            self._refuse("a policy rests on the signatures, and no key was given", "index.json")
        if self.names and view.name not in self.names:
            self._refuse(f"the model {view.name!r} is not among {', '.join(self.names)}", "index.json")
        if missing := sorted(set(self.targets) - {payload.target for payload in view.payloads}):
            self._refuse(f"there is no payload for {', '.join(missing)}", "index.json")
        for payload in view.payloads:
            self._require_provenance(provenances[payload.digest], oci.blob_name(payload.digest))
        return f"every demand of {self.name} is met"

    def _require_provenance(self, made: Provenance, file: str) -> None:
        builder = builder_id(made.security_mode)
        if self.builders and builder not in self.builders:
            self._refuse(f"the builder {builder} is not among those allowed", file)
        if self.models and made.model.digest not in self.models:
            self._refuse(f"the model file {made.model.digest} is not among those allowed", file)
        used = {tool.name: tool.version for tool in made.recipe.tools}
        for name, version in self.tools:
            if used.get(name) != version:
                self._refuse(f"the tool {name} was {used.get(name, 'not used')}, not {version}", file)

    def _refuse(self, why: str, file: str) -> NoReturn:
        what = f"the policy {self.name} refuses the bundle"
        advice = "Take a bundle that meets the policy, or verify it by another --policy if yours asks too much."
        raise FarmError(Code.POLICY_REFUSED, what, why, advice, {"file": file})


RELEASE = Policy("release", builders=tuple(builder_id(mode) for mode in SEALED))
"""What goes to devices was compiled in a sandbox: no payload of the runner `process`."""
BUILT_IN: Mapping[str, Policy] = {RELEASE.name: RELEASE}


def find(name: Path) -> Policy:
    """The built-in policy of this name, else that in the file; raises as `load`."""
    return BUILT_IN.get(str(name)) or load(name)


def load(path: Path) -> Policy:
    """The policy in a file; raises `FarmError` POLICY_INVALID (file missing, not TOML, unknown key, wrong type)."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as reason:
        raise _invalid(path, str(reason)) from reason
    if data.pop("schema", None) != _SCHEMA:
        raise _invalid(path, f'it does not begin with schema = "{_SCHEMA}"')
    tools = data.pop("tools", {})
    if not isinstance(tools, dict) or not all(isinstance(version, str) for version in tools.values()):
        raise _invalid(path, "tools is no table of versions")
    if unknown := sorted(set(data) - set(_LISTS)):
        raise _invalid(path, f"the key {unknown[0]} is unknown")
    lists = {key: _texts(path, data, key) for key in _LISTS}
    return Policy(path.name, **lists, tools=tuple(sorted(tools.items())))


def _texts(path: Path, data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = data.get(key, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise _invalid(path, f"{key} is no list of texts")
    return tuple(found)


def _invalid(path: Path, why: str) -> FarmError:
    return FarmError(
        Code.POLICY_INVALID,
        f"{path} is not a verification policy",
        why,
        "`farm verify --help` shows an example.",
        {"file": str(path)},
    )
