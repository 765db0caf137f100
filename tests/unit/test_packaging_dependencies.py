"""What the product imports it declares: a package that only another one needs may go with that one's next version."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("containers", "farm", "kernelc", "kernelfarm", "sbom", "signing", "toolchains")
APART = ("sbom/licence/_scancode.py",)
"""Runs in ScanCode's own environment, which requirements/scan.in declares."""


def imported(text: str) -> set[str]:
    """Top-level names of the modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {item.name.partition(".")[0] for item in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


def undeclared(found: set[str], declared: set[str]) -> set[str]:
    """Names of modules that belong neither to Python, nor to us, nor to a declared distribution."""
    foreign = found - set(sys.stdlib_module_names) - set(ROOMS)
    return {name for name in foreign if not _owners(name) & declared}


def _owners(module: str) -> set[str]:
    return {canonicalize_name(item) for item in _installed().get(module, [])}


@cache
def _installed() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def test_a_module_of_no_declared_distribution_is_found() -> None:
    text = "import os.path\nfrom farm import x\nfrom urllib3.connection import y\nimport click, numpy as np"

    assert imported(text) == {"os", "farm", "urllib3", "click", "numpy"}
    assert undeclared(imported(text), {"click", "requests"}) == {"urllib3", "numpy"}


def test_every_distribution_that_the_product_imports_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    names = {path.relative_to(ROOT).as_posix(): imported(path.read_text(encoding="utf-8")) for path in paths}

    missing = {name: undeclared(found, declared) for name, found in names.items() if name not in APART}

    assert len(names) > 300
    assert {name: found for name, found in missing.items() if found} == {}
