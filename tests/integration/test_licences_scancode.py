"""The real ScanCode over planted files, over our own sources, which is kept for other tests, and over a huge file."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import FarmError
from sbom import notice
from sbom.licence import policy, scan
from sbom.licence.judge import judge
from sbom.licence.nouns import Decision, Finding, Material, Outcome, Piece, Role, Scan
from sbom.licence.scan import Results, Tools
from tests.support import release_sequence
from toolchains import runtime_build, target, zig

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]

GPL = (
    "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public "
    "License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any "
    "later version."
)
PLANTED: Mapping[str, str] = {
    "plain.c": "int kf_plain(void) { return 1; }\n",
    "gpl.c": f"/* {GPL} */\n",
    "spdx.c": "/* SPDX-License-Identifier: GPL-2.0-only */\n",
    "gcc.c": "/* SPDX-License-Identifier: GPL-3.0-or-later WITH GCC-exception-3.1 */\n",
    "llvm.c": "/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */\n",
    "ref.c": "/* SPDX-License-Identifier: LicenseRef-Acme-Internal */\n",
    "macro.c": '#define LICENSE_GPL2 1\nMODULE_LICENSE("GPL2");\n',
}


@pytest.fixture(scope="module")
def tools() -> Tools:
    try:
        return scan.installed()
    except FarmError as reason:
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("planted")
    for name, text in PLANTED.items():
        (folder / name).write_text(text)
    (folder / "string.c").write_text(f'const char *kf_string(void) {{ return "{GPL}"; }}\n')
    zig.compile_c(folder / "string.c", folder / "string.o", target.load("x86-64-v3"))
    (folder / "string.c").unlink()
    (folder / "huge.txt").write_text(huge())
    found = {path.name: path for path in folder.iterdir() if path.suffix in (".c", ".o", ".txt")}
    own = [path for path in runtime_build.source_root().rglob("*") if path.suffix in (".c", ".h", ".zig", ".def")]
    return found | {f"runtime/{path.name}": path for path in own if path.parent.name != "tests"}


def spoilt(text: str) -> str:
    """A licence's text with wrong words, so that it takes approximate matching to find it."""
    draw = random.Random(3)
    return "\n".join(
        " ".join(f"w{draw.randrange(5000)}" if draw.random() < 0.04 else word for word in line.split())
        for line in text.splitlines()
    )


def test_the_short_cut_finds_what_scancode_finds_by_itself(
    tools: Tools, files: dict[str, Path], tmp_path: Path
) -> None:
    # Given files of all kinds, among them licences that no rule has word by word
    licences = [tmp_path / text.name for text in sorted(notice.TEXTS.iterdir())]
    for path in licences:
        path.write_text(spoilt((notice.TEXTS / path.name).read_text(encoding="utf-8")))
    chosen = [*(files[name] for name in (*PLANTED, "string.o", "runtime/bytes.c", "runtime/crypto.zig")), *licences]
    paths = {digest.of_file(path): path for path in chosen}
    plain = replace(tools, argv=(*tools.argv[:2], str(scan.FOLDER / "bin" / "scancode")))
    assert plain.argv != tools.argv

    short = scan.scan(paths, tools, Results(tmp_path / "short", tools.identity), tmp_path)
    whole = scan.scan(paths, plain, Results(tmp_path / "whole", tools.identity), tmp_path)

    assert short == whole
    assert {found.outcome for found in short.values()} == {Outcome.DONE}
    assert all(any(match.score < 100 for match in short[digest.of_file(path)].matches) for path in licences)


def huge() -> str:
    """Megabytes of a licence's words with errors: what its approximate matching has most to do with."""
    draw = random.Random(2)
    words = (notice.TEXTS / "Apache-2.0.txt").read_text(encoding="utf-8").split()
    spoilt = (f"w{draw.randrange(5000)}" if draw.random() < 0.08 else words[n % len(words)] for n in range(600_000))
    return "".join(word + ("\n" if n % 12 == 11 else " ") for n, word in enumerate(spoilt))


@pytest.fixture(scope="module")
def scanned(tools: Tools, files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Digest, Scan]:
    scratch = tmp_path_factory.mktemp("scan")
    kept = Results(scratch / "kept", tools.identity)
    paths = {digest.of_file(path): path for path in files.values()}
    huge_one = {digest.of_file(files["huge.txt"]): files["huge.txt"]}
    late = scan.scan(huge_one, tools.with_time(1), kept, scratch)  # alone: a busy machine may be late with any file
    own = {digest.of_file(path): path for name, path in files.items() if name.startswith("runtime/")}
    shared = Results(release_sequence.SCANS, tools.identity)  # farms of other tests scan the same sources
    planted = {content: path for content, path in paths.items() if content not in late | own}
    return late | scan.scan(planted, tools, kept, scratch) | scan.scan(own, tools, shared, scratch)


def verdict_of(name: str, files: dict[str, Path], scanned: Mapping[Digest, Scan]) -> Finding | None:
    path = files[name]
    piece = Piece(name, digest.of_file(path), path.stat().st_size)
    material = Material("runtime", "", "", Role.LINKED, "Apache-2.0", "LICENSE", (piece,))
    found = judge([material], scanned, policy.own()).findings
    return found[0] if found else None


@pytest.mark.parametrize("name", ["plain.c", "gcc.c", "llvm.c"])
def test_files_that_the_policy_allows(name: str, files: dict[str, Path], scanned: dict[Digest, Scan]) -> None:
    assert verdict_of(name, files, scanned) is None


@pytest.mark.parametrize(
    ("name", "expression", "decision", "rule"),
    [
        ("gpl.c", "GPL-3.0-or-later", Decision.DENY, 'linked.deny "GPL-*"'),
        ("string.o", "GPL-3.0-or-later", Decision.DENY, 'linked.deny "GPL-*"'),
        ("spdx.c", "GPL-2.0-only", Decision.DENY, 'linked.deny "GPL-*"'),
        ("macro.c", "GPL-2.0-only", Decision.DENY, 'linked.deny "GPL-*"'),
        ("ref.c", "LicenseRef-scancode-unknown-spdx", Decision.REVIEW, policy.UNLISTED),
    ],
)
def test_planted_files_are_found(
    name: str, expression: str, decision: Decision, rule: str, files: dict[str, Path], scanned: dict[Digest, Scan]
) -> None:
    found = verdict_of(name, files, scanned)
    assert found is not None
    assert (found.file, found.decision, found.rule) == (name, decision, rule)
    assert expression in found.expression


def test_a_huge_file_times_out_and_wants_a_review(files: dict[str, Path], scanned: dict[Digest, Scan]) -> None:
    found = verdict_of("huge.txt", files, scanned)
    assert found is not None
    assert (found.file, found.decision, found.rule) == ("huge.txt", Decision.REVIEW, "timeout")
    assert found.reason.startswith("its scan did not come to an end: ")
    assert "--timeout" in found.remedy


def test_every_source_of_the_runtime_is_allowed(files: dict[str, Path], scanned: dict[Digest, Scan]) -> None:
    own = [name for name in files if name.startswith("runtime/")]
    assert len(own) > 40
    assert {name: verdict_of(name, files, scanned) for name in own} == dict.fromkeys(own)
