"""The gates of a release: each refuses what it should, and says what to do."""

from __future__ import annotations

import contextlib
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from farm import verify as bundle_check
from farm.cli import verify as verify_command
from farm.licences import judging
from farm.release import channels, record, release, stamp, standing
from farm.release.channels import Apart, Channel
from farm.release.release import Outcome, Past
from kernelfarm import digest, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, Status
from sbom.licence import policy as policies
from sbom.licence.nouns import Decision
from signing import dsse, verify
from signing.comparison import COMPARISON
from signing.keys import PublicKey
from signing.licences import LICENCES
from signing.release import RELEASE, released_of
from tests.support import bundles, releases
from tests.support.releases import PREVIEW, Farm


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Farm:
    releases.sign_here(monkeypatch)
    return releases.farm(tmp_path)


def refused(made: Outcome) -> set[Code]:
    assert made.path is None
    assert made.report.status is Status.REFUSED
    assert all(error.next_step for error in made.report.errors)
    return {error.code for error in made.report.errors}


def test_a_first_release_is_1_0_0_and_keeps_every_payload(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built)

    made = farm.release(built)

    assert made.report.ok
    assert (made.version, made.unchanged) == ("1.0.0", False)
    assert made.path is not None
    released, before = oci_bundle.read(made.path).require(), oci_bundle.read(built).require()
    assert (released.version, released.digest) == ("1.0.0", made.digest)
    assert [item.digest for item in released.payloads] == [item.digest for item in before.payloads]
    report = bundles.verified(made.path, farm.public)
    assert report.ok
    assert "release" in {check.name for check in report.checks}


def test_the_same_bundle_again_is_the_same_release(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built)
    first = farm.release(built)
    assert first.path is not None
    before = {path: path.read_bytes() for path in bundles.plain_files(first.path)}

    again = farm.release(built)

    assert (again.version, again.digest, again.unchanged) == ("1.0.0", first.digest, True)
    assert {path: path.read_bytes() for path in bundles.plain_files(first.path)} == before


def test_one_build_is_not_enough(farm: Farm) -> None:
    made = farm.release(farm.build())

    assert refused(made) == {Code.BUILDS_TOO_FEW}
    assert len(made.report.errors) == len(bundles.TARGETS)
    assert not (farm.root / "releases").exists()


def test_every_payload_needs_its_builds(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built, targets=["x86-64-v3"])

    (error,) = farm.release(built).report.errors

    assert (error.code, error.detail["target"]) == (Code.BUILDS_TOO_FEW, "x86-64-v4")


def test_the_same_worker_twice_is_one(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built, worker=bundles.WORKER["worker"])

    assert refused(farm.release(built)) == {Code.BUILDS_TOO_FEW}


def test_a_worker_that_is_not_on_record_counts_for_nothing(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built, worker="")

    assert refused(farm.release(built)) == {Code.BUILDS_TOO_FEW}


def test_a_channel_may_demand_different_hosts(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built, host=bundles.WORKER["name"])
    apart = replace(PREVIEW, apart=Apart.HOST)
    assert refused(farm.release(built, channel=apart)) == {Code.BUILDS_TOO_FEW}
    assert farm.release(built).report.ok

    farm.rebuild(built, worker=bundles.WORKER["worker"], host="third-host")  # each host may call its worker the same

    assert farm.release(built, channel=apart, out="apart", version="1.0.1").report.ok


def test_one_build_that_disagrees_blocks_however_many_agree(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built)
    farm.rebuild(built, worker="third", targets=["x86-64-v4"], same=False)

    (error,) = farm.release(built).report.errors

    assert (error.code, error.detail["target"]) == (Code.BUILDS_DISAGREE, "x86-64-v4")
    assert error.detail["files"] == ["kernels.so"]


def test_an_incomplete_matrix_is_refused(farm: Farm) -> None:
    built = farm.build(targets=["x86-64-v3"])
    farm.rebuild(built)

    made = farm.release(built, channel=Channel("all", ("aarch64", "x86-64-v3")))

    assert refused(made) == {Code.TARGETS_INCOMPLETE}
    assert made.report.errors[0].why == "there is no payload for aarch64"


