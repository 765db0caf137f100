"""The filter of system calls: the right numbers, and what it answers, by a small interpreter of its instructions."""

from __future__ import annotations

import errno
import re
import struct
from importlib.util import find_spec
from pathlib import Path

import pytest

from containers import seccomp
from kernelfarm.errors import Code, FarmError

MACHINES = {"x86_64": ("X64", 0xC000003E), "aarch64": ("Arm64", 0xC00000B7)}
ALLOWED, KILLED = "allowed", "killed"


def table(machine: str) -> dict[str, int]:
    """The numbers of a machine as the pinned zig knows them."""
    spec = find_spec("ziglang")
    assert spec is not None
    assert spec.origin is not None
    text = (Path(spec.origin).parent / "lib/std/os/linux/syscalls.zig").read_text()
    part = text.split(f"pub const {MACHINES[machine][0]} = enum", 1)[1].split("};", 1)[0]
    return {name.strip('@"'): int(number) for name, number in re.findall(r"^\s*(\S+) = (\d+),", part, re.MULTILINE)}


def answer(machine: str, number: int, *arguments: int, architecture: int | None = None) -> str:
    """What the filter says to a call: "allowed", "killed" or the error's name."""
    values = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, architecture or MACHINES[machine][1], 0, *values)
    steps = list(struct.iter_unpack("<HBBI", seccomp.program(machine)))
    held, place = 0, 0
    while True:
        code, true, false, value = steps[place]
        place += 1
        if code == 0x20:
            (held,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return {0x7FFF0000: ALLOWED, 0x80000000: KILLED}.get(value) or errno.errorcode[value & 0xFFFF]
        else:
            met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            place += true if met else false


@pytest.mark.parametrize("machine", MACHINES)
def test_every_number_is_that_of_its_name(machine: str) -> None:
    known = table(machine)
    column = list(MACHINES).index(machine)
    for name, numbers in {**seccomp.REFUSED, **seccomp.CHECKED}.items():
        assert known.get(name) == numbers[column], name
    assert max(number for number in known.values() if number <= seccomp.LAST_KNOWN) == known["mseal"]


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_listed_is_not_permitted_and_the_rest_is(machine: str) -> None:
    column = list(MACHINES).index(machine)
    refused = {numbers[column] for numbers in seccomp.REFUSED.values()}
    checked = {numbers[column] for numbers in seccomp.CHECKED.values()}
    for name, number in table(machine).items():
        if number in refused:
            assert answer(machine, number) == "EPERM", name
        elif number > seccomp.LAST_KNOWN:
            assert answer(machine, number) == "ENOSYS", name
        elif number not in checked:
            assert answer(machine, number) == ALLOWED, name


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_depend_on_an_argument(machine: str) -> None:
    known = table(machine)
    fork, thread, new_user = 0x11, 0x3D0F00, 0x10000011
    assert [answer(machine, known["clone"], flags) for flags in (fork, thread, new_user)] == [ALLOWED, ALLOWED, "EPERM"]
    assert answer(machine, known["clone3"]) == "ENOSYS"
    private, of_a_file, shared = 0x22, 0x01, 0x21
    met = [answer(machine, known["mmap"], 0, 4096, 3, flags) for flags in (private, of_a_file, shared, shared | 0x100)]
    assert met == [ALLOWED, ALLOWED, "EPERM", "EPERM"]
    size, keystroke = 0x5413, 0x5412
    assert [answer(machine, known["ioctl"], 0, call) for call in (size, keystroke)] == [ALLOWED, "EPERM"]
    assert [answer(machine, known["personality"], what) for what in (0, 0xFFFFFFFF, 8)] == [ALLOWED, ALLOWED, "EPERM"]


@pytest.mark.parametrize("machine", MACHINES)
def test_an_engine_gets_the_same_list(machine: str) -> None:
    rules = seccomp.profile(machine)["syscalls"]
    column = list(MACHINES).index(machine)
    plain = {name: rule["errnoRet"] for rule in rules if not rule["args"] for name in rule["names"]}
    listed = {name for name, numbers in seccomp.REFUSED.items() if numbers[column] is not None}
    assert plain == {**dict.fromkeys(listed, errno.EPERM), "clone3": errno.ENOSYS}
    known = table(machine)
    for rule in rules:
        for met in rule["args"]:
            value = met["value"] + (met["op"] == "SCMP_CMP_NE")
            arguments = [0] * met["index"] + [value]
            for name in rule["names"]:
                assert answer(machine, known[name], *arguments) == errno.errorcode[rule["errnoRet"]], rule
    conditions = {name for rule in rules if rule["args"] for name in rule["names"]}
    assert conditions == set(seccomp.CHECKED) - {"clone3", "personality"}


def test_calls_of_another_architecture_kill() -> None:
    i386, x32 = 0x40000003, 0x40000000
    assert answer("x86_64", 20, architecture=i386) == KILLED
    assert answer("x86_64", x32 + 1) == KILLED


def test_a_machine_without_tables_has_no_sandbox() -> None:
    with pytest.raises(FarmError) as caught:
        seccomp.program("s390x")
    assert caught.value.code is Code.RUNNER_UNAVAILABLE
