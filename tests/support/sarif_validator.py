"""An independent validator of SARIF: Microsoft's, with the schema of the standard and GitHub's demands as rules."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.support import npm_tools

_PACKAGE = "node_modules/@microsoft/sarif-multitool-linux"
_RULES = "Sarif;Ghas"
"""Those of the standard, and those of GitHub's code scanning."""


def installed() -> Path:
    """The folder of the validator; see `npm_tools.installed`. Its install script, which is not run, is one chmod."""
    folder = npm_tools.installed("sarif-validator") / _PACKAGE
    (folder / "Sarif.Multitool").chmod(0o755)
    return folder


def schema(folder: Path) -> Any:
    """The JSON schema of SARIF 2.1.0 that the validator in `folder` carries."""
    return json.loads((folder / "sarif-2.1.0.json").read_text(encoding="utf-8-sig"))


def complaints(folder: Path, path: Path) -> set[tuple[str, str]]:
    """(level, rule) of everything that the validator in `folder` has against a file; empty for a good one."""
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch) / "found.sarif"
        words = [str(folder / "Sarif.Multitool"), "validate", str(path), "--rule-kind", _RULES, "--output", str(found)]
        environment = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "HOME": scratch}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert "Done. 1 files scanned." in done.stdout, done.stdout + done.stderr
        (run,) = json.loads(found.read_text(encoding="utf-8-sig"))["runs"]
    notes = [note for one in run["invocations"] for note in one.get("toolConfigurationNotifications", [])]
    results = {(item.get("level", "warning"), item["ruleId"]) for item in run["results"]}
    return results | {(note.get("level", "warning"), note["descriptor"]["id"]) for note in notes}
