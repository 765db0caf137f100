"""A policy demands more than a whole, signed bundle; what it refuses has its own status."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm import policy
from farm.verify import Report, verify_bundle
from kernelfarm.errors import Code, FarmError, Status
from tests.support import bundles


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return bundles.write(tmp_path / "cls", tmp_path / "work").path


def report_on(bundle: Path, text: str, *, signed: bool = True) -> Report:
    path = bundle.parent / "policy.toml"
    path.write_text(f'schema = "verify-policy/1"\n{text}\n')
    public = bundles.signer().public if signed else None
    return verify_bundle(bundle, public, policy=policy.load(path), check_payload=bundles.no_check)


@pytest.mark.parametrize(
    "text",
    [
        "",
        'names = ["cls", "det"]',
        'targets = ["x86-64-v4"]',
        'builders = ["urn:kernel-farm:builder:process:1"]',
        f'models = ["{bundles.MODEL.digest}"]',
        'tools = { ziglang = "0.17.0" }',
    ],
)
def test_what_the_policy_demands_is_met(bundle: Path, text: str) -> None:
    report = report_on(bundle, text)

    assert (report.ok, report.checks[-1].name) == (True, "policy")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('names = ["det"]', "'cls' is not among det"),
        ('targets = ["x86-64-v4", "aarch64-a55"]', "no payload for aarch64-a55"),
        ('builders = ["urn:kernel-farm:builder:docker:1"]', "urn:kernel-farm:builder:process:1 is not among"),
        ('models = ["sha256:0"]', f"{bundles.MODEL.digest} is not among"),
        ('tools = { ziglang = "0.16.0" }', "ziglang was 0.17.0, not 0.16.0"),
        ('tools = { gcc = "14" }', "gcc was not used, not 14"),
    ],
)
def test_what_the_policy_refuses_ends_with_its_own_status(bundle: Path, text: str, why: str) -> None:
    report = report_on(bundle, text)

    (error,) = report.errors
    assert (error.code, report.status) == (Code.POLICY_REFUSED, Status.REFUSED)
    assert why in error.why


def test_a_policy_rests_on_signatures(bundle: Path) -> None:
    report = report_on(bundle, "", signed=False)

    assert report.status is Status.REFUSED


def test_a_bad_bundle_is_bad_before_any_policy(bundle: Path) -> None:
    (bundle / "media.idx").unlink()

    assert report_on(bundle, 'names = ["det"]').status is Status.BAD


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "",
        'schema = "verify-policy/2"',
        'schema = "verify-policy/1"\nname = ["cls"]',
        'schema = "verify-policy/1"\nnames = "cls"',
        'schema = "verify-policy/1"\nnames = [1]',
        'schema = "verify-policy/1"\ntools = ["zig"]',
        'schema = "verify-policy/1"\ntools = { zig = 1 }',
    ],
)
def test_a_policy_that_is_not_understood_is_wrong_usage(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.toml").write_text(text)

    with pytest.raises(FarmError) as caught:
        policy.load(tmp_path / "p.toml")

    assert (caught.value.code, caught.value.status) == (Code.POLICY_INVALID, Status.USAGE)


def test_a_missing_policy_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        policy.load(tmp_path / "absent.toml")

    assert caught.value.code is Code.POLICY_INVALID


def test_the_policy_release_refuses_what_a_bare_process_compiled(bundle: Path) -> None:
    release = policy.find(Path("release"))
    report = verify_bundle(bundle, bundles.signer().public, policy=release, check_payload=bundles.no_check)

    (error,) = report.errors
    assert (error.code, report.status) == (Code.POLICY_REFUSED, Status.REFUSED)
    assert release.builders == ("urn:kernel-farm:builder:bubblewrap:1", "urn:kernel-farm:builder:docker:1")


def test_a_file_that_is_named_like_a_built_in_policy_needs_a_path(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('schema = "verify-policy/1"\nnames = ["cls"]\n')

    assert policy.find(Path("release")) is policy.RELEASE
    assert policy.find(tmp_path / "release").names == ("cls",)
