"""`farm worker enrol | list | revoke`, `farm serve`, `farm registry` as somebody types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.cli.main import main
from kernelfarm.errors import Status


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FARM_REGISTRY", raising=False)
    return tmp_path / "home"


def enrol(tmp_path: Path, name: str = "builder-7", *more: str) -> int:
    return main(["worker", "enrol", name, "--out", str(tmp_path / f"{name}.pem"), *more])


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, bool]:
    """Enrolled workers, and which of them are revoked."""
    capsys.readouterr()
    assert main(["worker", "list", "--json"]) == Status.DONE
    document = json.loads(capsys.readouterr().out)
    return {each["name"]: each["revoked_at"] is not None for each in document["workers"]}


def test_enrol_list_revoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys) == {}
    assert enrol(tmp_path) == Status.DONE
    identity = tmp_path / "builder-7.pem"
    assert identity.stat().st_mode & 0o777 == 0o600
    assert listed(capsys) == {"builder-7": False}
    assert main(["worker", "revoke", "builder-7"]) == Status.DONE
    assert main(["worker", "revoke", "builder-7"]) == Status.DONE
    assert listed(capsys) == {"builder-7": True}
    before = identity.read_bytes()
    assert enrol(tmp_path) == Status.USAGE
    assert identity.read_bytes() == before
    assert enrol(tmp_path, "builder-7", "--force") == Status.DONE
    assert listed(capsys) == {"builder-7": False}
    assert identity.read_bytes() != before


def test_an_enrolled_name_is_not_enrolled_into_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert enrol(tmp_path) == Status.DONE
    assert main(["worker", "enrol", "builder-7", "--out", str(tmp_path / "other.pem")]) == Status.USAGE
    assert "FARM-E0644" in capsys.readouterr().err
    assert not (tmp_path / "other.pem").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["worker", "revoke", "nobody"], "FARM-E0645"),
        (["worker", "revoke", "../nobody"], "FARM-E0643"),
        (["worker", "enrol", "Builder", "--out", "x.pem"], "FARM-E0643"),
        (["worker", "--gate", "https://127.0.0.1:1"], "FARM-E0101"),
        (["worker", "--broker", "redis://127.0.0.1:1", "--name", "gate:alice"], "FARM-E0101"),
        (["serve"], "FARM-E0101"),
        (["serve", "--registry", "http://127.0.0.1:1"], "FARM-E0101"),
        (["serve", "--registry", "https://127.0.0.1:1", "--listen", "8443"], "FARM-E0101"),
        (["registry"], "FARM-E0101"),
    ],
)
def test_wrong_usage_is_told(
    arguments: list[str], code: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == Status.USAGE
    assert code in capsys.readouterr().err
    assert list(tmp_path.glob("*.pem")) == []


def test_a_gate_that_is_not_there_is_an_environment_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enrol(tmp_path)
    identity = str(tmp_path / "builder-7.pem")
    assert main(["worker", "--gate", "https://127.0.0.1:1", "--identity", identity]) == Status.ENVIRONMENT
    assert "FARM-E0640" in capsys.readouterr().err


def test_an_address_that_is_not_here_cannot_be_listened_at(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["serve", "--registry", "https://127.0.0.1:1", "--listen", "192.0.2.77:1"]
    assert main(asked) == Status.ENVIRONMENT
    assert "FARM-E0640" in capsys.readouterr().err


def test_the_registrys_configuration_is_written_where_it_says(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["registry", "--storage", str(tmp_path / "blobs")]) == Status.DONE
    path = home / "gate/registry.yml"
    assert capsys.readouterr().out.splitlines() == [str(path), f"Start it with: docker-registry serve {path}"]
    assert json.loads(path.read_text())["storage"]["filesystem"] == {"rootdirectory": str(tmp_path / "blobs")}
