"""The doctor finds what is missing and says what to do; one failed check stops no other."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from farm import doctor
from farm.cli import main as entry
from farm.doctor import Finding, Level
from farm.ledger.ledger import opened
from farm.ledger.tables import HEAD
from kernelfarm import canonical, digest, files
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from sbom.licence import scan
from sbom.licence.nouns import Scanner
from toolchains import disasm, emulator

HERE = Path("/environment")
OWN = dict.fromkeys(doctor.ROOMS, HERE)
V3 = frozenset(
    ["pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "f16c", "fma", "movbe", "avx2", "bmi1", "bmi2", "abm"]
)
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def levels(findings: list[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


@pytest.mark.parametrize(
    ("version", "level"),
    [((3, 10), Level.MISSING), ((3, 11), Level.OK), ((3, 14), Level.OK), ((3, 15), Level.NOTE)],
)
def test_python(version: tuple[int, int], level: Level) -> None:
    assert doctor.python(version).level is level


def test_the_packages_are_the_farms_own() -> None:
    owners = {name: ["kernel-farm"] for name in doctor.ROOMS}
    assert levels(doctor.packages(owners, OWN)) == [Level.OK]


def test_a_foreign_distribution_that_brings_a_package_of_ours_is_named() -> None:
    findings = doctor.packages({"signing": ["kernel-farm", "other-signing"]}, OWN)
    assert levels(findings) == [Level.MISSING]
    assert "signing also belongs to other-signing" in findings[0].said
    assert "other-signing" in findings[0].advice


def test_a_package_that_comes_from_elsewhere_is_named() -> None:
    findings = doctor.packages({}, {**OWN, "toolchains": Path("/elsewhere")})
    assert [finding.said for finding in findings] == [f"toolchains comes from /elsewhere, not {HERE}"]


def test_a_package_that_is_not_there_is_named() -> None:
    assert levels(doctor.packages({}, {**OWN, "kernelc": None})) == [Level.MISSING]


def test_exact_pins_are_read_from_the_requirements() -> None:
    wanted = doctor.exact_pins(["ziglang==0.17.0", "click>=8.1", "a==1; python_version < '3.12'"])
    assert wanted == {"ziglang": "0.17.0", "a": "1"}


def test_tools_of_this_environment_are_the_pinned_ones() -> None:
    findings = doctor.tools()
    assert levels(findings) == [Level.OK]
    assert "ziglang 0.17.0" in findings[0].said


def test_another_version_of_a_pinned_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda _name: ["ziglang==0.16.0"])
    findings = doctor.tools()
    assert levels(findings) == [Level.MISSING]
    assert findings[0].said == "ziglang 0.17.0, not 0.16.0"


def test_the_store_is_swept(home: Home) -> None:
    home.create()
    (home.store / "tmp").mkdir()
    (home.store / "tmp" / files.temp_name()).touch()
    (home.cache / files.temp_name()).mkdir()
    finding = doctor.store(home)
    assert finding.level is Level.OK
    assert list((home.store / "tmp").iterdir()) == list(home.cache.iterdir()) == []


def test_a_state_folder_that_cannot_be_made_is_missing(home: Home) -> None:
    home.root.parent.mkdir(exist_ok=True)
    home.root.write_text("a file")
    findings = {finding.check: finding for finding in doctor.examine(home)}
    assert findings["store"].level is Level.MISSING
    assert findings["cpu"].level in (Level.OK, Level.NOTE)


def test_a_ledger_that_is_not_there_is_fine(home: Home) -> None:
    assert doctor.ledger(home).level is Level.OK
    assert not home.root.exists()


def test_a_ledger_of_a_newer_farm_is_refused(home: Home) -> None:
    home.create()
    with opened(home.ledger):
        pass
    with sqlite3.connect(home.ledger) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(FarmError) as caught:
        doctor.ledger(home)
    assert caught.value.code is Code.LEDGER_NEWER
    findings = {finding.check: finding.level for finding in doctor.examine(home)}
    assert findings["ledger"] is Level.MISSING


def test_no_key_is_worth_a_note(tmp_path: Path) -> None:
    findings = doctor.keys(tmp_path)
    assert (levels(findings), findings[0].advice) == ([Level.NOTE], "Make one: farm keys new")


def test_a_key_that_others_may_read_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "default.key").touch(mode=0o600)
    assert levels(doctor.keys(tmp_path)) == [Level.OK]
    (tmp_path / "default.key").chmod(0o640)
    findings = doctor.keys(tmp_path)
    assert levels(findings) == [Level.MISSING]
    assert "0640" in findings[0].said


@pytest.mark.parametrize(
    ("mebibytes", "level"), [(511, Level.MISSING), (512, Level.NOTE), (4095, Level.NOTE), (4096, Level.OK)]
)
def test_disk_space(mebibytes: int, level: Level) -> None:
    assert doctor.disk(HERE, mebibytes << 20).level is level


def test_targets_that_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(emulator, "find", lambda name: Path("/tools") / name)
    with_avx512 = {finding.said for finding in doctor.cpu(V4)}
    assert {"x86-64-v4 runs here", "x86-64-v3 runs here", "riscv64 runs in qemu-riscv64-static"} <= with_avx512
    without = {finding.said.split()[0]: finding for finding in doctor.cpu(V3)}
    assert (without["x86-64-v3"].level, without["x86-64-v4"].level) == (Level.OK, Level.NOTE)
    assert "lacks avx512f, avx512bw, avx512cd, avx512dq, avx512vl" in without["x86-64-v4"].said


def test_another_architecture_without_emulators_runs_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    monkeypatch.setattr(emulator, "find", lambda _: None)
    assert set(levels(doctor.cpu(V4))) == {Level.NOTE}


def test_a_missing_disassembler_is_a_note_that_says_what_cannot_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    disasm.objdump_path.cache_clear()
    monkeypatch.setattr(emulator, "find", lambda *_: None)
    found = doctor.disassembler()
    disasm.objdump_path.cache_clear()
    assert found.level is Level.NOTE
    assert found.said.startswith("no building for hexagon and riscv64: llvm-objdump 19 is neither installed")
    assert found.advice == "Run `make tools`."


def test_a_missing_licence_scanner_is_a_note_that_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = partial(scan.installed, tmp_path / "scan")
    monkeypatch.setattr(scan, "installed", absent)

    found = doctor.scanner()

    assert found.level is Level.NOTE
    assert found.said.startswith("no file is scanned for licences: ")
    assert found.advice == "Run `make scan-tools` in the farm's source folder."


def test_an_installed_licence_scanner_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "scancode").touch()
    identity = Scanner("scancode-toolkit", "32.5.0", digest.of_bytes(b"its lock"))
    (tmp_path / scan.STAMP).write_bytes(canonical.encode(identity))
    present = partial(scan.installed, tmp_path)
    monkeypatch.setattr(scan, "installed", present)

    assert doctor.scanner() == Finding("scanner", Level.OK, "scancode-toolkit 32.5.0 for licences")


def test_the_processors_features_are_read(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx2 avx512f\n\nprocessor\t: 1\nflags\t\t: fpu\n")
    assert doctor.cpu_flags(tmp_path / "cpuinfo") == {"fpu", "avx2", "avx512f"}


def test_a_package_that_cannot_be_imported_is_a_finding(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_home: Home) -> Finding:
        raise ImportError("No module named 'sqlalchemy'")

    monkeypatch.setattr(doctor, "ledger", broken)
    findings = {finding.check: finding for finding in doctor.examine(home)}
    assert findings["ledger"].level is Level.MISSING
    assert "sqlalchemy" in findings["ledger"].said


@pytest.mark.usefixtures("home")
def test_the_command_exits_with_3_when_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["doctor"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(doctor, "_free", lambda _root: 0)
    assert entry.main(["doctor", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    missing = [item for item in document["findings"] if item["level"] == "missing"]
    assert [item["check"] for item in missing] == ["disk"]
    assert missing[0]["next"]


def test_what_is_not_configured_is_not_mentioned(home: Home) -> None:
    assert doctor.broker(None) == doctor.registry(home, None) == doctor.gate(None, None) == []


def test_a_gate_without_an_identity_and_a_registry_without_certificates_are_faults(home: Home) -> None:
    [found] = doctor.gate("https://gate:8443", None)
    assert (found.level, found.said) == (Level.MISSING, "FARM_GATE is set without FARM_IDENTITY")
    [found] = doctor.registry(home, "https://registry:5000")
    assert (found.level, found.advice) == (Level.MISSING, "Make its configuration with them: farm registry")


def test_the_ledgers_database_is_named(home: Home, monkeypatch: pytest.MonkeyPatch, ledger_address: Path | str) -> None:
    home.create()
    if not isinstance(ledger_address, Path):
        monkeypatch.setenv("FARM_LEDGER_URL", ledger_address)
    with opened(ledger_address if not isinstance(ledger_address, Path) else home.ledger):
        pass
    found = doctor.ledger(home)
    kind = "SQLite 3." if isinstance(ledger_address, Path) else "PostgreSQL "
    assert (found.level, found.said.startswith(kind)) == (Level.OK, True)
    assert found.said.endswith(f", revision {HEAD}")
