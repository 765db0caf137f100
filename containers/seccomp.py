"""The system calls that no compile makes, as a filter for the kernel; both sandboxes load it on top of their own walls.

A classic BPF program over `struct seccomp_data` (Linux, Documentation/userspace-api/seccomp_filter.rst): another
architecture's calls kill the process, calls that are newer than this list do not exist, those listed are not permitted,
and new namespaces, sockets, and keystrokes for a terminal are not permitted either. Nor is memory that belongs to no
process (shared memory without a file, what waits in sockets and queues): a sandbox without control groups bounds what
its processes show, and theirs would not show it.

Docker gets the same list as a profile in place of its own, which would not let `_inside.py` fix addresses
(personality(2)); the filter that is loaded after that permits no personality either.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelfarm.errors import Code, FarmError

LAST_KNOWN = 462
"""mseal, Linux 6.10; what came later is answered as by a kernel without it. The same number on all architectures."""

REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_kernel_syms": (177, None),
    "get_mempolicy": (239, 236),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
"""Names with their numbers on x86-64 and aarch64."""

CHECKED: Mapping[str, tuple[int, int]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "mmap": (9, 222),
    "personality": (135, 92),
}
"""Calls that depend on an argument; clone3 keeps its flags in memory, where no filter sees them: it does not exist, and
C libraries fall back to clone."""

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of the tables, and AUDIT_ARCH_* of linux/audit.h."""
_PROFILE_NAMES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_NAMESPACES = 0x7E020000
"""CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET."""
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_X32 = 0x40000000

_LOAD, _EQUAL, _GREATER_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF_LD_W_ABS, BPF_JMP_*_K, BPF_RET_K
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data; arguments are 8 bytes, low half first
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000


@dataclass(frozen=True, slots=True)
class _Step:
    """An instruction; a jump names what is skipped when its test is true and when it is not."""

    code: int
    value: int
    true: int = 0
    false: int = 0


def program(machine: str | None = None) -> bytes:
    """The filter as an array of `struct sock_filter`, for `platform.machine()` unless another is named.

    Raises `FarmError` RUNNER_UNAVAILABLE for a machine without tables.
    """
    column, architecture = _MACHINES[_known(machine)]
    steps = [
        _Step(_LOAD, _ARCHITECTURE),
        _Step(_EQUAL, architecture, true=1),
        _Step(_RETURN, _KILL),
        _Step(_LOAD, _NUMBER),
        *_unless(_GREATER_EQUAL, _X32, _KILL),
        *_unless(_GREATER_EQUAL, LAST_KNOWN + 1, _ERROR | errno.ENOSYS),
    ]
    for numbers in REFUSED.values():
        if (number := numbers[column]) is not None:
            steps += _unless(_EQUAL, number, _ERROR | errno.EPERM)
    steps += _unless(_EQUAL, CHECKED["clone3"][column], _ERROR | errno.ENOSYS)
    steps += _when(CHECKED["clone"][column], 0, _unless(_ANY_BIT, _NAMESPACES, _ERROR | errno.EPERM))
    shared = [_Step(_ANY_BIT, _MAP_ANONYMOUS, false=2), *_unless(_ANY_BIT, _MAP_SHARED, _ERROR | errno.EPERM)]
    steps += _when(CHECKED["mmap"][column], 3, shared)
    steps += _when(CHECKED["personality"][column], 0, _allow_only((0, 0xFFFFFFFF), errno.EPERM))
    inputs = [step for value in _TERMINAL_INPUT for step in _unless(_EQUAL, value, _ERROR | errno.EPERM)]
    steps += _when(CHECKED["ioctl"][column], 1, inputs)
    steps.append(_Step(_RETURN, _ALLOW))
    return b"".join(struct.pack("<HBBI", step.code, step.true, step.false, step.value) for step in steps)


def profile(machine: str | None = None) -> dict[str, Any]:
    """The list as a container engine's seccomp profile (OCI runtime specification, `linux.seccomp`, in moby's form).

    What depends on an argument in a way that a profile cannot say (personality), and calls newer than the list, are
    left to the filter of `program`. Raises as that does.
    """
    name = _known(machine)
    column = _MACHINES[name][0]
    refused = [call for call, numbers in sorted(REFUSED.items()) if numbers[column] is not None]
    bits = [bit for bit in (1 << place for place in range(32)) if bit & _NAMESPACES]
    rules = [
        _rule(refused, errno.EPERM),
        _rule(["clone3"], errno.ENOSYS),
        *(_rule(["clone"], errno.EPERM, 0, bit, "SCMP_CMP_MASKED_EQ", bit) for bit in bits),
        _rule(
            ["mmap"], errno.EPERM, 3, _MAP_SHARED | _MAP_ANONYMOUS, "SCMP_CMP_MASKED_EQ", _MAP_SHARED | _MAP_ANONYMOUS
        ),
        *(_rule(["ioctl"], errno.EPERM, 1, value, "SCMP_CMP_EQ") for value in _TERMINAL_INPUT),
    ]
    return {"defaultAction": "SCMP_ACT_ALLOW", "architectures": [_PROFILE_NAMES[name]], "syscalls": rules}


def _rule(
    names: list[str], error: int, argument: int | None = None, value: int = 0, test: str = "", masked: int = 0
) -> dict[str, Any]:
    condition = {"index": argument, "value": value, "valueTwo": masked, "op": test}
    args = [] if argument is None else [condition]
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error, "args": args}


def _known(machine: str | None) -> str:
    name = machine or platform.machine()
    if name not in _MACHINES:
        why = f"the sandbox knows the system calls of {', '.join(sorted(_MACHINES))} only"
        raise FarmError(Code.RUNNER_UNAVAILABLE, f"there is no sandbox for {name}", why, "Use --runner process.")
    return name


def _unless(test: int, value: int, answer: int) -> list[_Step]:
    """Answer so when the test of what is loaded is true; go on otherwise."""
    return [_Step(test, value, false=1), _Step(_RETURN, answer)]


def _allow_only(values: tuple[int, ...], error: int) -> list[_Step]:
    return [*(step for value in values for step in _unless(_EQUAL, value, _ALLOW)), _Step(_RETURN, _ERROR | error)]


def _when(number: int, argument: int, steps: list[_Step]) -> list[_Step]:
    """These steps over the low half of an argument for one call, which is then allowed; all others go on."""
    inner = [_Step(_LOAD, _ARGUMENT + 8 * argument), *steps, _Step(_RETURN, _ALLOW)]
    return [_Step(_EQUAL, number, false=len(inner)), *inner]
