"""What this machine has and lacks, each with what to do. Every check stands alone: one that fails stops no other."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from kernelfarm import child, files, paths
from kernelfarm._launch import ADDR_NO_RANDOMIZE
from kernelfarm.errors import FarmError
from kernelfarm.paths import Home

DISTRIBUTION = "kernel-farm"
ROOMS = ("containers", "farm", "kernelc", "kernelfarm", "sbom", "signing", "toolchains")
PYTHONS = ((3, 11), (3, 15))
"""The first version that works and the first that was never tried."""

_MIB = 1 << 20
_SPACE_NEEDED = 512 * _MIB
_SPACE_WANTED = 4096 * _MIB
_PROBE_S = 10.0
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^;,\s]+)")


class Level(Enum):
    """How a finding stands: fine, worth knowing, or missing something that the farm needs."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer: `said` is what was found, `advice` what to do (empty when all is well)."""

    check: str
    level: Level
    said: str
    advice: str = ""


def examine(home: Home | None = None, *, deep: bool = False) -> list[Finding]:
    """All checks in their order. With `deep` every file of every tool is hashed again (seconds, a gigabyte)."""
    place = home or paths.home()
    checks: Mapping[str, Callable[[], Iterable[Finding]]] = {
        "python": lambda: [python(sys.version_info[:2])],
        "packages": lambda: packages(importlib.metadata.packages_distributions(), _origins()),
        "tools": lambda: tools(deep=deep),
        "disassembler": lambda: [disassembler()],
        "scanner": lambda: [scanner()],
        "store": lambda: [store(place)],
        "ledger": lambda: [ledger(place)],
        "keys": lambda: keys(place.keys),
        "addresses": lambda: [addresses()],
        "runners": lambda: runners(place),
        "broker": lambda: broker(os.environ.get("FARM_BROKER_URL")),
        "registry": lambda: registry(place, os.environ.get("FARM_REGISTRY")),
        "gate": lambda: gate(os.environ.get("FARM_GATE"), os.environ.get("FARM_IDENTITY")),
        "disk": lambda: [disk(place.root, _free(place.root))],
        "cpu": lambda: cpu(cpu_flags()),
    }
    return [finding for name, check in checks.items() for finding in _guarded(name, check)]