def test_a_pre_release_does_not_go_to_stable(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built)

    assert refused(farm.release(built, pre="rc", channel=replace(PREVIEW, prerelease=False))) == {Code.CHANNEL_REFUSED}


def test_stable_takes_nothing_from_a_bare_process(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built)

    made = farm.release(built, channel=replace(channels.built_in()["stable"], targets=(), licences=False))

    assert refused(made) == {Code.POLICY_REFUSED}


OTHER_POLICY = digest.of_bytes(b"a policy that allows everything")


@pytest.mark.parametrize(
    ("decision", "policy", "demanded", "code"),
    [
        (Decision.ALLOW, None, True, None),
        (Decision.REVIEW, None, False, None),
        (Decision.REVIEW, None, True, Code.LICENCE_REVIEW),
        (Decision.DENY, None, False, Code.LICENCE_DENIED),
        (None, None, False, Code.LICENCE_REVIEW),  # a denial that somebody took away is no better than a denial
        (None, None, True, Code.LICENCE_REVIEW),
        (Decision.ALLOW, OTHER_POLICY, False, Code.LICENCE_REVIEW),
        (Decision.ALLOW, OTHER_POLICY, True, Code.LICENCE_REVIEW),
    ],
)
def test_a_release_needs_verdicts_of_its_own_policy(
    farm: Farm, decision: Decision | None, policy: Digest | None, demanded: bool, code: Code | None
) -> None:
    built = farm.build(decision=decision, policy=policy)
    farm.rebuild(built)

    made = farm.release(built, channel=replace(PREVIEW, licences=demanded))

    assert {error.code for error in made.report.errors} == ({code} if code else set())


def test_a_channel_may_list_the_policies_that_count(farm: Farm) -> None:
    built = farm.build(policy=OTHER_POLICY)
    farm.rebuild(built)

    assert farm.release(built, channel=replace(PREVIEW, policies=(OTHER_POLICY,))).report.ok


def test_the_version_follows_from_what_changed(farm: Farm) -> None:
    farm.released()
    built = farm.build("second", salt="fixed")
    farm.rebuild(built)
    assert farm.release(built).version == "1.0.1"
    smaller = farm.build("third", targets=["x86-64-v3"])
    farm.rebuild(smaller)

    made = farm.release(smaller)

    assert made.version == "2.0.0"
    assert made.verdict is not None
    assert made.verdict.reasons[0] == "major: the target x86-64-v4 is dropped"
    (told,) = (check.found for check in made.report.checks if check.name == "version")
    assert told == f"2.0.0 after 1.0.1: {'; '.join(made.verdict.reasons)}"


@pytest.mark.parametrize("chosen", [{"bump": "patch"}, {"bump": "minor"}, {"version": "1.9.0"}])
def test_a_lower_bump_is_refused_with_the_reason(farm: Farm, chosen: dict[str, str]) -> None:
    farm.released()
    smaller = farm.build("second", targets=["x86-64-v3"])
    farm.rebuild(smaller)

    made = farm.release(smaller, **chosen)  # type: ignore[arg-type]

    assert refused(made) == {Code.BUMP_TOO_LOW}
    assert "the target x86-64-v4 is dropped" in made.report.errors[0].why


def test_pre_releases_count_up_and_the_final_one_follows(farm: Farm) -> None:
    found = []
    for number in range(1, 12):
        built = farm.build("built", salt=str(number))
        farm.rebuild(built)
        found.append(farm.release(built, pre="rc").version)
    final = farm.release(built)

    assert found == [f"1.0.0-rc.{number}" for number in range(1, 12)]
    assert (final.version, final.unchanged) == ("1.0.0", False)
    assert farm.release(built, pre="rc").unchanged is False


def test_a_pre_release_of_a_form_of_its_own_is_no_final_release(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built)
    assert farm.release(built, version="1.0.0-rc1").version == "1.0.0-rc1"

    made = farm.release(built)

    assert (made.version, made.unchanged) == ("1.0.0", False)


def test_a_release_is_for_the_channel_that_its_statement_names(farm: Farm) -> None:
    built = farm.build()
    farm.rebuild(built)
    assert farm.release(built).report.ok
    careful = replace(PREVIEW, name="careful", licences=True)

    made = farm.release(built, channel=careful, out="careful")

    assert refused(made) == {Code.CHANNEL_REFUSED}
    assert "--version 1.0.1" in made.report.errors[0].next_step
    assert farm.release(built, channel=careful, out="careful", version="1.0.1").report.ok


