"""The recorded answers to which files of zig's library are in an object are those that zig gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelfarm.errors import Code, FarmError
from toolchains import runtime_build, zig_sources
from toolchains.machines import MACHINES

CRYPTO = runtime_build.source_root() / "src" / "crypto.zig"


@pytest.mark.slow
def test_the_table_is_what_zig_says_now() -> None:
    assert zig_sources.TABLE.read_text(encoding="utf-8") == zig_sources.measured(runtime_build.compiled_zig())


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_the_hash_comes_from_the_standard_library(machine: str) -> None:
    found = zig_sources.of(CRYPTO, machine)
    assert found[0] == CRYPTO
    assert zig_sources.library() / "std/crypto/sha2.zig" in found
    assert all(path.is_file() for path in found)


def test_a_source_that_is_not_the_recorded_one_is_asked_about(tmp_path: Path) -> None:
    other = tmp_path / "crypto.zig"
    other.write_text(
        'const std = @import("std");\nexport fn f(x: u32) u32 {\n    return std.math.log2_int(u32, x);\n}\n'
    )
    found = zig_sources.of(other, "x86-64")
    assert found[0] == other
    assert zig_sources.library() / "std/crypto/sha2.zig" not in found


def test_a_source_that_imports_a_file_of_its_own_is_refused(tmp_path: Path) -> None:
    """The record of it would not see that file change."""
    (tmp_path / "own.zig").write_text("pub fn twice(x: u32) u32 {\n    return x *% 2 +% @clz(x);\n}\n")
    main = tmp_path / "main.zig"
    main.write_text('const own = @import("own.zig");\nexport fn f(x: u32) u32 {\n    return own.twice(x);\n}\n')
    with pytest.raises(FarmError) as caught:
        zig_sources.of(main, "x86-64")
    assert caught.value.code is Code.TOOL_FAILED
    assert "own.zig" in caught.value.why


@pytest.mark.parametrize("machine", sorted(name for name, machine in MACHINES.items() if machine.helpers))
def test_of_the_compilers_helpers_only_files_with_kept_code_are_listed(machine: str) -> None:
    """The table has both answers: of all helpers, which tests link, and of those that the runtime calls."""
    source = zig_sources.library() / "compiler_rt.zig"
    answers = json.loads(zig_sources.TABLE.read_text(encoding="utf-8"))["sources"][source.name]["machines"][machine]

    kept = [frozenset(answer["kept"]) for answer in answers if answer["kept"]]

    assert len(kept) == 1
    found, everything = zig_sources.of(source, machine, kept[0]), zig_sources.of(source, machine)
    assert set(found) < set(everything)
    assert source in found
    assert 2 <= len(found) <= 5 < 50 < len(everything)
