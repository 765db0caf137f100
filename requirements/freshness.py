"""Are the hash locks fresh?  `python requirements/freshness.py [--write]`; exit 1 and the reason if not.

Offline on purpose: each lock file begins with the digest of pyproject.toml's dependency tables as they were when it was
resolved; every direct dependency must be pinned inside its range, and every pin must carry a SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {"requirements/run.txt": (), "requirements/dev.txt": ("dev",)}
SEPARATE = {
    f"requirements/{name}.txt": f"requirements/{name}.in"
    for name in ("scan", "peers/export", "peers/iree", "peers/onnxruntime", "peers/openvino", "peers/tvm")
}
"""Environments of their own (`separate.py`): their requirements lie in files, not in pyproject.toml."""
MARK = "# dependency tables: sha256:"


def wanted(extras: tuple[str, ...]) -> list[str]:
    """Direct requirements of pyproject.toml for these extras, sorted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return sorted(lines)


def inputs_digest(extras: tuple[str, ...]) -> str:
    """SHA-256 of the direct requirements."""
    return hashlib.sha256(json.dumps(wanted(extras)).encode()).hexdigest()


def problems(name: str, extras: tuple[str, ...]) -> list[str]:
    """Why this lock is stale, as sentences; empty when it is fresh."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = []
    if not text.startswith(MARK + inputs_digest(extras)):
        found.append("pyproject.toml's dependencies changed since it was resolved")
    return found + pin_problems(text, wanted(extras))


def separate_wanted(name: str) -> list[str]:
    """Direct requirements of the environment with this lock, sorted."""
    lines = (ROOT / SEPARATE[name]).read_text(encoding="utf-8").splitlines()
    return sorted(line for line in lines if line and not line.startswith("#"))


def separate_problems(name: str) -> list[str]:
    """As `problems`, of an environment of its own."""
    text, direct = (ROOT / name).read_text(encoding="utf-8"), separate_wanted(name)
    stale = [] if text.startswith(mark_of(direct)) else [f"{SEPARATE[name]} changed since it was resolved"]
    return stale + pin_problems(text, direct)


def mark_of(requirements: list[str]) -> str:
    """The first line of a lock of these requirements."""
    return MARK + hashlib.sha256(json.dumps(requirements).encode()).hexdigest()


def pin_problems(text: str, requirements: list[str]) -> list[str]:
    """Pins without a hash or outside their range, and registries that a lock names."""
    found = []
    logical = re.sub(r"\\\n", " ", text).splitlines()
    pins = {}
    for line in logical:
        match = re.match(r"([A-Za-z0-9._-]+)==(\S+)", line)
        if match:
            pins[canonicalize_name(match[1])] = match[2]
            if "--hash=sha256:" not in line:
                found.append(f"{match[1]} has no hash")
    for requirement in map(Requirement, requirements):
        pin = pins.get(canonicalize_name(requirement.name))
        if pin is None or not requirement.specifier.contains(pin):
            found.append(f"{requirement} is pinned as {pin}")
    if re.search(r"https?://|--(extra-)?index-url|--find-links", text):
        found.append("it names a registry")
    return found


def write() -> None:
    """Resolve again with pip-compile and put the digest on top."""
    for name, extras in LOCKS.items():
        constraint = ["--constraint=requirements/run.txt"] if extras else []
        resolve(name, "pyproject.toml", mark_of(wanted(extras)), [f"--extra={extra}" for extra in extras] + constraint)
    for name, source in SEPARATE.items():
        resolve(name, source, mark_of(separate_wanted(name)), [])


def resolve(name: str, source: str, mark: str, options: list[str]) -> None:
    """Make one lock anew; what it pins already stays where it fits."""
    subprocess.run(
        [sys.executable, "-m", "piptools", "compile", "--quiet", "--generate-hashes", "--allow-unsafe",
         "--strip-extras", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host",
         "--no-header", "--no-annotate", *options, f"--output-file={name}", source],
        cwd=ROOT, check=True,
    )  # fmt: skip
    path = ROOT / name
    body = path.read_text(encoding="utf-8")
    body = body[body.index("\n") + 1 :] if body.startswith(MARK) else body
    path.write_text(f"{mark}\n{body}", encoding="utf-8")


def main() -> int:
    """Check (default) or write."""
    if sys.argv[1:] == ["--write"]:
        write()
    bad = 0
    checked = [(name, problem) for name, extras in LOCKS.items() for problem in problems(name, extras)]
    checked += [(name, problem) for name in SEPARATE for problem in separate_problems(name)]
    for name, problem in checked:
        print(f"{name}: {problem}. Run: make lock")
        bad = 1
    if not bad:
        print("locks are fresh")
    return bad


if __name__ == "__main__":
    sys.exit(main())
