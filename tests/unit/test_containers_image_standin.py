"""Stand-ins for libraries that are linked and never called."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from containers.image import standin
from containers.image.pins import StandIn
from containers.image.unpack import Root
from kernelfarm.errors import Code, FarmError
from toolchains import elf, zig

NAMES = {"CURL_4": frozenset({"curl_easy_init", "curl_free"}), "": frozenset({"plain"})}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libcurl.so.4"
    path.write_bytes(standin.make("libcurl.so.4", NAMES, zig.zig_path()))
    return path


@pytest.fixture
def program(tmp_path: Path, library: Path) -> bytes:
    """A shared object that is linked with the stand-in and asks for two of its names and one of nobody's."""
    source = tmp_path / "user.s"
    source.write_text(".globl use\nuse: call curl_easy_init@PLT\ncall plain@PLT\ncall stranger@PLT\nret\n")
    run = [str(zig.zig_path())]
    subprocess.run(
        [*run, "clang", "-target", "x86_64-linux-gnu", "-c", source.name, "-o", "user.o"], cwd=tmp_path, check=True
    )
    subprocess.run([*run, "ld.lld", "-shared", "user.o", library.name, "-o", "user.so"], cwd=tmp_path, check=True)
    return (tmp_path / "user.so").read_bytes()


def test_the_names_that_a_program_asks_for_are_read_with_their_versions(program: bytes) -> None:
    assert elf.imports(program, "libcurl.so.4") == [("", "plain"), ("", "stranger"), ("CURL_4", "curl_easy_init")]
    assert elf.imports(program, "libother.so.1") == []


def test_a_name_without_a_version_is_taken_by_its_beginning(program: bytes) -> None:
    found = standin.wanted(StandIn("libcurl.so.4", ("pla",)), [program, b"not a program"])

    assert found == {"CURL_4": frozenset({"curl_easy_init"}), "": frozenset({"plain"})}


def test_it_is_the_same_bytes_each_time(library: Path) -> None:
    backwards = dict(reversed(NAMES.items()))

    assert standin.make("libcurl.so.4", backwards, zig.zig_path()) == library.read_bytes()


@pytest.mark.parametrize("name", ["curl_free", "plain"])
def test_a_call_of_any_name_ends_the_process(library: Path, name: str) -> None:
    program = f"import ctypes; ctypes.CDLL({str(library)!r}).{name}(); print('went on')"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)

    assert done.returncode == -signal.SIGILL
    assert done.stdout == b""


def test_one_that_nothing_is_linked_with_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as refusal:
        standin.add(Root(tmp_path), [StandIn("libcurl.so.4", ())])

    assert refusal.value.code is Code.PINS_INVALID
    assert refusal.value.what == "nothing is linked with libcurl.so.4"
