"""`farm verify`, `farm inspect` and `farm keys` as a person or a pipeline meets them."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm import inspect, payload_check
from farm.cli import checks
from farm.cli.main import main
from farm.verify import Check, Report
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci_bundle import BundleView, PayloadView
from tests.support import bundles


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle whose binaries are text: the check of linked files is left out."""
    monkeypatch.setattr(payload_check, "check", bundles.no_check)
    monkeypatch.setattr(inspect, "read_hardening", lambda path, name: {"file": path.name, "for": name})
    (tmp_path / "key.pub").write_text(bundles.signer().public.pem)
    (tmp_path / "other.pub").write_text(bundles.signer(2).public.pem)
    return bundles.write(tmp_path / "cls", tmp_path / "work", version=None).path


def test_a_bundle_with_a_version_and_without_its_release_statement_lost_it(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bundles.write(bundle.parent / "released", bundle.parent / "work").path

    assert main(["verify", str(folder), "--key", str(bundle.parent / "key.pub")]) == 1

    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("NOT VERIFIED")
    assert Code.SIGNATURE_MISSING.number in err
    assert "it has the version 1.2.0" in out + err


def test_a_good_bundle_exits_with_0_and_says_verified(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(bundle), "--key", str(bundle.parent / "key.pub")]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("VERIFIED  cls  sha256:")
    assert all(line.startswith("ok") for line in lines[:-1])


def test_a_bad_bundle_exits_with_1_and_names_the_file(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = max((bundle / "blobs/sha256").iterdir())
    victim.write_bytes(b"flipped")

    assert main(["verify", str(bundle), "--key", str(bundle.parent / "key.pub")]) == 1

    out, err = capsys.readouterr()
    assert f"bad: blobs/sha256/{victim.name}" in err
    assert f"blobs/sha256/{victim.name}" in out
    assert out.splitlines()[-1].startswith("NOT VERIFIED")


def test_what_is_bad_of_no_file_is_named_by_its_check_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    error = FarmError(Code.TARGETS_INCOMPLETE, "more targets", "there is no payload for armv7", "Build for armv7 too.")

    checks.show(Report(signed=True, checks=[Check("targets", "stable", error=error)]))

    first, second = capsys.readouterr().err.splitlines()
    assert first == "bad: targets of stable  FARM-E1006 a target that the channel demands is missing"
    assert second == "  next: Build for armv7 too."


def test_a_repository_without_a_version_is_wrong_usage_with_an_example(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "localhost:1/media/cls", "--key", str(bundle.parent / "key.pub")]) == 2

    err = capsys.readouterr().err
    assert "localhost:1/media/cls names no version and no digest" in err
    assert "Write localhost:1/media/cls:1.2.0, or localhost:1/media/cls@sha256:..." in err


@pytest.fixture
def no_disassembler(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundle on a machine without the disassembler that one of its payloads needs."""

    def check(view: BundleView, payload: PayloadView) -> Iterator[tuple[str, str]]:
        if payload.target == "x86-64-v4":
            what = "the disassembler for x86-64 is missing"
            raise FarmError(Code.TOOL_MISSING, what, "it is not installed", "Run `make tools`.", {"file": "blobs/x"})
        yield from bundles.no_check(view, payload)

    monkeypatch.setattr(payload_check, "check", check)
    return bundle


def test_a_check_that_this_machine_cannot_make_exits_with_3_and_says_how_to_get_the_tool(
    no_disassembler: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(no_disassembler), "--key", str(no_disassembler.parent / "key.pub")]) == 3

    out, err = capsys.readouterr()
    assert "-- payload x86-64-v4 could not be checked on this machine: the disassembler" in " ".join(out.split())
    assert out.splitlines()[-1].startswith("NOT CHECKED TO THE END: this machine lacks something  cls  sha256:")
    assert "not checked: payload of x86-64-v4: FARM-E0730 the disassembler for x86-64 is missing" in err
    assert "Run `make tools`." in err
    assert not [word for word in ("BAD", "bad:", "NOT VERIFIED") if word in out + err]


def test_json_tells_a_check_that_could_not_be_made_from_a_refusal(
    no_disassembler: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(no_disassembler), "--key", str(no_disassembler.parent / "key.pub"), "--json"]) == 3

    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["signature"]) == (False, "incomplete")


def test_a_bad_payload_weighs_more_than_a_check_that_could_not_be_made(
    no_disassembler: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = max((no_disassembler / "blobs/sha256").iterdir())
    victim.write_bytes(b"flipped")

    assert main(["verify", str(no_disassembler), "--key", str(no_disassembler.parent / "key.pub")]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("NOT VERIFIED")


def test_the_wrong_key_exits_with_1(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(bundle), "--key", str(bundle.parent / "other.pub")]) == 1

    assert "FARM-E0513" in capsys.readouterr().err


def test_a_missing_key_file_exits_with_2(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(bundle), "--key", str(bundle.parent / "absent.pub")]) == 2

    assert "FARM-E0502" in capsys.readouterr().err


def test_without_a_key_the_command_says_what_to_give(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(bundle)]) == 2

    assert "--key NAME.pub" in capsys.readouterr().err


def test_integrity_alone_must_be_asked_for_and_is_said_loudly(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(bundle), "--no-signature"]) == 0

    out = capsys.readouterr().out
    assert "SIGNATURES WERE NOT CHECKED" in out
    assert out.splitlines()[-1].startswith("WHOLE, BUT NOT VERIFIED")


def test_a_key_and_no_signature_exclude_each_other(bundle: Path) -> None:
    assert main(["verify", str(bundle), "--no-signature", "--key", str(bundle.parent / "key.pub")]) == 2


def test_a_policy_that_refuses_exits_with_4(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = bundle.parent / "policy.toml"
    policy.write_text('schema = "verify-policy/1"\nnames = ["other"]\n')

    arguments = ["verify", str(bundle), "--key", str(bundle.parent / "key.pub"), "--policy", str(policy)]

    assert main(arguments) == 4
    assert "FARM-E0520" in capsys.readouterr().err


@pytest.mark.parametrize(("key", "status"), [("key.pub", 0), ("other.pub", 1)])
def test_json_is_one_document_either_way(
    bundle: Path, capsys: pytest.CaptureFixture[str], key: str, status: int
) -> None:
    assert main(["verify", str(bundle), "--key", str(bundle.parent / key), "--json"]) == status

    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["ok"]) == ("verify-report/1", status == 0)
    assert [check["ok"] for check in report["checks"]].count(False) == (0 if status == 0 else 3)


def test_inspect_prints_targets_files_and_hardening(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bundle)]) == 0

    out = capsys.readouterr().out
    assert out.startswith("cls (no version)  sha256:")
    assert "\nx86-64-v4  sha256:" in out
    assert "kernels.so" in out
    assert "https://slsa.dev/provenance/v1" in out


def test_inspect_as_json_has_the_digest_and_the_targets(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bundle), "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["digest"].startswith("sha256:")
    assert set(found["targets"]) == {"x86-64-v3", "x86-64-v4"}


def test_inspect_prints_a_single_file(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bundle / "media.idx")]) == 0

    assert capsys.readouterr().out.startswith("device index  sha256:")


def test_keys_are_made_listed_and_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))

    assert main(["keys", "new", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert stat.S_IMODE(Path(made["private"]).stat().st_mode) == 0o600
    assert main(["keys", "new"]) == 2
    assert main(["keys", "new", "--name", "release"]) == 0
    capsys.readouterr()

    assert main(["keys", "list", "--json"]) == 0
    assert [item["name"] for item in json.loads(capsys.readouterr().out)["keys"]] == ["default", "release"]
    assert main(["keys", "export"]) == 0
    assert capsys.readouterr().out == Path(made["public"]).read_text()
    assert main(["keys", "export", "--name", "release", "--out", str(tmp_path / "release.pub")]) == 0
    assert (tmp_path / "release.pub").read_text().startswith("-----BEGIN PUBLIC KEY-----")


def test_a_forced_key_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))
    main(["keys", "new", "--json"])
    first = json.loads(capsys.readouterr().out)

    assert main(["keys", "new", "--force", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["keyid"] != first["keyid"]
