"""media-run: what it prints, its exit statuses, and which payload it chooses."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import device
from tests.support.device import Tiny


def media_run(*arguments: str | Path) -> tuple[int, str, str]:
    answer = device.run(device.runtime() / "media-run", *arguments)
    return answer.returncode, answer.stdout, answer.stderr


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return device.write(tmp_path / "bundle", device.tiny())


@pytest.fixture
def x(tmp_path: Path) -> Path:
    (tmp_path / "x.bin").write_bytes(device.INPUT)
    return tmp_path / "x.bin"


def test_it_computes_what_the_kernels_say(bundle: Path, x: Path, tmp_path: Path) -> None:
    status, said, errors = media_run(bundle, "--input", f"x={x}", "--output", f"y={tmp_path / 'y.bin'}")

    assert (status, said, errors) == (0, "", "")
    assert (tmp_path / "y.bin").read_bytes() == device.EXPECTED


@pytest.mark.parametrize("ranges", [2, 3, 64, 1000])
def test_the_cut_into_ranges_changes_nothing(bundle: Path, x: Path, tmp_path: Path, ranges: int) -> None:
    y = tmp_path / "y.bin"

    assert media_run(bundle, "--input", f"x={x}", "--output", f"y={y}", "--partitions", str(ranges))[0] == 0
    assert y.read_bytes() == device.EXPECTED


def test_list_shows_the_target_and_the_tensors(bundle: Path) -> None:
    assert media_run(bundle, "--list") == (
        0,
        "target tiny\nir 0.1.0\nabi 1\noperations 2\nfunctions 2\narena_bytes 4096\nweights_bytes 4096\n"
        f"kernel_bytes {len(device.tiny().kernels)}\ninput x f32 1x1024 4096\noutput y f32 1x1024 4096\n",
        "",
    )


def test_repeat_prints_the_times_of_the_runs(bundle: Path, x: Path) -> None:
    status, said, _ = media_run(bundle, "--input", f"x={x}", "--repeat", "20")

    assert status == 0
    found = re.fullmatch(
        r"time repeat=20 wall_best_ns=(\d+) wall_median_ns=(\d+) cpu_best_ns=(\d+) cpu_median_ns=(\d+)\n", said
    )
    assert found is not None
    assert 0 < int(found[1]) <= int(found[2])
    assert 0 < int(found[3]) <= int(found[4])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "FOLDER: is missing"),
        (["a", "b"], "b: only one folder"),
        (["a", "--fast"], "--fast: no such option"),
        (["a", "--repeat"], "--repeat: needs a value"),
        (["a", "--self-test", "--repeat", "2"], "--self-test: takes no inputs"),
        (["a", "--list", "--self-test"], "--self-test: takes no inputs"),
        (["a", "--repeat", "0"], "--repeat: its value is out of range"),
        (["a", "--repeat", "1e3"], "--repeat: its value is out of range"),
        (["a", "--partitions", "-1"], "--partitions: its value is out of range"),
        (["a", "--threads", "0"], "--threads: its value is out of range"),
        (["a", "--threads", "65"], "--threads: its value is out of range"),
        (["a", "--target", "t", "--target", "t"], "--target: its value is out of range or given twice"),
    ],
)
def test_wrong_usage_is_status_2(arguments: list[str], said: str) -> None:
    status, _, errors = media_run(*arguments)

    assert status == 2
    assert said in errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "x: no --input gives a file"),
        (["--input", "z=FILE"], "z=FILE: the model has no such tensor"),
        (["--input", "x"], "x: the model has no such tensor"),
        (["--input", "x="], "x=: the model has no such tensor"),
        (["--input", "x=FILE", "--input", "x=FILE"], "x: given twice"),
        (["--input", "x=FILE", "--output", "x=FILE"], "x=FILE: the model has no such tensor"),
        (["--target", "other"], "E15 target: other"),
    ],
)
def test_names_that_do_not_fit_the_model_are_status_2(bundle: Path, x: Path, arguments: list[str], said: str) -> None:
    status, _, errors = media_run(bundle, *(argument.replace("FILE", str(x)) for argument in arguments))

    assert status == 2
    assert said in errors.replace(str(x), "FILE")


def test_an_input_of_the_wrong_size_is_refused(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(device.INPUT[:-4])

    status, _, errors = media_run(bundle, "--input", f"x={tmp_path / 'short'}")

    assert status == 1
    assert errors == "media-run: E20 tensor: input x: has 4092 bytes, must have 4096\n"


def test_an_input_that_is_too_large_is_refused_before_it_is_read(bundle: Path, tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 39)

    status, _, errors = media_run(bundle, "--input", f"x={tmp_path / 'sparse'}")

    assert status == 1
    assert errors.endswith("/sparse: has 549755813888 bytes, at most 4096\n")


@pytest.mark.parametrize("arguments", [["--list"], ["--input", "x=FILE", "--repeat", "2"]])
def test_results_that_nobody_can_take_are_status_3(bundle: Path, x: Path, arguments: list[str]) -> None:
    program = device.runtime() / "media-run"
    with Path("/dev/full").open("wb") as full:
        words = [argument.replace("FILE", str(x)) for argument in arguments]
        ended = subprocess.run([program, bundle, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (3, "media-run: standard output: cannot be written\n")


@pytest.mark.parametrize("place", ["missing", "folder"])
def test_an_input_that_cannot_be_read_is_status_3(bundle: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()

    assert media_run(bundle, "--input", f"x={tmp_path / place}")[0] == 3


def test_an_output_that_cannot_be_written_is_status_3(bundle: Path, x: Path) -> None:
    assert media_run(bundle, "--input", f"x={x}", "--output", "y=/dev/full")[0] == 3
    assert Path("/dev/full").is_char_device()  # what is not a file is never removed
    assert media_run(bundle, "--input", f"x={x}", "--output", "y=/nowhere/at/all")[0] == 3


def test_the_highest_preference_that_runs_is_taken(tmp_path: Path) -> None:
    plain = device.tiny()
    bundle = device.write(
        tmp_path / "bundle",
        replace(plain, target="generic", preference=1),
        replace(plain, target="better", preference=20),
        replace(plain, target="of-tomorrow", preference=30, cpu_features=1 << 60),
    )

    assert media_run(bundle, "--list")[1].startswith("target better\n")
    assert media_run(bundle, "--list", "--target", "generic")[1].startswith("target generic\n")


def test_missing_processor_features_are_named(tmp_path: Path) -> None:
    bundle = device.write(tmp_path / "bundle", replace(device.tiny(), target="of-tomorrow", cpu_features=1 << 60))

    status, _, errors = media_run(bundle, "--list")

    assert status == 4
    assert errors == "media-run: E14 cpu: this processor lacks what of-tomorrow needs: feature 60\n"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"abi_version": 2}, "E11 abi: the kernels are for device ABI 2, this runtime has 1"),
        ({"ir_version": "1.0.0"}, "E12 ir-version: the kernels have IR version 1.x, this runtime takes 0.x"),
        ({"machine": 183}, "E13 machine: no payload for this machine: it is for ELF machine 183, this runtime has 62"),
    ],
)
def test_kernels_for_something_else_are_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    bundle = device.write(tmp_path / "bundle", replace(device.tiny(), **change))  # type: ignore[arg-type]

    status, _, errors = media_run(bundle, "--list")

    assert status == 4
    assert said in errors


def test_a_later_minor_ir_version_is_taken(tmp_path: Path) -> None:
    later = Tiny(device.kernels(tmp_path, ["KF_TEST_IR=KF_VERSION(0,9,3)"]), ir_version="0.9.3")

    status, said, _ = media_run(device.write(tmp_path / "bundle", later), "--list")

    assert status == 0
    assert "ir 0.9.3\n" in said


def test_a_header_that_contradicts_its_table_is_refused(tmp_path: Path) -> None:
    bundle = device.write(tmp_path / "bundle", replace(device.tiny(), ir_version="0.2.0"))

    status, _, errors = media_run(bundle, "--list")

    assert status == 1
    assert "E18 table: entry table: other versions than its payload header" in errors


def test_the_same_inputs_give_the_same_bytes_in_two_bundles_of_two_models(tmp_path: Path, x: Path) -> None:
    other = Tiny(device.kernels(tmp_path, ["SCALE=4.0f"]))
    bundle = device.write(tmp_path / "bundle", other)

    media_run(bundle, "--input", f"x={x}", "--output", f"y={tmp_path / 'y'}")

    doubled = bytearray(device.EXPECTED)
    for k in range(1, device.N):  # times two is one more in the exponent
        value = int.from_bytes(doubled[4 * k : 4 * k + 4], "little") + (1 << 23)
        doubled[4 * k : 4 * k + 4] = value.to_bytes(4, "little")
    assert (tmp_path / "y").read_bytes() == bytes(doubled)
