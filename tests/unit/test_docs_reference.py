"""The reference pages say what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", ["errors.md", "operators.md"])
def test_the_page_is_what_the_code_generates(name: str) -> None:
    page = runpy.run_path(str(REFERENCE / "generate.py"))["PAGES"][name]()
    assert (REFERENCE / name).read_text(encoding="utf-8") == page, "run: python docs/reference/generate.py"
