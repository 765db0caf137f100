"""Hostile compiles in real sandboxes: nothing gets out but a checked result, nothing is used beyond the limits."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from containers import _inside, sealed
from kernelfarm.errors import Code, FarmError
from tests.support.sandboxes import GOOD, SMALL, Sandbox
from tests.support.services import HANG_S

pytestmark = pytest.mark.services

EMPTY_WEIGHTS = (
    "import hashlib; found = json.load(open('out/result.json')); "
    "found['files']['weights.bin'] = {'digest': 'sha256:' + hashlib.sha256().hexdigest(), 'size': 0}; "
    "open('out/result.json', 'w').write(json.dumps(found, sort_keys=True, separators=(',', ':'))); "
)
"""A result.json that tells of an empty file of weights."""


def test_a_compile_that_means_well_is_accepted(sandbox: Sandbox) -> None:
    sandbox.run(GOOD)


def test_there_is_no_network(sandbox: Sandbox) -> None:
    found = sandbox.answers(
        """
        import socket
        families = {"ip": socket.AF_INET, "ip6": socket.AF_INET6, "packet": socket.AF_PACKET,
                    "netlink": socket.AF_NETLINK, "vsock": socket.AF_VSOCK, "alg": socket.AF_ALG}
        met = {name: attempt(lambda: socket.socket(kind, socket.SOCK_DGRAM)) for name, kind in families.items()}
        met["local"] = attempt(lambda: socket.socket(socket.AF_UNIX))
        met["interfaces"] = [name for _, name in socket.if_nameindex()] if not met["netlink"] else sorted(
            line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line)
        print(json.dumps(met))
        """
    )
    assert found.pop("interfaces") == ["lo"]
    assert set(found.values()) == {"EPERM"}


def test_an_abstract_socket_of_the_host_is_out_of_reach(sandbox: Sandbox) -> None:
    """No socket is made, and there would be nobody at the other end: abstract names belong to the network."""
    import socket

    name = f"kernel-farm-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        found = sandbox.answers(
            f"""
            import socket
            seen = {name!r} in open("/proc/net/unix").read()
            print(json.dumps([attempt(lambda: socket.socket(socket.AF_UNIX)), seen]))
            """
        )
    assert found == ["EPERM", False]


def test_nothing_but_the_output_and_temporary_memory_can_be_written(sandbox: Sandbox) -> None:
    found = sandbox.answers(
        """
        places = ["/", "/in", "/farm/code", "/etc", "/dev", "/usr", "/proc/sys/kernel", "/sys", "/var"]
        written = {place: attempt(lambda: open(place + "/x", "w")) for place in places if os.path.isdir(place)}
        changed = {place: attempt(lambda: os.chmod(place, 0o777)) for place in ("/in/model.onnx", "/farm/code")}
        mounts = [line.split() for line in open("/proc/self/mounts")]
        writable = [place for _, place, kind, options, *_ in mounts
                    if "rw" in options.split(",") and kind not in ("tmpfs", "proc", "devpts", "mqueue", "devtmpfs")]
        print(json.dumps([written, changed, writable]))
        """
    )
    written, changed, writable = found
    assert set(written.values()) <= {"EROFS", "EACCES", "ENOENT"}
    assert set(changed.values()) <= {"EROFS", "EPERM"}
    assert writable == ["/out"]


def test_paths_that_lead_out_of_the_output_change_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    sandbox.attack(
        f"""
        target = {str(outside)!r}
        attempt(lambda: os.symlink(target, "out/link"))
        attempt(lambda: open("out/link", "w").write("changed"))
        attempt(lambda: open(target, "w").write("changed"))
        attempt(lambda: open("/proc/1/root" + target, "w").write("changed"))
        attempt(lambda: open("out/../../../../../" + target, "w").write("changed"))
        """
    )
    assert outside.read_text() == "untouched"


def test_no_device_is_made_or_opened(sandbox: Sandbox) -> None:
    found = sandbox.answers(
        """
        import stat
        kinds = {"disk": (stat.S_IFBLK, 254, 0), "memory": (stat.S_IFCHR, 1, 1), "zero": (stat.S_IFCHR, 1, 5)}
        made = {name: attempt(lambda: os.mknod("out/" + name, kind | 0o666, os.makedev(major, minor)))
                for name, (kind, major, minor) in kinds.items()}
        print(json.dumps([made, sorted(os.listdir("/dev"))]))
        """
    )
    made, devices = found
    assert set(made.values()) == {"EPERM"}
    harmless = {"console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm"}
    assert set(devices) <= harmless | {"stderr", "stdin", "stdout", "tty", "urandom", "zero"}


def test_no_process_is_traced_or_read(sandbox: Sandbox) -> None:
    found = sandbox.answers(
        """
        import ctypes, signal
        libc = ctypes.CDLL(None, use_errno=True)
        def call(*arguments):
            return errno.errorcode.get(ctypes.get_errno()) if libc.syscall(*map(ctypes.c_long, arguments)) < 0 else ""
        child = os.fork()
        if child == 0:
            signal.pause()
        traced = libc.ptrace(16, child, 0, 0), errno.errorcode.get(ctypes.get_errno())
        number = {"x86_64": 310, "aarch64": 270}[os.uname().machine]
        read = call(number, child, 0, 0, 0, 0, 0)
        os.kill(child, signal.SIGKILL)
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())
        print(json.dumps([traced, read, len(pids), max(pids) < 1000]))
        """
    )
    traced, read, processes, own_numbers = found
    assert traced == [-1, "EPERM"]
    assert read == "EPERM"
    assert processes <= 5
    assert own_numbers


def test_every_process_in_sight_is_filtered_and_the_first_is_closed(sandbox: Sandbox) -> None:
    """What a compile could write into an unfiltered process of its own user would run there."""
    found = sandbox.answers(
        """
        def status(pid):
            return dict(line.rstrip().partition(":\\t")[::2] for line in open(f"/proc/{pid}/status"))
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())
        first = [attempt(lambda: os.open(f"/proc/1/{name}", kind)) for name, kind in
                 (("mem", os.O_RDWR), ("environ", os.O_RDONLY), ("fd", os.O_RDONLY), ("maps", os.O_RDONLY))]
        print(json.dumps([pids[0], {status(pid)["Seccomp"] for pid in pids} == {"2"}, len(pids), first]))
        """
    )
    assert found == [1, True, 2, ["EACCES"] * 4]


def test_calls_that_no_compile_needs_are_not_permitted(sandbox: Sandbox) -> None:
    found = sandbox.answers(
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        room = ctypes.create_string_buffer(4096)
        calls = {"io_uring_setup": (425, 425), "keyctl": (250, 219), "add_key": (248, 217), "bpf": (321, 280),
                 "perf_event_open": (298, 241), "userfaultfd": (323, 282), "setns": (308, 268), "fsopen": (430, 430),
                 "open_tree": (428, 428), "pidfd_getfd": (438, 438), "open_by_handle_at": (304, 265),
                 "mount_setattr": (442, 442), "memfd_create": (319, 279), "shmget": (29, 194)}
        column = ["x86_64", "aarch64"].index(os.uname().machine)
        met = {}
        for name, numbers in calls.items():
            done = libc.syscall(ctypes.c_long(numbers[column]), room, ctypes.c_long(0), room, ctypes.c_long(0), room)
            met[name] = errno.errorcode.get(ctypes.get_errno()) if done < 0 else "done"
        print(json.dumps(met))
        """
    )
    assert set(found.values()) == {"EPERM"}


