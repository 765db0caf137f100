"""Which llvm-objdump reads the machines that the pinned one does not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelfarm.errors import Code, FarmError, Status
from toolchains import disasm, emulator

PINNED = f"echo 'Debian LLVM version {disasm.DEBIAN_VERSION}'"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that stands for /usr/bin, with nothing unpacked by `make tools`."""

    def find(program: str, _inside: str = "usr/bin") -> Path | None:
        path = tmp_path / program
        return path if path.is_file() else None

    monkeypatch.setattr(emulator, "find", find)
    disasm.objdump_path.cache_clear()
    yield tmp_path
    disasm.objdump_path.cache_clear()


def program(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("other", ["echo 'LLVM version 14.0.6'", "exit 127"])
def test_the_one_of_version_19_is_found_beside_another(installed: Path, other: str) -> None:
    program(installed / "llvm-objdump", other)
    wanted = program(installed / "llvm-objdump-19", PINNED)

    assert disasm.objdump_path("riscv64") == wanted


def test_the_one_without_a_number_serves_where_it_is_version_19(installed: Path) -> None:
    wanted = program(installed / "llvm-objdump", PINNED)

    assert disasm.objdump_path("riscv64") == wanted


def test_another_version_alone_is_told(installed: Path) -> None:
    program(installed / "llvm-objdump", "echo 'LLVM version 14.0.6'")

    with pytest.raises(FarmError) as caught:
        disasm.objdump_path("riscv64")

    assert (caught.value.code, caught.value.status) == (Code.TOOL_CHANGED, Status.ENVIRONMENT)
    assert caught.value.why == "it says 'LLVM version 14.0.6'"


@pytest.mark.usefixtures("installed")
def test_none_at_all_says_how_to_get_it() -> None:
    with pytest.raises(FarmError) as caught:
        disasm.objdump_path("riscv64")

    assert (caught.value.code, caught.value.next_step) == (Code.TOOL_MISSING, "Run `make tools`.")
