"""What a release was allowed by must hold when it is published, and say the truth to who has the one before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from farm.cli import publish as publish_command
from farm.licences import gate
from farm.registry import consumer, publishing, transfer
from farm.registry.lockfile import Lockfile
from farm.registry.remote import Remote, layout_tag
from kernelfarm import canonical, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.paths import Home
from sbom.licence.nouns import Decision
from signing import dsse
from signing.release import RELEASE
from tests.support import bundles, releases
from tests.support.release_registry import REPOSITORY, ReleaseRegistry, at, publish, verify
from tests.support.releases import PREVIEW, Farm

pytestmark = pytest.mark.services

CAREFUL = replace(PREVIEW, name="careful", licences=True)


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Farm:
    releases.sign_here(monkeypatch)
    return releases.farm(tmp_path / "farm")


def released(farm: Farm, made: Path) -> Path:
    """A careful release of a built bundle."""
    farm.rebuild(made)
    found = farm.release(made, channel=CAREFUL)
    assert found.path is not None, [str(error) for error in found.report.errors]
    return found.path


def refusal(publishing_it: Callable[[], object]) -> FarmError:
    with pytest.raises(FarmError) as caught:
        publishing_it()
    assert caught.value.next_step, str(caught.value)
    return caught.value


# Before it goes out


@pytest.mark.parametrize("decision", [Decision.DENY, Decision.REVIEW])
def test_a_release_that_was_judged_again_is_published_by_the_later_verdict(
    release_registry: ReleaseRegistry, farm: Farm, decision: Decision
) -> None:
    found = released(farm, farm.build())
    farm.judge(found, releases.verdicts(found, decision))

    error = refusal(lambda: publish(farm, found, at(release_registry)))

    assert error.code is (Code.LICENCE_DENIED if decision is Decision.DENY else Code.LICENCE_REVIEW)
    assert error.status is Status.REFUSED
    assert (error.detail["file"], error.detail["rule"]) == ("macro.c", 'linked.deny "GPL-*"')
    assert "Leave it out." in error.next_step
    assert release_registry.tags(REPOSITORY) == []  # nothing of it went there
    farm.judge(found, releases.verdicts(found, Decision.ALLOW))
    assert publish(farm, found, at(release_registry)).entry.sequence == 1


def test_a_review_is_published_where_the_channel_takes_it(release_registry: ReleaseRegistry, farm: Farm) -> None:
    found = farm.released()
    farm.judge(found, releases.verdicts(found, Decision.REVIEW))

    assert publish(farm, found, at(release_registry)).entry.version == "1.0.0"


def test_a_waiver_that_ended_since_the_release_covers_nothing(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = farm.build(decision=None)
    farm.judge(built, releases.waived(built, "2027-01-31"))
    monkeypatch.setattr(gate, "today", lambda: "2027-01-30")
    found = released(farm, built)
    monkeypatch.setattr(gate, "today", lambda: "2027-01-31")

    error = refusal(lambda: publish(farm, found, at(release_registry)))

    assert error.code is Code.LICENCE_DENIED
    assert error.why == "it is copyleft; a waiver of counsel expired on 2027-01-31"
    assert "`farm waive`" in error.next_step
    farm.judge(found, releases.waived(found, "2027-06-30"))  # renewed
    assert publish(farm, found, at(release_registry)).entry.sequence == 1
    monkeypatch.setattr(gate, "today", lambda: "2028-01-01")
    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)
    assert report.ok, [str(error) for error in report.errors]  # it takes no bundle from who has it
    assert refusal(lambda: publish(farm, found, at(release_registry))).code is Code.LICENCE_DENIED


def test_a_rebuild_that_disagrees_after_the_release_stops_it(release_registry: ReleaseRegistry, farm: Farm) -> None:
    found = farm.released()
    farm.rebuild(found, worker="third", targets=["x86-64-v4"], same=False)

    error = refusal(lambda: publish(farm, found, at(release_registry)))

    assert (error.code, error.detail["target"]) == (Code.BUILDS_DISAGREE, "x86-64-v4")


def test_the_command_refuses_a_denied_release_with_the_status_of_a_refusal(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_HOME", str(farm.home.root))
    monkeypatch.setattr(
        publishing, "verify_bundle", lambda root, public, **_: bundles.verified(root, public)
    )  # whose payloads are no real ones
    found = farm.released()
    farm.judge(found, releases.verdicts(found, Decision.DENY))

    made = CliRunner().invoke(publish_command.command, [str(found), "127.0.0.1:1/media/cls"])

    assert isinstance(made.exception, FarmError)
    assert (made.exception.code, made.exception.status) == (Code.LICENCE_DENIED, Status.REFUSED)


# Where it is


def test_a_denial_that_lies_with_a_release_is_refused_by_whoever_takes_it(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    """Also by who has the bundle already, when it asks the registry again; what nobody can hide is a withdrawal."""
    found = farm.released()
    publish(farm, found, at(release_registry))
    home = Home(tmp_path / "consumer")
    locked = consumer.lock(home, [at(release_registry)], farm.public)

    def fetch(name: str) -> list[consumer.Fetched]:
        return consumer.fetch(home, locked, farm.public, tmp_path / name, check_payload=bundles.no_check)

    fetch("had")
    farm.judge(found, releases.verdicts(found, Decision.DENY))
    transfer.push(Remote(at(release_registry)), oci_bundle.read(found).require())  # as a farm of before did

    report = verify(home.root, at(release_registry, ":1.0.0"), farm)

    assert [error.code for error in report.errors] == [Code.LICENCE_DENIED]
    assert report.status is Status.REFUSED
    assert {check.name: check.ok for check in report.checks}["released"] is False
    for take in (
        lambda: consumer.lock(home, [at(release_registry)], farm.public),
        lambda: fetch("new"),
        lambda: fetch("had"),
    ):
        error = refusal(take)
        assert error.code is Code.LICENCE_DENIED
        assert error.why == "it is copyleft"
        assert error.next_step.startswith("Take another release.")
    assert not (tmp_path / "new/cls").exists()
    publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="its licences are denied")
    assert refusal(lambda: consumer.lock(home, [at(release_registry, ":1.0.0")], farm.public)).code is (
        Code.RELEASE_WITHDRAWN
    )


def test_a_denied_release_can_be_what_the_next_one_is_compared_with(
    release_registry: ReleaseRegistry, farm: Farm
) -> None:
    found = farm.released()
    publish(farm, found, at(release_registry))
    farm.judge(found, releases.verdicts(found, Decision.DENY))
    transfer.push(Remote(at(release_registry)), oci_bundle.read(found).require())

    base = consumer.past_of(farm.home, at(release_registry), farm.public).before()

    assert base is not None
    assert base.version == "1.0.0"


# Across farms


def without_a_record(farm: Farm, folder: Path) -> Farm:
    """A second farm with a copy of the key, which knows of no release."""
    shutil.copytree(farm.home.keys, folder / "home/keys")
    return Farm(folder)


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_dropped_target_is_major_whoever_made_the_release_before(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, withdrawn: bool
) -> None:
    publish(farm, farm.released(), at(release_registry))
    if withdrawn:
        publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="who has it needs the next one")
    other = without_a_record(farm, tmp_path / "other")
    hides = other.released("1.0.1", targets=["x86-64-v3"])

    error = refusal(lambda: publish(other, hides, at(release_registry)))

    assert (error.code, error.status) == (Code.RELEASE_NOT_COMPARED, Status.REFUSED)
    assert error.next_step == (
        f"Run `farm release {hides} --channel preview --against {at(release_registry).place}`, and publish what that "
        "gives."
    )
    assert "1.0.1" not in release_registry.tags(REPOSITORY)
    past = consumer.past_of(other.home, at(release_registry), other.public)
    made = other.release(hides, against=past)  # what the error says
    assert made.path is not None
    assert made.version == "2.0.0"
    assert publish(other, made.path, at(release_registry)).entry.version == "2.0.0"
    assert verify(tmp_path / "consumer", at(release_registry, ":2.0.0"), farm).ok


def test_a_dropped_target_is_major_whatever_the_record_says_of_the_release_before(
    release_registry: ReleaseRegistry, farm: Farm
) -> None:
    # Given a record of this farm in which a published target is missing
    publish(farm, farm.released(), at(release_registry))
    [record] = (farm.home.root / "releases").rglob("1.0.0.json")
    kept = json.loads(record.read_bytes())
    kept["interface"]["targets"] = [one for one in kept["interface"]["targets"] if "x86-64-v3" in json.dumps(one)]
    assert len(kept["interface"]["targets"]) == 1
    record.write_bytes(canonical.dumps(kept))
    hides = farm.released("1.0.1", targets=["x86-64-v3"], out="second")

    error = refusal(lambda: publish(farm, hides, at(release_registry)))

    assert (error.code, error.status) == (Code.BUMP_TOO_LOW, Status.REFUSED)
    assert "is dropped" in error.why
    assert "1.0.1" not in release_registry.tags(REPOSITORY)


def test_a_release_after_one_that_was_never_published_is_compared_with_what_was(
    release_registry: ReleaseRegistry, farm: Farm
) -> None:
    publish(farm, farm.released(), at(release_registry))
    farm.released(salt="never published", out="second")  # 1.0.1
    third = farm.released(salt="fixed", out="third")  # 1.0.2
    assert refusal(lambda: publish(farm, third, at(release_registry))).code is Code.RELEASE_NOT_COMPARED

    made = farm.release(third, against=consumer.past_of(farm.home, at(release_registry), farm.public), out="third")

    assert (made.version, made.unchanged, made.path) == ("1.0.2", True, third)
    assert publish(farm, third, at(release_registry)).entry.version == "1.0.2"


@pytest.mark.parametrize("lost", ["nothing", "the layout", "the release statement"])
def test_a_release_is_published_for_one_channel_whatever_a_farm_has_on_record(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, lost: str
) -> None:
    """Which is what the signed log says: what lies beside the bundle a registry can lose."""
    found = released(farm, farm.build())
    made = publish(farm, found, at(release_registry))
    assert made.entry.channel == "careful"
    if lost == "the layout":
        release_registry.lose(REPOSITORY, layout_tag(made.digest))
    elif lost == "the release statement":
        release_registry.blob(statement_of(found)).unlink()
    other = without_a_record(farm, tmp_path / "other")

    error = refusal(lambda: publish(other, other.released(), at(release_registry)))

    assert (error.code, error.detail["channel"]) == (Code.CHANNEL_REFUSED, "careful")
    if lost != "nothing":
        assert not verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok
        publish(farm, found, at(release_registry))  # puts back what was lost
    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)
    assert "for the channel careful" in {check.name: check.found for check in report.checks}["released"]


def test_a_statement_for_another_channel_in_the_place_of_the_published_one_is_found_out(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    """Two farms of one key released the same payloads; who may write to the registry exchanges the statements."""
    found = released(farm, farm.build())
    made = publish(farm, found, at(release_registry))
    home = Home(tmp_path / "consumer")
    locked = consumer.lock(home, [at(release_registry)], farm.public)
    assert [item.channel for item in locked.bundles] == ["careful"]
    (have,) = fetch(home, locked, farm, tmp_path / "out")
    assert have.channel == "careful"
    other = without_a_record(farm, tmp_path / "other")
    theirs = oci_bundle.read(other.released()).require()
    assert theirs.digest == made.digest

    transfer.push(Remote(at(release_registry)), theirs)

    (error,) = verify(home.root, at(release_registry, ":1.0.0"), farm).errors
    assert (error.code, error.detail["channel"]) == (Code.SIGNATURE_FOREIGN, "preview")
    for asked in (
        lambda: consumer.lock(home, [at(release_registry)], farm.public),
        lambda: consumer.past_of(home, at(release_registry), farm.public),
        lambda: fetch(home, locked, farm, tmp_path / "out"),
        lambda: fetch(home, locked, farm, tmp_path / "anew"),
    ):
        assert refusal(asked).code is Code.SIGNATURE_FOREIGN
    assert fetch(home, locked, farm, tmp_path / "out", offline=True)[0].present
    shutil.rmtree(tmp_path / "out/cls")
    shutil.copytree(theirs.folder.root, tmp_path / "out/cls")
    assert refusal(lambda: fetch(home, locked, farm, tmp_path / "out", offline=True)).code is Code.SIGNATURE_FOREIGN
    publish(farm, found, at(release_registry))
    assert verify(home.root, at(release_registry, ":1.0.0"), farm).ok
    assert publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="x").channel == "careful"


def fetch(home: Home, locked: Lockfile, farm: Farm, out: Path, *, offline: bool = False) -> list[consumer.Fetched]:
    return consumer.fetch(home, locked, farm.public, out, check_payload=bundles.no_check, offline=offline)


def statement_of(bundle: Path) -> Digest:
    """The blob of a bundle's release statement."""
    view = oci_bundle.read(bundle).require()
    (found,) = (
        item.envelope.digest
        for item in view.attestations
        if dsse.read_unverified(view.folder.read_blob(item.envelope))[1].predicate_type == RELEASE
    )
    return found


def test_pre_releases_are_compared_with_the_last_final_one(release_registry: ReleaseRegistry, farm: Farm) -> None:
    """They promise nothing: neither the next of them nor the final one is compared with a pre-release."""
    publish(farm, farm.released("1.0.0-rc.1"), at(release_registry))
    publish(farm, farm.released("1.0.0", salt="1"), at(release_registry))
    publish(farm, farm.released("1.1.0-rc.1", salt="2"), at(release_registry))
    final = farm.released("1.1.0", salt="3")

    assert publish(farm, final, at(release_registry)).entry.sequence == 4

    other = oci_bundle.read(farm.released("1.2.0-rc.1", salt="4"))
    assert other.version == "1.2.0-rc.1"


def test_what_comes_first_in_a_repository_may_come_after_anything(
    release_registry: ReleaseRegistry, farm: Farm
) -> None:
    farm.released()
    second = farm.released(salt="fixed", out="second")

    assert publish(farm, second, at(release_registry)).entry.version == "1.0.1"