def test_there_is_no_way_to_privileges_or_namespaces(sandbox: Sandbox) -> None:
    found = sandbox.answers(
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        def met(done):
            return errno.errorcode.get(ctypes.get_errno()) if done != 0 else ""
        attempts = {
            "unshare": met(libc.unshare(0x10000000)),
            "mount": met(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
            "chroot": met(libc.chroot(b"/tmp")),
            "setuid": met(libc.setuid(0)),
            "hostname": met(libc.sethostname(b"x", 1)),
            "clone": met(min(0, libc.syscall({"x86_64": 56, "aarch64": 220}[os.uname().machine],
                ctypes.c_long(0x10000011), None, None, None, None))),
        }
        status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status"))
        facts = [status[name] for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")]
        print(json.dumps([attempts, facts, os.getuid(), os.getgid(), os.uname().nodename]))
        """
    )
    attempts, facts, user, group, host = found
    assert set(attempts.values()) <= {"EPERM", "EINVAL"}
    assert facts == ["0" * 16, "0" * 16, "1", "2"]
    assert (user, group, host) == (65534, 65534, "builder")


def test_addresses_are_fixed_and_stay_so(sandbox: Sandbox) -> None:
    """A compiler's back end may order by pointers: address space randomisation would then decide bytes."""
    script = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        back = libc.personality(ctypes.c_ulong(0x0008)), errno.errorcode.get(ctypes.get_errno())
        print(json.dumps([id(object), open("/proc/self/personality").read(), back]))
        """
    found = [sandbox.answers(script) for _ in range(3)]
    assert {(kind, tuple(back)) for _place, kind, back in found} == {("00040000\n", (-1, "EPERM"))}
    assert len({place for place, _kind, _back in found}) == 1


def test_a_fork_bomb_ends_with_its_sandbox(sandbox: Sandbox) -> None:
    found = sandbox.answers(
        """
        import time
        first = os.getpid()
        def bomb():
            while True:
                os.fork()
        met = attempt(bomb)
        if os.getpid() != first:
            time.sleep(60)
        time.sleep(0.5)
        print(json.dumps([met, sum(name.isdecimal() for name in os.listdir("/proc"))]))
        """
    )
    met, count = found
    assert met == "EAGAIN"
    assert count <= SMALL.processes + 4


@pytest.mark.parametrize(
    "script",
    [
        'open("out/huge", "wb").truncate(100 << 30)',
        'os.posix_fallocate(os.open("out/huge", os.O_CREAT | os.O_WRONLY), 0, 100 << 30)',
        """
        with open("out/huge", "wb") as stream:
            for _ in range(100 << 10):
                stream.write(bytes(1 << 20))
        """,
    ],
    ids=["sparse", "allocated", "written"],
)
def test_a_file_of_100_gb_is_stopped(sandbox: Sandbox, script: str) -> None:
    sizes: list[int] = []

    def look(scratch: Path) -> None:
        sizes.extend(path.stat().st_size for path in (scratch / "out").iterdir())

    _log, error = sandbox.attack(script, look=look)
    assert error is not None
    assert error.code is Code.CHILD_FILE_SIZE
    assert max(sizes, default=0) <= SMALL.file_size


def test_many_files_of_an_allowed_size_are_stopped(sandbox: Sandbox) -> None:
    script = """
    for number in range(10_000):
        with open(f"out/{number}", "wb") as stream:
            stream.write(bytes(8 << 20))
    """
    counts: list[int] = []
    _log, error = sandbox.attack(script, look=lambda scratch: counts.append(len(list((scratch / "out").iterdir()))))
    assert error is not None
    assert error.code is Code.CHILD_OUTPUT
    assert max(counts, default=0) < 10_000


def test_a_flood_of_names_is_stopped(sandbox: Sandbox) -> None:
    script = """
    for number in range(10_000_000):
        os.mkdir(f"out/{number}")
    """
    assert sandbox.refused(script, limits=replace(SMALL, output_files=2000)).code is Code.CHILD_OUTPUT


def test_temporary_files_are_bounded(sandbox: Sandbox) -> None:
    found = sandbox.answers(
        """
        def fill():
            with open("/tmp/x", "wb") as stream:
                for _ in range(1000):
                    stream.write(bytes(1 << 20))
                    stream.flush()
        print(json.dumps([attempt(fill), os.stat("/tmp/x").st_size]))
        """
    )
    met, size = found
    assert met == "ENOSPC"
    assert size <= SMALL.temporary


def test_memory_of_one_process_is_bounded(sandbox: Sandbox) -> None:
    error = sandbox.refused("held = bytearray(3 << 30); held[::4096] = bytes(len(held[::4096])); print(len(held))")
    assert error.code is Code.CHILD_MEMORY


def test_memory_of_all_processes_together_is_bounded(sandbox: Sandbox) -> None:
    script = """
    import time
    for _ in range(8):
        if os.fork() == 0:
            break
    held = bytearray(200 << 20)
    held[::4096] = bytes(len(held[::4096]))
    time.sleep(500)
    """
    assert sandbox.refused(script).code is Code.CHILD_MEMORY


@pytest.mark.parametrize("way", ["memfd", "segment", "sockets", "shared", "zero"])
def test_memory_that_no_process_shows_is_not_to_be_had(sandbox: Sandbox, way: str) -> None:
    """Three times the limit, in what is resident in no process: a sandbox without control groups does not see it."""
    script = f"""
    import ctypes, mmap, socket, time
    libc = ctypes.CDLL(None, use_errno=True)
    MIB, held = 1 << 20, []
    def memfd():
        for _ in range(48):
            held.append(os.memfd_create("x"))
            for _ in range(32):
                os.write(held[-1], bytes(MIB))
    def segment():
        for _ in range(48):
            if (number := libc.shmget(0, 32 * MIB, 0o1600)) < 0:
                raise OSError(ctypes.get_errno(), "shmget")
            libc.shmat.restype = ctypes.c_void_p
            place = ctypes.c_void_p(libc.shmat(number, None, 0))
            ctypes.memset(place, 1, 32 * MIB)
            libc.shmdt(place)
    def sockets():
        while True:
            held.append(socket.socketpair())
            held[-1][0].setblocking(False)
            while not attempt(lambda: held[-1][0].send(bytes(1 << 16))):
                pass
    def spread(handle, kind):
        for _ in range(12):
            if os.fork() == 0:
                break
        room = mmap.mmap(handle, 128 * MIB, kind)
        held.append(room)
        for start in range(0, len(room), MIB):
            room[start:start + MIB] = bytes([1]) * MIB
            room.madvise(mmap.MADV_DONTNEED, start, MIB)
    def shared():
        spread(-1, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    def zero():
        spread(os.open("/dev/zero", os.O_RDWR), mmap.MAP_SHARED)
    first = os.getpid()
    met = attempt({way})
    time.sleep(3)
    if os.getpid() == first:
        print("met", met)
    """
    log, error = sandbox.attack(script, limits=replace(SMALL, wall_s=200.0, cpu_s=200))
    assert error is not None
    stopped = error.code is Code.CHILD_MEMORY  # by the control group, which sees all
    assert stopped or "met EPERM" in log or "met ENODEV" in log, log


def test_time_is_bounded_also_for_a_program_that_ignores_signals(sandbox: Sandbox) -> None:
    script = """
    import signal, time
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
    time.sleep(500)
    """
    began = time.monotonic()
    assert sandbox.refused(script, limits=replace(SMALL, wall_s=1.0)).code is Code.CHILD_TIMEOUT
    assert time.monotonic() - began < 400  # it did not sleep to its end


def test_processor_time_is_bounded(sandbox: Sandbox) -> None:
    error = sandbox.refused("while True: pass", limits=replace(SMALL, cpu_s=1, wall_s=HANG_S))
    assert (error.code, "processor time" in error.why) == (Code.CHILD_TIMEOUT, True)


def test_a_log_of_1_gb_is_cut(sandbox: Sandbox) -> None:
    script = """
    import itertools
    line = b"x" * (1 << 20)
    for _ in range(1 << 10):
        os.write(1, line)
    """ + GOOD.replace("shutil", "    shutil", 1)
    sizes: list[int] = []
    patient = replace(SMALL, wall_s=200.0, cpu_s=200)
    sandbox.run(script, limits=patient, look=lambda scratch: sizes.append((scratch / "log").stat().st_size))
    assert sizes[0] < 17 << 20


@pytest.mark.parametrize(
    "spoil",
    [
        "os.unlink('out/payload/kernels.so'); os.symlink('../../in/good/payload/kernels.so', 'out/payload/kernels.so')",
        "shutil.rmtree('out/payload'); os.symlink('../in/good/payload', 'out/payload')",
        "os.mkdir('out/objects'); os.link('out/payload/weights.bin', 'out/objects/' + 'a' * 64)",
        "os.chmod('out/payload/media-run', 0o4755)",
        EMPTY_WEIGHTS + "os.unlink('out/payload/weights.bin'); os.mkfifo('out/payload/weights.bin')",
        "open('out/payload/extra', 'w')",
        "open('out/extra', 'w')",
        "open('out/payload/kernels.so', 'ab').write(b'x')",
    ],
    ids=["link", "link-folder", "hard-link", "setuid", "fifo", "extra", "extra-outside", "changed"],
)
def test_an_output_that_is_not_plain_files_is_refused(sandbox: Sandbox, spoil: str) -> None:
    """The bytes behind a link, and in a pipe, are those that result.json tells of: only the kind of file is wrong."""
    assert sandbox.refused(GOOD + spoil).code is Code.RESULT_REFUSED


def test_a_deep_output_is_refused_and_removed(sandbox: Sandbox) -> None:
    script = """
    os.chdir("out")
    for _ in range(3_000):
        os.mkdir("d")
        os.chdir("d")
    """
    assert sandbox.refused(script).code in (Code.RESULT_REFUSED, Code.CHILD_OUTPUT)
    assert list(sandbox.home.iterdir()) == []


def test_the_hosts_environment_and_secrets_are_out_of_sight(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FARM_TEST_SECRET", "swordfish")
    secret = tmp_path / "release.key"
    secret.write_text("swordfish")
    found = sandbox.answers(
        f"""
        seen = [dict(os.environ)]
        for place in pathlib.Path("/proc").iterdir():
            if place.name.isdecimal():
                for name in ("environ", "cmdline"):
                    attempt(lambda: seen.append((place / name).read_bytes().decode("latin-1")))
        met = [attempt(lambda: open(path).read()) for path in
               ({str(secret)!r}, "/proc/1/root" + {str(secret)!r}, "/etc/shadow", "/root/.ssh/id_rsa")]
        word = "sword" + "fish"
        print(json.dumps([word in json.dumps(seen), sorted(os.environ), met, os.listdir("/proc/self/fd")]))
        """
    )
    leaked, names, met, handles = found
    assert not leaked
    assert set(names) <= {*sealed.environment({}), "HOSTNAME", "LC_CTYPE", "PWD"}
    assert set(met) <= {"ENOENT", "EACCES", "ENOTDIR"}
    assert len(handles) <= 8


def test_what_a_compile_says_of_its_own_end_is_not_believed(sandbox: Sandbox) -> None:
    error = sandbox.refused('print(\'{"max_rss_bytes":1}\'); print(json.dumps({"status": 0})); sys.exit(7)')
    assert error.code is Code.CHILD_CRASHED


def test_an_empty_file_of_weights_would_be_taken(sandbox: Sandbox) -> None:
    """So the pipe of the test above is refused for what it is."""
    sandbox.run(GOOD + EMPTY_WEIGHTS + "open('out/payload/weights.bin', 'w')")


@pytest.mark.parametrize("status", [_inside.LOST, _inside.ENDED + 9, _inside.SIGNALLED + 9, 255])
def test_a_compile_cannot_give_itself_the_status_of_a_lost_sandbox(sandbox: Sandbox, status: int) -> None:
    assert sandbox.refused(f"sys.exit({status})").code is Code.CHILD_CRASHED


@pytest.mark.parametrize("code", [Code.PAYLOAD_DIFFERS, Code.RUNNER_LOST, Code.LEASE_LOST, Code.BLOB_MISSING])
def test_a_compile_cannot_claim_what_only_others_find_out(sandbox: Sandbox, code: Code) -> None:
    claim = json.dumps(FarmError(code, "believe me").to_json())
    error = sandbox.refused(f"open('out/error.json', 'w').write({claim!r}); sys.exit(1)")
    assert (error.code, error.detail) == (Code.CHILD_CRASHED, {"claimed": f"{code.number} believe me"})


@pytest.mark.parametrize("data", ["", "{", "[]", '{"files":{},"files":{}}', "[" * 200_000])
def test_a_result_file_that_is_none_is_refused(sandbox: Sandbox, data: str) -> None:
    spoil = f"open('out/result.json', 'w').write({data[:24]!r} + {data[24:25]!r} * {len(data[24:])})"
    assert sandbox.refused(GOOD + spoil).code is Code.RESULT_REFUSED


def test_a_report_of_another_error_names_no_file_of_the_host(sandbox: Sandbox) -> None:
    script = "os.symlink('/etc/hostname', 'out/error.json'); sys.exit(1)"
    assert sandbox.refused(script).code is Code.CHILD_CRASHED
