"""The runtime's C programs: small functions, the C99 interface, checked calls, the address checks that watch them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support import device


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return device.write(tmp_path / "bundle", device.tiny())


def test_small_functions_hold_their_promises() -> None:
    answer = device.run(device.program("units"))

    assert (answer.returncode, answer.stdout) == (0, "")


def test_small_functions_hold_with_address_checks() -> None:
    answer = device.run(device.checked_program("units"))

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_a_strict_c99_program_uses_the_interface_and_null_arguments_give_codes(bundle: Path) -> None:
    answer = device.run(device.program("capi", "-std=c99"), bundle)

    assert answer.returncode == 0, f"check at line {answer.returncode} (modulo 256) of capi.c failed"


def test_the_same_program_is_clean_under_address_checks(bundle: Path) -> None:
    answer = device.run(device.checked_program("capi", "-std=c99"), bundle)

    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("fault", ["heap", "before", "stack", "copy", "released"])
def test_the_address_checks_see_a_planted_fault(fault: str) -> None:
    answer = device.run(device.checked_program("planted"), fault)

    assert answer.returncode in (-signal.SIGILL, -signal.SIGTRAP, -signal.SIGSEGV)


def test_the_address_checks_pass_a_program_without_fault() -> None:
    assert device.run(device.checked_program("planted"), "clean").returncode == 0


def test_a_call_of_the_right_type_runs() -> None:
    answer = device.run(device.program("bad_call"), "good")

    assert (answer.returncode, answer.stdout) == (0, "ran\n")


@pytest.mark.parametrize("mode", ["other-type", "returns", "small-integers", "middle", "data"])
def test_a_call_of_another_type_dies_before_the_callee_runs(mode: str) -> None:
    answer = device.run(device.program("bad_call"), mode)

    assert (answer.returncode, answer.stdout) == (-signal.SIGILL, "")


@pytest.mark.parametrize("mode", ["forged", "null"])
def test_a_call_into_memory_that_is_no_code_dies(mode: str) -> None:
    answer = device.run(device.program("bad_call"), mode)

    assert (answer.returncode, answer.stdout) == (-signal.SIGSEGV, "")


def test_the_static_program_shows_its_shells_status_132() -> None:
    program = device.program("bad_call")

    answer = device.run(Path("/bin/sh"), "-c", f"'{program}' other-type; echo $?")

    assert answer.stdout.splitlines()[-1] == "132"