def test_a_bump_that_was_made_is_not_made_again(farm: Farm) -> None:
    farm.released()
    built = farm.build("second", salt="fixed")
    farm.rebuild(built)

    found = [farm.release(built, bump=bump).version for bump in ("minor", "minor", "patch", "major", "major")]

    assert found == ["1.1.0", "1.1.0", "1.1.0", "2.0.0", "2.0.0"]


def test_a_release_again_is_compared_with_what_it_was_compared_with(farm: Farm) -> None:
    farm.released()
    built = farm.build("second", salt="fixed")
    farm.rebuild(built)
    first = farm.release(built)
    assert first.path is not None
    shutil.rmtree(first.path)

    again = farm.release(built)

    assert (again.unchanged, again.digest, again.before, again.verdict) == (
        True,
        first.digest,
        first.before,
        first.verdict,
    )


def test_one_version_is_never_given_to_two_bundles(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes look at the same past; the one that comes second to the lock sees what the first one made of it."""
    bundles_of = {}
    for name in ("first", "second"):
        bundles_of[name] = farm.build(name, salt=name)
        farm.rebuild(bundles_of[name])
    real, at_once = record.keep, threading.Barrier(2, timeout=2)

    def slow(*args: object) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            at_once.wait()  # both get here only where neither waits for the other
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(record, "keep", slow)
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda name: farm.release(bundles_of[name], out=name).version, bundles_of))

    assert sorted(made) == ["1.0.0", "1.0.1"]


def test_a_version_on_record_is_kept_for_its_bundle(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    built, other = farm.build(), farm.build("second", salt="other")
    for bundle in (built, other):
        farm.rebuild(bundle)

    def full(*_: object) -> None:
        raise FarmError(Code.DISK_FULL, "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(stamp, "write", full)
        with pytest.raises(FarmError):
            farm.release(built)  # broken off before anything of it was written

    assert farm.release(other, out="second").version == "1.0.1"
    (first, _second) = record.known(farm.home, "cls")
    with pytest.raises(FarmError) as caught:
        record.keep(farm.home, replace(first, digest=OTHER_POLICY), {})
    assert caught.value.code is Code.RELEASE_EXISTS


def test_a_damaged_bundle_is_bad_and_nothing_else_is_asked(farm: Farm) -> None:
    built = farm.build()
    next((built / "blobs/sha256").iterdir()).write_bytes(b"damaged")

    made = farm.release(built)

    assert {error.code for error in made.report.errors} == {Code.BUNDLE_CORRUPT}
    assert (made.report.status, made.path) == (Status.BAD, None)
    assert "sources" not in {check.name for check in made.report.checks}


@pytest.mark.parametrize("kind", [COMPARISON, LICENCES])
def test_a_release_rests_on_its_statements(farm: Farm, kind: str) -> None:
    """Whoever takes a rebuild or a verdict out of a release breaks it."""
    released = farm.released()
    view = oci_bundle.read(released).require()
    lost = next(
        item
        for item in view.attestations
        if item.subject == view.payloads[0].digest
        and dsse.read_unverified(view.folder.read_blob(item.envelope))[1].predicate_type == kind
    )
    kept = [item.descriptor for item in view.attestations if item is not lost]
    assert view.descriptor is not None
    (released / "index.json").write_bytes(oci_bundle.top_index(view.descriptor, kept).encode())
    for blob in (lost.descriptor, lost.envelope):
        view.folder.blob_path(blob).unlink()

    assert {error.code for error in bundles.verified(released, farm.public).errors} == {Code.SIGNATURE_MISSING}


def said_of_licences(bundle: Path, public: PublicKey) -> list[str]:
    """The decisions of all verdicts in a bundle."""
    statements = release.open_all(oci_bundle.read(bundle).require(), public)
    return sorted(item.predicate["decision"] for item in statements if item.predicate_type == LICENCES)


def test_a_later_verdict_lies_beside_the_one_that_the_release_rests_on(farm: Farm) -> None:
    released = farm.released(targets=["x86-64-v3"])

    for decision, found in (
        (Decision.REVIEW, ["allow", "review"]),
        (Decision.DENY, ["allow", "deny"]),  # of later ones the last counts
        (Decision.ALLOW, ["allow"]),  # the very one that is there: nothing is said against it any more
    ):
        farm.judge(released, releases.verdicts(released, decision))

        assert said_of_licences(released, farm.public) == found
        assert bundles.verified(released, farm.public).ok
        assert judging.read(released, farm.public).verdicts["x86-64-v3"].decision is decision  # type: ignore[union-attr]


def test_a_release_of_a_release_rests_on_the_verdict_that_counts(farm: Farm) -> None:
    released = farm.released(targets=["x86-64-v3"])
    farm.judge(released, releases.verdicts(released, Decision.REVIEW))

    again = farm.release(released, version="1.0.1", out="again")

    assert again.path is not None
    assert said_of_licences(again.path, farm.public) == ["review"]


def test_what_is_signed_against_a_release_wins_whatever_else_allows(farm: Farm) -> None:
    denied, contradicted = farm.released(), farm.released(salt="other", out="second")
    farm.judge(denied, releases.verdicts(denied, Decision.DENY))
    farm.rebuild(contradicted, worker="third", same=False)

    for bundle, code in ((denied, Code.LICENCE_DENIED), (contradicted, Code.BUILDS_DISAGREE)):
        report = bundles.verified(bundle, farm.public)
        assert report.ok  # every byte is what the key signed
        statements = release.open_all(oci_bundle.read(bundle).require(), farm.public)
        standing.check(report, "the folder", standing.by_name(statements))
        assert [error.code for error in report.errors] == [code]
        assert report.status is Status.REFUSED


def test_the_command_refuses_a_folder_with_a_release_that_is_denied(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bundle_check.verify_bundle
    monkeypatch.setattr(
        bundle_check, "verify_bundle", lambda root, public, **_: real(root, public, check_payload=bundles.no_check)
    )
    argv = ["--key", str(farm.public_file)]
    built, released = farm.build("denied", decision=Decision.DENY), farm.released()

    farm.judge(released, releases.verdicts(released, Decision.DENY))

    found = CliRunner().invoke(verify_command.command, [str(released), *argv], standalone_mode=False)
    assert found.return_value == Status.REFUSED
    assert "NOT VERIFIED" in found.output
    assert CliRunner().invoke(verify_command.command, [str(built), *argv], standalone_mode=False).return_value == 0


def test_a_verdict_that_is_none_is_nothing_to_rest_on(farm: Farm) -> None:
    statements = release.open_all(oci_bundle.read(farm.released(targets=["x86-64-v3"])).require(), farm.public)
    found = released_of(statements)
    assert found is not None
    (agreed,) = found.payloads
    lie = replace(found, payloads=(replace(agreed, verdict=agreed.builds[0].statement),))
    others = [item for item in statements if item.predicate_type != RELEASE]

    with pytest.raises(FarmError) as caught:
        verify.require_evidence(standing.by_name([*others, lie.statement(digest.of_bytes(b"index"))]))

    assert caught.value.code is Code.SIGNATURE_MISSING


def test_the_statement_of_a_release_names_builds_verdicts_and_source(farm: Farm) -> None:
    from farm.inspect import inspect

    released = farm.released()
    found = inspect(released, hardening=lambda _path, _name: {})
    (said,) = [item["predicate"] for item in found["attestations"] if item["kind"] == RELEASE]

    assert (said["version"], said["channel"], said["before"]) == ("1.0.0", "preview", None)
    assert said["source"] == {"kind": "git", "name": "0" * 40}
    assert [[build["worker"] for build in item["builds"]] for item in said["payloads"]] == [
        ["first-host-1", "second"]
    ] * 2
    verdicts = {item.subjects[0].digest: item.identity for item in releases.verdicts(released, Decision.ALLOW)}
    assert {item["payload"]: item["verdict"] for item in said["payloads"]} == verdicts
    assert said["licences"] == {"allowed": False, "policies": [policies.own().digest]}


def past(farm: Farm) -> Past:
    """What a farm has on record, as the past of others."""
    return release.past_of(farm.settings, "cls")


def test_what_was_published_is_compared_with_whatever_is_on_record(farm: Farm) -> None:
    farm.released()
    published = past(farm)
    smaller = farm.build("second", targets=["x86-64-v3"])
    farm.rebuild(smaller)
    shutil.rmtree(farm.home.root / "releases")
    assert farm.release(smaller, version="1.0.1").before is None  # nothing is known that it could hide

    made = farm.release(smaller, against=published)

    assert (made.version, made.before and made.before.version) == ("2.0.0", "1.0.0")
    assert made.verdict is not None
    assert made.verdict.reasons == ("major: the target x86-64-v4 is dropped",)
    assert refused(farm.release(smaller, version="1.0.2", against=published)) == {Code.BUMP_TOO_LOW}


def test_a_release_of_which_it_was_not_known_what_it_changes_is_signed_again(farm: Farm) -> None:
    farm.released()
    published = past(farm)
    shutil.rmtree(farm.home.root / "releases")
    built = farm.build("second", salt="fixed")
    farm.rebuild(built)
    first = farm.release(built, version="1.0.1")

    again = farm.release(built, against=published)

    assert (again.version, again.digest, again.unchanged) == ("1.0.1", first.digest, True)
    assert again.path is not None
    found = released_of(release.open_all(oci_bundle.read(again.path).require(), farm.public))
    assert found is not None
    assert found.before is not None
    assert (found.before.version, found.level) == ("1.0.0", "patch")


def test_a_release_that_was_never_published_is_not_what_the_next_one_is_compared_with(farm: Farm) -> None:
    farm.released()
    published = past(farm)
    farm.released(salt="never published", out="second", targets=["x86-64-v3"])  # 2.0.0
    built = farm.build("third", salt="fixed")
    farm.rebuild(built)

    made = farm.release(built, against=published)

    assert (made.version, made.before and made.before.version) == ("2.0.1", "1.0.0")


CHANNELS = """
schema = "release-channels/1"
[channels.edge]
targets = ["all"]
prerelease = false
builds = 3
apart = "host"
sealed = true
licences = true
licence_policies = ["sha256:1111111111111111111111111111111111111111111111111111111111111111"]
[channels.small]
"""


def test_channels_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "channels.toml"
    path.write_text(CHANNELS)

    found = channels.load(path)

    assert found["edge"].builds == 3
    assert found["edge"].apart is Apart.HOST
    assert "hexagon-v67" in found["edge"].targets
    assert found["edge"].policies == ("sha256:" + "1" * 64,)
    assert found["small"] == Channel("small")


def test_what_the_channel_preview_releases_is_never_the_last_version(farm: Farm) -> None:
    """It demands neither a sandbox nor allowed licences: a consumer who names no version must not get it."""
    preview = channels.built_in()["preview"]
    built = farm.build()
    farm.rebuild(built)

    assert refused(farm.release(built, channel=preview)) == {Code.CHANNEL_REFUSED}
    made = farm.release(built, channel=preview, pre="rc")

    assert made.version == "1.0.0-rc.1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        'schema = "release-channels/2"\n[channels.a]',
        'schema = "release-channels/1"\n[channels.a]\nbuilds = 1',
        'schema = "release-channels/1"\n[channels.a]\ntargets = ["vax"]',
        'schema = "release-channels/1"\n[channels.a]\ntargets = "all"',
        'schema = "release-channels/1"\n[channels.a]\nprerelease = 1',
        'schema = "release-channels/1"\n[channels.a]\napart = "planet"',
        'schema = "release-channels/1"\n[channels.a]\nfinal = 1',
        'schema = "release-channels/1"\n[channels.a]\nfinal = false\nprerelease = false',
        'schema = "release-channels/1"\n[channels.a]\nother = 1',
        'schema = "release-channels/1"\n[channels.a]\nlicence_policies = ["own"]',
        'schema = "release-channels/1"\n[channels.a]\nlicence_policies = 1',
        'schema = "release-channels/1"\nchannels = 3',
    ],
)
def test_a_faulty_list_of_channels_is_a_coded_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "channels.toml"
    path.write_text(text)
    with pytest.raises(FarmError) as caught:
        channels.load(path)
    assert caught.value.code is Code.CHANNELS_INVALID
