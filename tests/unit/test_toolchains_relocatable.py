"""What is said of an object is a digest of what the linker took of it: other bytes of its file do not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelfarm.links import Input
from toolchains import origins, target, zig
from toolchains.machines import MACHINES

HELPER = """\
int other(void);
int {called}(void);
int helper(void);
int helper(void) {{ return {called}() + {used}; }}
int idle(void);
int idle(void) {{ return other() * {idle}; }}
const char *text(void);
const char *text(void) {{ return "{text}"; }}
"""
MAIN = """\
int helper(void);
const char *text(void);
int other(void);
int another(void);
int other(void) { return 1; }
int another(void) { return 2; }
int first(void);
int first(void) { return helper() + *text(); }
"""


def as_linked(folder: Path, goal: str, **words: object) -> Input:
    """The helper as an input of a link for a target that keeps all of it but `idle`."""
    wanted = target.load(goal)
    folder.mkdir()
    text = HELPER.format(**{"called": "other", "used": 7, "idle": 3, "text": "words", **words})
    for name, source in (("helper", text), ("main", MAIN)):
        (folder / f"{name}.c").write_text(source)
        zig.compile_c(folder / f"{name}.c", folder / f"{name}.o", wanted, extra=("-ffunction-sections",))
    exports = "{ global: first; local: *; };\n"
    flags = ("-shared", "-e", "first", *MACHINES[wanted.machine].link)
    objects = [folder / "helper.o", folder / "main.o"]
    found = origins.document([zig.link(objects, folder / "out.so", flags, version_script=exports)])
    (file,) = found.files
    return next(each for each in file.inputs if each.name == "helper.o")


@pytest.mark.parametrize("goal", target.names())
def test_what_the_linker_left_out_is_not_seen(tmp_path: Path, goal: str) -> None:
    plain = as_linked(tmp_path / "plain", goal)

    assert plain.kept > 0
    assert ".text.helper" in plain.sections
    assert ".text.idle" not in plain.sections
    assert as_linked(tmp_path / "idle", goal, idle="7 * other()") == plain


@pytest.mark.parametrize("goal", ["armv7", "x86-64-v3"])
@pytest.mark.parametrize("words", [{"used": 8}, {"called": "another"}, {"text": "wards"}], ids=["code", "call", "text"])
def test_whatever_was_taken_counts(tmp_path: Path, goal: str, words: dict[str, object]) -> None:
    plain, changed = as_linked(tmp_path / "plain", goal), as_linked(tmp_path / "changed", goal, **words)

    assert changed.digest != plain.digest
    assert (changed.sections, changed.sources) == (plain.sections, plain.sources)
