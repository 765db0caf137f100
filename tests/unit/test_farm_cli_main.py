"""The entry point: quick help, one place for every error, an exit status per class, JSON where it is asked for."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from farm.cli import main as entry
from farm.cli import output
from kernelfarm.errors import Code, FarmError
from toolchains import target

HEAVY = ("alembic", "cryptography", "cyclonedx", "mlir", "numpy", "onnx", "rich", "sqlalchemy")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def python(code: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=check, env=dict(os.environ), timeout=60)


def loaded_after(*arguments: str) -> str:
    """A program that runs a command and then prints which of the heavy modules are loaded."""
    run = f"from farm.cli.main import main; main({list(arguments)!r})"
    return f"import sys; {run}; print(sorted(set({HEAVY!r}) & set(sys.modules)))"


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    text = python(loaded_after("--help")).stdout
    lines = text.splitlines()
    assert lines[-1] == "[]"
    for name in entry.COMMANDS:
        assert any(line.split()[:1] == [name] for line in lines), name


def test_a_build_does_not_load_the_schema_validator_of_bills() -> None:
    # It costs a second at each start; `farm verify` and `farm audit` load it when they validate.
    assert python("import sys, farm.build, sbom.read; print('jsonschema' in sys.modules)").stdout == "False\n"


@pytest.mark.parametrize("name", [*sorted(entry.COMMANDS), "keys new", "keys list", "keys export"])
def test_the_help_of_a_command_has_examples_and_loads_nothing_heavy(name: str) -> None:
    text = python(loaded_after(*name.split(), "--help")).stdout
    assert text.splitlines()[-1] == "[]"
    assert "Examples:" in text
    assert f"farm {name}" in text


def test_an_error_is_code_what_why_and_next_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["targets", "x86-64-v5"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    what, why, next_step = captured.err.splitlines()
    assert what == "error FARM-E0102: unknown target 'x86-64-v5'"
    assert why == f"  why:  the targets are {', '.join(target.names())}"
    assert next_step.startswith("  next: Did you mean x86-64-v4 or x86-64-v3")


def test_with_json_the_error_is_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["targets", "x86-64-v5", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["status"]) == ("FARM-E0102", 2)
    assert error["detail"]["nearest"][:2] == ["x86-64-v4", "x86-64-v3"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["biuld"],
        ["build"],
        ["build", "m.onnx"],
        ["build", "m.onnx", "-t", "x86-64-v3", "--jobs", "0"],
        ["build", "m.onnx", "-t", "x86-64-v3", "--shape", "1y2"],
        ["build", "m.onnx", "-t", "x86-64-v3", "--runner", "other"],
        ["build", "m.onnx", "-t", "nothing-like-it"],
        ["targets", "--no-such-option"],
        ["status", "7"],
        ["status", "b9"],
        ["logs", "r9"],
        ["logs"],
        ["bench", "m.onnx", "-t", "x86-64-v3", "-t", "x86-64-v4"],
        ["build", "m.onnx", "-t", "x86-64-v3", "--out", "a", "--out", "b"],
        ["build", "m.onnx", "-t", "x86-64-v3", "--name", "../m"],
        ["build", "m.onnx", "-t", "x86-64-v3", "--name", "a\nb"],
        ["build", "m.onnx", "-t", "x86-64-v3", "--name", ""],
        ["build", "m.onnx", "-t", "x86-64-v3", "--name", "caf\udce9"],
        ["build", "m.onnx", "-t", "x86-64-v3", "--key", "../k"],
        ["build", "m.onnx", "-t", "x86-64-v3", "--version", "v1"],
        ["verify", "bundle", "--key", "k.pub", "--no-signature"],
        ["keys", "export", "--name", "a", "--name", "b"],
        ["keys", "new", "--name", ""],
        ["signer", "--idle", "nan"],
        ["signer", "--idle", "inf"],
        ["signer", "--idle", "-1"],
    ],
    ids=repr,
)
def test_wrong_usage_is_status_2_with_a_code_and_without_a_traceback(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("error FARM-E")
    assert "\n  why:  " in err
    assert "\n  next: " in err
    assert "Traceback" not in err


def test_a_mistyped_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["biuld"]) == 2
    assert "Did you mean `farm build` or `farm rebuild`?" in capsys.readouterr().err


def test_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["TARGET", "TRIPLE", "CPU", "VECTORS", "SUMMARY"]
    assert tuple(line.split()[0] for line in lines[1:]) == target.names()


def test_devices_are_listed_with_their_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["targets", "--devices"]) == 0
    assert re.search(r"^device:raspberry-pi-5 +aarch64 +Broadcom BCM2712", capsys.readouterr().out, re.MULTILINE)
    assert entry.main(["targets", "--devices", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["devices"]["raspberry-pi-4"]["target"]) == ("devices/1", "armv7")


def test_a_device_is_shown_as_its_target_and_an_unknown_one_gets_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert entry.main(["targets", "device:beaglebone-black"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["target", "armv7"]
    for command in (["targets"], ["build", "m.onnx", "-t"], ["check", "m.onnx", "-t"], ["bench", "m.onnx", "-t"]):
        assert entry.main([*command, "device:beagle-bone"]) == 2
        assert "Did you mean device:beaglebone-black" in capsys.readouterr().err
        assert entry.main([*command, "raspberry-pi-5"]) == 2
        assert "Did you mean device:raspberry-pi-5" in capsys.readouterr().err
        assert entry.main([*command, "device:"]) == 2
        assert "Write device:NAME, such as device:" in capsys.readouterr().err


def test_one_target_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["targets", "x86-64-v3", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "targets/1"
    assert document["targets"]["x86-64-v3"]["vector"]["bytes"] == 32


def test_a_fault_of_the_farm_itself_shows_no_traceback_and_keeps_one(home: Path) -> None:
    code = (
        "import sys; from farm.cli import main; "
        "main.invoke = lambda _: 1 / 0; sys.argv = ['farm', 'targets', '--json']; sys.exit(main.main())"
    )
    ended = python(code, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert json.loads(ended.stdout)["error"]["code"] == "FARM-E0901"
    kept = list((home / "logs").glob("fault-*.txt"))
    assert len(kept) == 1
    assert "ZeroDivisionError" in kept[0].read_text()


def test_a_reader_that_leaves_early_is_no_fault() -> None:
    code = "import sys; from farm.cli.main import main; sys.argv = ['farm', 'targets']; sys.exit(main())"
    process = subprocess.Popen([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (3, b"")


def test_standard_output_that_takes_nothing_has_a_code(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from farm.cli.main import main; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
        "sys.argv = ['farm', 'targets']; sys.exit(main())"
    )
    with (tmp_path / "out").open("wb") as full:
        ended = subprocess.run([sys.executable, "-I", "-c", code], stdout=full, stderr=subprocess.PIPE, timeout=30)
    assert ended.returncode == 3
    assert ended.stderr.splitlines()[0] == b"error FARM-E0705: the output could not be read or written"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_fault_and_no_file_takes_their_place(tmp_path: Path, closed: str) -> None:
    code = (
        "import os, sys; from farm.cli import main\n"
        "def look(_):\n    got = os.open('opened', os.O_WRONLY | os.O_CREAT)\n    print('said')\n"
        "    return 7 if got > 2 else 1\n"
        "main.invoke = look; sys.argv = ['farm', 'targets']; sys.exit(main.main())"
    )
    (tmp_path / "code.py").write_text(code)
    ended = subprocess.run(
        ["sh", "-c", f"{sys.executable} -I code.py {closed}"],
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (7, b"")
    assert (tmp_path / "opened").read_bytes() == b""


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("FARM_HOME", "~nobody-of-this-name/farm", 2),
        ("FARM_LEDGER_URL", "nonsense", 3),
        ("FARM_LEDGER_URL", "postgresql+nosuchdriver://localhost/x", 3),
        ("FARM_CPU_S", "1e300", 2),
        ("FARM_LEASE_S", "nan", 2),
    ],
)
def test_a_wrong_setting_is_an_error_with_a_code(
    name: str, value: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    assert entry.main(["status"]) == status
    assert capsys.readouterr().err.startswith("error FARM-E")


def test_a_working_folder_that_is_gone_is_said_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(_: list[str]) -> None:
        raise FileNotFoundError(2, "No such file or directory")  # what os.getcwd raises: it names no file

    monkeypatch.setattr(entry, "invoke", gone)
    assert entry.main(["targets"]) == 3
    assert capsys.readouterr().err.startswith("error FARM-E0704: the working folder does not exist any more")


def test_a_command_under_nohup_survives_the_end_of_its_terminal() -> None:
    code = (
        "import signal, sys, time; from farm.cli import main\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "def wait(_):\n    print('ready', flush=True)\n    time.sleep(0.5)\n"
        "main.invoke = wait; sys.argv = ['farm', 'targets']; sys.exit(main.main())"
    )
    process = subprocess.Popen([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_with_status_130(number: signal.Signals) -> None:
    code = (
        "import sys, time; from farm.cli import main\n"
        "def wait(_):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "main.invoke = wait; sys.argv = ['farm', 'targets']; sys.exit(main.main())"
    )
    process = subprocess.Popen([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    _out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"FARM-E0103" in err
    assert b"Traceback" not in err


def test_a_file_name_that_no_encoding_knows_can_be_shown() -> None:
    code = (
        "import sys; from farm.cli.main import main; "
        "sys.argv = ['farm', 'build', 'caf\\udce9.onnx', '-t', 'nothing-like-it', '--json']; sys.exit(main())"
    )
    assert python(code, check=False).returncode == 2


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main([]) == 0
    assert capsys.readouterr().out.startswith("Usage: farm")


def test_control_characters_of_a_model_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_error(FarmError(Code.MODEL_INVALID, "node 'a\x1b[2Jb\r'", "目录\x07"))
    assert capsys.readouterr().err.splitlines() == [
        "error FARM-E0201: node 'a\\x1b[2Jb\\r'",
        "  why:  目录\\x07",
    ]


def test_a_table_is_aligned() -> None:
    text = output.table(["name", "size"], [["a", "1 B"], ["longer", ""]])
    assert text == "NAME    SIZE\na       1 B\nlonger"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 << 10, "1.5 MiB"), (5 << 30, "5.0 GiB")],
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert output.size(count) == text


def test_no_colours_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    entry.main(["doctor"])
    assert "\033" not in capsys.readouterr().out


def test_help_is_quick() -> None:
    # The bar is 0.3 s for the median of 5 on a quiet machine; here only a wrong import would show.
    code = "from farm.cli.main import main; main(['--help'])"
    took = []
    for _ in range(3):
        begun = time.perf_counter()
        python(code)
        took.append(time.perf_counter() - begun)
    assert min(took) < 1.0