def _guarded(name: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except FarmError as error:
        return [Finding(name, Level.MISSING, f"{error.code.number} {error.what}: {error.why}", error.next_step)]
    except ImportError as error:
        return [Finding(name, Level.MISSING, f"a package cannot be imported: {error}", "Run `make setup`.")]


def python(version: tuple[int, int]) -> Finding:
    """Whether the farm works with this Python."""
    said = f"Python {version[0]}.{version[1]}"
    first, beyond = PYTHONS
    if version < first:
        return Finding("python", Level.MISSING, said, f"Install Python {first[0]}.{first[1]} or newer.")
    if version >= beyond:
        return Finding("python", Level.NOTE, f"{said}, newer than what the farm was tried with", "Prefer Python 3.11.")
    return Finding("python", Level.OK, said)


def packages(owners: Mapping[str, Iterable[str]], origins: Mapping[str, Path | None]) -> list[Finding]:
    """Whether the farm's top-level package names are its own: `owners` by distribution, `origins` where they come from.

    The names farm, containers, signing and toolchains are plain words that another distribution may bring too.
    """
    findings = []
    root = origins["kernelfarm"]
    for name in ROOMS:
        foreign = sorted(set(owners.get(name, ())) - {DISTRIBUTION})
        origin = origins[name]
        if foreign:
            advice = f"Uninstall {', '.join(foreign)}, or give the farm an environment of its own (`make setup`)."
            findings.append(Finding("packages", Level.MISSING, f"{name} also belongs to {', '.join(foreign)}", advice))
        elif origin is None:
            advice = "Run `make setup` again."
            findings.append(Finding("packages", Level.MISSING, f"{name} cannot be imported", advice))
        elif origin != root:
            advice = "Remove that folder, or take it off the search path."
            findings.append(Finding("packages", Level.MISSING, f"{name} comes from {origin}, not {root}", advice))
    return findings or [Finding("packages", Level.OK, "the top-level packages are the farm's own")]


def _origins() -> dict[str, Path | None]:
    found = {}
    for name in ROOMS:
        spec = find_spec(name)
        found[name] = Path(spec.origin).parent.parent if spec is not None and spec.origin else None
    return found


def tools(*, deep: bool = False) -> list[Finding]:
    """Whether the pinned tools are there in the versions that the farm asks for; with `deep`, byte for byte."""
    from toolchains import tools as pinned

    found = pinned.verify_tools() if deep else pinned.tool_identities()
    wanted = exact_pins(importlib.metadata.requires(DISTRIBUTION) or ())
    findings = [
        Finding("tools", Level.MISSING, f"{name} {found[name].version}, not {version}", "Run `make setup`.")
        for name, version in sorted(wanted.items())
        if name in found and found[name].version != version
    ]
    listed = ", ".join(f"{name} {tool.version}" for name, tool in sorted(found.items()))
    proof = "every byte checked" if deep else "--deep checks every byte"
    return findings or [Finding("tools", Level.OK, f"{listed} ({proof})")]


def exact_pins(requirements: Iterable[str]) -> dict[str, str]:
    """The requirements of the form name==version."""
    return {match[1]: match[2] for text in requirements if (match := _PIN.match(text)) is not None}


def store(home: Home) -> Finding:
    """Whether the state folder can be written; removes what crashed writers left."""
    from kernelfarm.store import ContentStore

    home.create()
    with files.coded("the state folder cannot be written", home.root), files.temp_file(home.store) as (stream, _path):
        stream.write(b"doctor")
    swept = [*ContentStore(home.store).sweep(), *files.sweep(home.cache)]
    removed = f", {len(swept)} abandoned files removed" if swept else ""
    return Finding("store", Level.OK, f"{home.root} is writable{removed}")


def ledger(home: Home) -> Finding:
    """Whether the ledger can be used and has the newest tables."""
    from farm import config
    from farm.ledger.database import Database
    from farm.ledger.tables import HEAD

    settings = config.load()
    database = Database(settings.ledger if settings.home == home else home.ledger)
    try:
        revision = database.revision()
        if revision is None:
            return Finding("ledger", Level.OK, "not made yet; the first build makes it")
        database.migrate()  # raises for tables of a newer farm
        kind = database.describe()
    finally:
        database.close()
    migrated = "" if revision == HEAD else f", migrated from {revision}"
    return Finding("ledger", Level.OK, f"{kind}, revision {HEAD}{migrated}")


def keys(folder: Path) -> list[Finding]:
    """Whether there is a signing key, and nobody else can read one."""
    found = sorted(folder.glob("*.key")) if folder.is_dir() else []
    findings = []
    for path in found:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            said = f"the key {path.stem} has mode {mode:04o}: others may read it"
            findings.append(Finding("keys", Level.MISSING, said, f"Make a new key; then chmod 600 {path}."))
    if not found:
        return [Finding("keys", Level.NOTE, "there is no signing key", "Make one: farm keys new")]
    return findings or [Finding("keys", Level.OK, ", ".join(path.stem for path in found))]


def runners(home: Home) -> list[Finding]:
    """Which runners are ready; none of them is needed but the bare process, which is always there."""
    from farm import runners as known

    findings = []
    for name in known.NAMES[:-1]:
        try:
            found = known.named(home, name)
            known.require_ready(found, home)
        except FarmError as error:
            said = f"{name} cannot be used: {error.why or error.what}"
            findings.append(Finding("runners", Level.NOTE, said, error.next_step))
            continue
        findings.append(Finding("runners", Level.OK, f"{name} is ready ({_version_of(name)})"))
    try:
        chosen = known.choose(home)
    except FarmError as error:
        said = f"the runner that {known.VARIABLE} names cannot be used: {error.why or error.what}"
        return [*findings, Finding("runners", Level.MISSING, said, error.next_step)]
    return [*findings, Finding("runners", Level.OK, f"builds use the runner {chosen.runner.name}")]


def addresses() -> Finding:
    """Whether a compile in a bare process gets the same addresses each time, as in the sandboxes."""
    probe = "from pathlib import Path; print(Path('/proc/self/personality').read_text())"
    lines: list[str] = []
    argv = [sys.executable, "-I", "-S", "-c", probe]
    child.run_limited(argv, env={}, cwd=Path("/"), wall_s=_PROBE_S, fixed_addresses=True, on_line=lines.append)
    if any(line and int(line, 16) & ADDR_NO_RANDOMIZE for line in lines):
        return Finding("addresses", Level.OK, "compiles get the same addresses each time")
    said = "address space randomisation cannot be turned off here: a compiler that orders by pointers may differ"
    advice = "Allow personality(2) in the seccomp profile of the container around the farm, or use a sealed runner."
    return Finding("addresses", Level.NOTE, said, advice)


def _version_of(runner: str) -> str:
    from containers import bubblewrap

    if runner == bubblewrap.NAME:
        return bubblewrap.version()
    from containers import docker

    return f"Docker Engine {docker.version()}"


def broker(address: str | None) -> list[Finding]:
    """Whether the Redis of FARM_BROKER_URL is there and drops nothing; nothing to say without one."""
    if not address:
        return []
    from farm.queue import Broker

    with Broker(address) as found:
        warnings = found.check()
        said = f"Redis at {found.address} answers"
    if warnings:
        return [Finding("broker", Level.NOTE, warnings[0], "Set `appendonly yes` there.")]
    return [Finding("broker", Level.OK, said)]


def registry(home: Home, address: str | None) -> list[Finding]:
    """Whether the registry of FARM_REGISTRY is there and believes the gate's tokens; nothing to say without one."""
    if not address:
        return []
    from farm.blobs import Repository
    from farm.gate import authority, tokens
    from farm.gate import registry as blob_registry
    from kernelfarm import digest

    keys = authority.of(home)
    if not keys.ca.certificate.is_file():
        said = "FARM_REGISTRY is set, and there are no certificates for a registry"
        return [Finding("registry", Level.MISSING, said, "Make its configuration with them: farm registry")]
    peer = blob_registry.peer(keys, address)
    token = tokens.issue(keys, "doctor", {tokens.INPUTS: ("pull",)})
    Repository(peer, tokens.INPUTS, lambda: token).has(digest.of_bytes(b""))
    return [Finding("registry", Level.OK, f"the blob registry at {peer.url} answers and believes this farm's tokens")]


def gate(address: str | None, identity: str | None) -> list[Finding]:
    """Whether the gate of FARM_GATE knows this host, and its registry is in reach; nothing to say without one."""
    if not address:
        return []
    if not identity:
        advice = "Set FARM_IDENTITY to the file that `farm worker enrol` wrote for this host."
        return [Finding("gate", Level.MISSING, "FARM_GATE is set without FARM_IDENTITY", advice)]
    from farm.gate.client import Gate

    found = Gate(address, Path(identity))
    welcome = found.hello()
    with found.registry(welcome.registry).ask("GET", "v2/"):  # without a token: any answer will do
        pass
    return [Finding("gate", Level.OK, f"the gate at {address} knows this host as {welcome.worker}")]


def disk(root: Path, free: int) -> Finding:
    """Whether there is room for builds."""
    said = f"{free // _MIB} MiB free at {root}"
    if free < _SPACE_NEEDED:
        return Finding("disk", Level.MISSING, said, "Free some space, or set FARM_HOME to a folder on a larger disk.")
    if free < _SPACE_WANTED:
        return Finding("disk", Level.NOTE, said, "Large models may need more.")
    return Finding("disk", Level.OK, said)


def _free(root: Path) -> int:
    place = root
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def cpu(flags: frozenset[str]) -> list[Finding]:
    """How `farm check` can run each target here: by this processor with these features, in an emulator, or not."""
    from toolchains import emulator, target

    findings = []
    for name in target.names():
        found = emulator.runner(target.load(name), flags)
        if found.kind is emulator.Kind.NATIVE:
            findings.append(Finding("cpu", Level.OK, f"{name} runs here"))
        elif found.kind is emulator.Kind.EMULATED:
            findings.append(Finding("cpu", Level.OK, f"{name} runs in {Path(found.argv_prefix[0]).name}"))
        else:
            said = f"{name} does not run here: {found.reason}"
            findings.append(Finding("cpu", Level.NOTE, said, "Compiling for it works; check it on another machine."))
    return findings


def disassembler() -> Finding:
    """Whether the hardening gate can read the machines that the pinned disassembler does not know."""
    from toolchains import disasm
    from toolchains.machines import MACHINES

    names = [name for name, machine in sorted(MACHINES.items()) if machine.debian]
    try:
        for name in names:
            disasm.objdump_path(name)
    except FarmError as error:
        return Finding("tools", Level.NOTE, f"no building for {' and '.join(names)}: {error.why}", error.next_step)
    return Finding("tools", Level.OK, f"llvm-objdump {disasm.DEBIAN_VERSION} for {' and '.join(names)}")


def scanner() -> Finding:
    """Whether `--scan` works here: without a scan every licence verdict is at best "review", which no release takes."""
    from sbom.licence import scan

    try:
        found = scan.installed().identity
    except FarmError as error:
        return Finding("scanner", Level.NOTE, f"no file is scanned for licences: {error.why}", error.next_step)
    return Finding("scanner", Level.OK, f"{found.name} {found.version} for licences")


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The feature names of the first processor that the kernel lists."""
    with files.coded("the processor's features cannot be read", cpuinfo):
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("flags", "Features"):
                return frozenset(value.split())
    return frozenset()
