"""A report of checks in the forms that pipelines read: JUnit XML, and SARIF 2.1.0 with what does not hold.

No time and no host is in them: the same checks give the same bytes. Of what the formats leave open, GitHub's code
scanning demands most: a description and help for each rule, a region for each place.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from farm.verify import Check, Report
from kernelfarm import digest, files
from kernelfarm.errors import Code, FarmError, Status

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_TIME = "0"
"""Readers expect seconds; the real ones would differ from run to run."""
_WHOLE = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
"""The start of a file: a check is about the whole of one, and code scanning shows no result without lines."""
_HELP = {
    Status.BAD: "Do not use what the message names; get or build it again.",
    Status.USAGE: "Change the command as the message says.",
    Status.ENVIRONMENT: "The check was not made. Run `farm doctor` on the machine that should make it.",
    Status.REFUSED: "A policy refuses it. The message says what would satisfy the policy.",
}


def write(report: Report, suite: str, *, junit: Path | None, sarif: Path | None) -> None:
    """Write the forms that were asked for. Raises a coded `FarmError` of class ENVIRONMENT."""
    if junit is not None:
        files.atomic_write(junit, to_junit(report, suite))
    if sarif is not None:
        files.atomic_write(sarif, to_sarif(report))


def to_junit(report: Report, suite: str) -> bytes:
    """Each check is a test case: a bad one is a failure, one that could not be made here an error."""
    failures = sum(not check.ok and not check.unmade for check in report.checks)
    errors = sum(check.unmade for check in report.checks)
    counts = {"tests": str(len(report.checks)), "failures": str(failures), "errors": str(errors), "time": _TIME}
    root = ET.Element("testsuites", {"name": suite, **counts})
    group = ET.SubElement(root, "testsuite", {"name": suite, **counts})
    for check in report.checks:
        named = {"classname": suite.replace(" ", "."), "name": _clean(_title(check)), "time": _TIME}
        case = ET.SubElement(group, "testcase", named)
        if check.error is not None:
            kind = "error" if check.unmade else "failure"
            told = {"type": check.error.code.number, "message": _clean(check.error.what)}
            ET.SubElement(case, kind, told).text = _clean(_text(check.error))
        else:
            ET.SubElement(case, "system-out").text = _clean(check.found)
    ET.indent(root)
    made: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return made + b"\n"


def to_sarif(report: Report) -> bytes:
    """Each check that does not hold is a result, its code the rule."""
    bad = [(check, check.error) for check in report.checks if check.error is not None]
    codes = sorted({error.code for _check, error in bad}, key=lambda code: code.number)
    driver = {
        "name": "kernel-farm",
        "version": metadata.version("kernel-farm"),
        "rules": [_rule(code) for code in codes],
    }
    results = [
        {
            "ruleId": error.code.number,
            "ruleIndex": codes.index(error.code),
            "level": "warning" if check.unmade else "error",
            "message": {"text": _clean(f"{_title(check)}: {_text(error)}")},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(check)}, "region": _WHOLE}}],
            "partialFingerprints": {"check/v1": digest.of_bytes(_title(check).encode())},
        }
        for check, error in bad
    ]
    document = {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"


def _rule(code: Code) -> dict[str, Any]:
    whole = f"{code.title} (exit status {int(code.status)})"
    return {
        "id": code.number,
        "name": code.name,
        "shortDescription": {"text": code.title},
        "fullDescription": {"text": whole},
        "help": {"text": _HELP.get(code.status, "See the message.")},
    }


def _title(check: Check) -> str:
    return f"{check.name}: {check.subject}"


def _text(error: FarmError) -> str:
    return ". ".join(part for part in (error.what, error.why, error.next_step) if part)


def _uri(check: Check) -> str:
    """A relative reference: what a URI cannot hold is written as its percent code."""
    return quote(check.subject, safe="/._-") or "."


def _clean(text: str) -> str:
    """Text that XML 1.0 can hold."""
    return "".join(
        char
        if char in "\t\n\r" or 0x20 <= ord(char) < 0xD800 or 0xE000 <= ord(char) < 0xFFFE or ord(char) > 0xFFFF
        else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )
