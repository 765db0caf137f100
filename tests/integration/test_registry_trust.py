"""Releases that share content, are made again or lose something, and what a registry or its users can do to them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from farm import attest
from farm.cli import lock as lock_command
from farm.cli import release as release_command
from farm.registry import consumer, log, publishing, reference, remote, transfer
from farm.registry.lockfile import Locked, Lockfile
from farm.registry.log import ReleaseLog
from farm.registry.remote import Remote
from farm.release.release import Past
from farm.verify import Report
from kernelfarm import digest, oci, oci_bundle
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci import Descriptor
from kernelfarm.paths import Home
from sbom.licence.nouns import Decision
from signing import client, dsse
from signing.release import RELEASE, Deed
from signing.statement import SIGNATURE
from tests.support import bundles, releases
from tests.support import release_registry as registries
from tests.support.release_registry import REPOSITORY, ReleaseRegistry, at, publish, verify
from tests.support.releases import Farm

pytestmark = pytest.mark.services


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Farm:
    releases.sign_here(monkeypatch)
    return releases.farm(tmp_path / "farm")


def fetch(home: Path, locked: Lockfile, farm: Farm, out: Path, **more: object) -> list[consumer.Fetched]:
    return consumer.fetch(Home(home), locked, farm.public, out, check_payload=bundles.no_check, **more)  # type: ignore[arg-type]


def faults(report: Report) -> list[str]:
    return [str(error) for error in report.errors]


def code_of(caught: pytest.ExceptionInfo[FarmError]) -> Code:
    assert caught.value.next_step, str(caught.value)
    return caught.value.code


def second_machine(farm: Farm, folder: Path) -> Farm:
    """Another farm with a copy of the key, and no memory."""
    shutil.copytree(farm.home.keys, folder / "home/keys")
    return Farm(folder)


def published(server: ReleaseRegistry, farm: Farm) -> Past:
    """What `farm release --against REGISTRY/REPOSITORY` takes for the past."""
    return consumer.past_of(farm.home, at(server), farm.public)


def lose(server: ReleaseRegistry, tag: str) -> None:
    """Have the registry forget a tag."""
    server.lose(REPOSITORY, tag)


# What releases have in common


def test_releases_that_share_a_payload_both_hold(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    first = publish(farm, farm.released(targets=["x86-64-v3"]), at(release_registry))

    second = publish(farm, farm.released(out="second"), at(release_registry))

    assert (first.entry.version, second.entry.version) == ("1.0.0", "1.1.0")
    for number, version in enumerate(("1.0.0", "1.1.0")):
        report = verify(tmp_path / f"consumer-{number}", at(release_registry, f":{version}"), farm)
        assert report.ok, faults(report)


def test_a_release_that_is_signed_again_takes_the_place_of_the_first(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    released = farm.released()
    publish(farm, released, at(release_registry))
    shutil.rmtree(released)  # lost; signatures made anew are other bytes
    again = farm.release(farm.root / "built-/cls")
    assert again.unchanged
    assert again.path is not None

    assert publish(farm, again.path, at(release_registry)).again

    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)
    assert report.ok, faults(report)


def test_licences_that_are_judged_again_lie_beside_those_that_the_release_rests_on(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    released = farm.released()
    publish(farm, released, at(release_registry))
    with client.open_signer(farm.home) as signer:
        attest.attach(released, releases.verdicts(released, Decision.REVIEW), signer)

    publish(farm, released, at(release_registry))

    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)
    assert report.ok, faults(report)
    found = [check.found.rpartition(": ")[2] for check in report.checks if check.name.startswith("licences")]
    assert sorted(found) == ["allow", "allow", "review", "review"]


def test_what_cannot_be_verified_there_is_neither_logged_nor_tagged(
    release_registry: ReleaseRegistry, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = farm.released()
    real = transfer.push

    def losing(there: Remote, view: oci_bundle.BundleView, say: transfer.Say) -> transfer.Pushed:
        made = real(there, view, say)
        release_registry.blob(view.attestations[0].envelope.digest).unlink()
        return made

    monkeypatch.setattr(transfer, "push", losing)
    with pytest.raises(FarmError) as caught:
        publish(farm, released, at(release_registry))

    assert code_of(caught) is Code.BLOB_MISSING
    assert {"1.0.0", "release-log"} & set(release_registry.tags(REPOSITORY)) == set()
    monkeypatch.undo()
    releases.sign_here(monkeypatch)
    assert publish(farm, released, at(release_registry)).entry.sequence == 1


# What strangers can add


def attestation(there: Remote, subject: Descriptor, data: bytes, media_type: str, scratch: Path) -> Descriptor:
    """An attestation manifest in the repository, as anybody can make one."""
    path = scratch / "envelope"
    path.write_bytes(data)
    there.blobs.send(path, digest.of_bytes(data))
    made = oci_bundle.attestation_manifest(oci.bare(subject), oci.describe(data, media_type)).encode()
    described = oci.describe(made, oci.MANIFEST)
    there.keep(described, made)
    return dataclasses.replace(described, artifact_type=oci.ATTESTATION)


def real_envelope(view: oci_bundle.BundleView) -> bytes:
    item = next(one for one in view.attestations if one.subject == view.digest)
    return view.folder.read_blob(item.envelope)


ENVELOPES: dict[str, tuple[Callable[[Remote, oci_bundle.BundleView, Farm], bytes], str]] = {
    "a copy of another type": (lambda _there, view, _farm: real_envelope(view), "text/plain"),
    "an entry of the log": (
        lambda there, _view, farm: transfer.read_log(there, farm.public).sealed[0],
        oci.ATTESTATION,
    ),
    "nonsense": (lambda _there, _view, _farm: b"{}", oci.ATTESTATION),
}


@pytest.mark.parametrize("where", ["the list for other tools", "the layout"])
@pytest.mark.parametrize("kind", ENVELOPES)
def test_what_anybody_can_file_as_an_attestation_does_no_harm(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, kind: str, where: str
) -> None:
    released = farm.released()
    publish(farm, released, at(release_registry))
    there, view = Remote(at(release_registry)), oci_bundle.read(released).require()
    assert view.descriptor is not None
    envelope, media_type = ENVELOPES[kind]
    made = attestation(there, view.descriptor, envelope(there, view, farm), media_type, tmp_path)
    if where == "the layout":
        top = there.layout(view.digest)
        data = dataclasses.replace(top, manifests=(*top.manifests, made)).encode()
        there.put(remote.layout_tag(view.digest), data, oci.INDEX)
    else:
        there.attest(view.digest, [made])

    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)

    assert report.ok, faults(report)
    publish(farm, released, at(release_registry))
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


def test_a_list_that_lies_about_a_size_does_no_harm(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    released = farm.released()
    made = publish(farm, released, at(release_registry))
    there = Remote(at(release_registry))
    tag = remote.referrers_tag(made.digest)
    listed = json.loads(there.tagged(tag) or b"")
    listed["manifests"][0]["size"] = 1
    there.put(tag, json.dumps(listed).encode(), oci.INDEX)

    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


@pytest.mark.parametrize("how", ["names what is gone", "is no JSON that can be written again"])
def test_a_list_that_strangers_spoiled_stops_no_publisher(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, how: str
) -> None:
    released = farm.released()
    publish(farm, released, at(release_registry))
    there, view = Remote(at(release_registry)), oci_bundle.read(released).require()
    theirs = attestation(there, view.payloads[0].descriptor, b"{}", oci.ATTESTATION, tmp_path)
    tag = remote.referrers_tag(view.payloads[0].digest)
    there.attest(view.payloads[0].digest, [theirs])
    if how == "names what is gone":
        release_registry.revision(REPOSITORY, theirs.digest).unlink()
    else:
        name = f'"digest":"{theirs.digest}"'.encode()
        there.put(tag, (there.tagged(tag) or b"").replace(name, b'"x":1e999,' + name), oci.INDEX)
    farm.rebuild(released, worker="third", host="third-host")

    publish(farm, released, at(release_registry))

    assert theirs.digest.encode() not in (there.tagged(tag) or b"")
    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)
    assert report.ok, faults(report)


@pytest.mark.parametrize("tag", ["keep-", "sha256-", "layout-", "release-log", "1.0.0"])
def test_a_registry_that_takes_a_document_and_does_not_have_it_is_noticed(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    released = farm.released()
    real = Remote.put
    with monkeypatch.context() as patch:
        patch.setattr(
            Remote, "put", lambda self, what, *more: None if what.startswith(tag) else real(self, what, *more)
        )
        with pytest.raises(FarmError):
            publish(farm, released, at(release_registry))

    publish(farm, released, at(release_registry))

    assert any(name.startswith(tag) for name in release_registry.tags(REPOSITORY))
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


def test_a_layout_that_somebody_replaced_is_detected_and_healed(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    released = farm.released()
    made = publish(farm, released, at(release_registry))
    there = Remote(at(release_registry))
    there.put(remote.layout_tag(made.digest), there.tagged(transfer.LOG_TAG) or b"", oci.MANIFEST)
    (error,) = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).errors
    assert error.code is Code.MANIFEST_REPLACED
    publish(farm, released, at(release_registry))
    lose(release_registry, remote.layout_tag(made.digest))
    (error,) = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).errors
    assert error.code is Code.MANIFEST_MISSING

    publish(farm, released, at(release_registry))

    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


# What a consumer has


def test_a_fetch_removes_no_folder_of_the_user_s(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    publish(farm, farm.released(), at(release_registry))
    locked = consumer.lock(Home(tmp_path / "home"), [at(release_registry)], farm.public)
    (tmp_path / "out/cls").mkdir(parents=True)
    (tmp_path / "out/cls/thesis.txt").write_text("years of work")

    with pytest.raises(FarmError) as caught:
        fetch(tmp_path / "home", locked, farm, tmp_path / "out")

    assert code_of(caught) is Code.OUTPUT_FOREIGN
    assert (tmp_path / "out/cls/thesis.txt").read_text() == "years of work"


def without(kind: str, root: Path) -> None:
    """Take the statement of a kind out of a bundle and out of its index.json: every byte left is accounted for."""
    view = oci_bundle.read(root)
    kinds = {
        item: dsse.read_unverified(view.folder.read_blob(item.envelope))[1].predicate_type for item in view.attestations
    }
    (gone,) = (item for item, found in kinds.items() if found == kind)
    kept = [item.descriptor for item in view.attestations if item is not gone]
    assert view.descriptor is not None
    (root / "index.json").write_bytes(oci_bundle.top_index(view.descriptor, kept).encode())
    for item in (gone.descriptor, gone.envelope):
        view.folder.blob_path(item).unlink()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "oci-layout is gone": lambda root: (root / "oci-layout").unlink(),
    "oci-layout is empty": lambda root: (root / "oci-layout").write_bytes(b""),
    "index.json is gone": lambda root: (root / "index.json").unlink(),
    "index.json is no JSON": lambda root: (root / "index.json").write_bytes(b"\xff\xfe"),
    "media.idx is gone": lambda root: (root / "media.idx").unlink(),
    "media.idx is a folder": lambda root: ((root / "media.idx").unlink(), (root / "media.idx").mkdir()),
    "blobs is gone": lambda root: shutil.rmtree(root / "blobs"),
    "kernels.so is damaged": lambda root: flip(kernels(root)),
    "kernels.so is gone": lambda root: kernels(root).unlink(),
    "the signature is gone": lambda root: without(SIGNATURE, root),
    "the release statement is gone": lambda root: without(RELEASE, root),
}


def kernels(root: Path) -> Path:
    view = oci_bundle.read(root)
    return view.folder.blob_path(view.payloads[0].files["kernels.so"])


def flip(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_bundle_is_bad_offline_and_fetched_again_online(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    publish(farm, farm.released(), at(release_registry))
    locked = consumer.lock(Home(tmp_path / "home"), [at(release_registry)], farm.public)
    (one,) = fetch(tmp_path / "home", locked, farm, tmp_path / "out")
    damage(one.path)

    with pytest.raises(FarmError) as caught:
        fetch(tmp_path / "home", locked, farm, tmp_path / "out", offline=True)

    assert caught.value.status == 1
    assert str(one.path) in caught.value.what
    assert caught.value.detail["file"]
    assert caught.value.next_step == "Fetch it again, without --offline."
    (again,) = fetch(tmp_path / "home", locked, farm, tmp_path / "out")
    assert not again.present
    assert bundles.verified(again.path, farm.public).ok


@pytest.mark.parametrize("stray", ["notes.txt", "blobs/sha256/notes.txt", "mine/thesis.txt"])
def test_a_file_of_the_user_s_in_a_bundle_is_named_and_never_removed(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, stray: str
) -> None:
    """Nobody can tell whether it is damage or somebody's work: the bundle is bad, and the file stays."""
    publish(farm, farm.released(), at(release_registry))
    locked = consumer.lock(Home(tmp_path / "home"), [at(release_registry)], farm.public)
    (one,) = fetch(tmp_path / "home", locked, farm, tmp_path / "out")
    (one.path / stray).parent.mkdir(exist_ok=True)
    (one.path / stray).write_text("years of work")

    with pytest.raises(FarmError) as offline:
        fetch(tmp_path / "home", locked, farm, tmp_path / "out", offline=True)
    with pytest.raises(FarmError) as caught:
        fetch(tmp_path / "home", locked, farm, tmp_path / "out")

    assert offline.value.status == 1
    assert (code_of(caught), caught.value.status) == (Code.OUTPUT_FOREIGN, 2)
    assert stray in caught.value.why
    assert (one.path / stray).read_text() == "years of work"
    (one.path / stray).unlink()
    assert fetch(tmp_path / "home", locked, farm, tmp_path / "out")[0].version == "1.0.0"


@pytest.mark.parametrize("through", ["the registry", "a mirror"])
def test_a_withdrawal_that_was_seen_counts_without_the_network(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, through: str
) -> None:
    publish(farm, farm.released(), at(release_registry))
    locked = consumer.lock(Home(tmp_path / "home"), [at(release_registry)], farm.public)
    fetch(tmp_path / "home", locked, farm, tmp_path / "out")
    publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="odd widths")
    (unaware,) = fetch(tmp_path / "home", locked, farm, tmp_path / "out", offline=True)
    assert unaware.present
    with registries.running(release_registry.copy(tmp_path / "mirror")) as mirror:
        where = {"mirror": mirror.host} if through == "a mirror" else {}
        with pytest.raises(FarmError):
            fetch(tmp_path / "home", locked, farm, tmp_path / "out", **where)
    release_registry.kill()

    with pytest.raises(FarmError) as caught:
        fetch(tmp_path / "home", locked, farm, tmp_path / "out", offline=True)

    assert (code_of(caught), caught.value.status, caught.value.why) == (Code.RELEASE_WITHDRAWN, 4, "odd widths")
    (insisted,) = fetch(tmp_path / "home", locked, farm, tmp_path / "out", offline=True, withdrawn_too=True)
    assert insisted.present


def test_a_damaged_memory_of_a_log_says_which_file_and_what_to_do(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    publish(farm, farm.released(), at(release_registry))
    locked = consumer.lock(Home(tmp_path / "home"), [at(release_registry)], farm.public)
    fetch(tmp_path / "home", locked, farm, tmp_path / "out")
    (path,) = (tmp_path / "home/registry").glob("*.log")
    path.write_bytes(b"garbage")

    for offline in (True, False):
        with pytest.raises(FarmError) as caught:
            fetch(tmp_path / "home", locked, farm, tmp_path / "out", offline=offline)
        assert (code_of(caught), caught.value.detail["file"]) == (Code.LOG_INVALID, str(path))
        assert caught.value.next_step.startswith("Remove the file")
    path.unlink()
    assert fetch(tmp_path / "home", locked, farm, tmp_path / "out")[0].present


def test_a_lock_file_is_not_replaced_by_what_is_older(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locking(home: str) -> int:
        monkeypatch.setenv("FARM_HOME", str(tmp_path / home))
        argv = [at(release_registry).place, "--key", str(farm.public_file), "-o", str(tmp_path / "farm.lock")]
        found = CliRunner().invoke(lock_command.command, argv)
        assert found.exit_code == 0 or isinstance(found.exception, FarmError)
        if isinstance(found.exception, FarmError):
            raise found.exception
        return int(json.loads((tmp_path / "farm.lock").read_text())["bundles"][0]["log_sequence"])

    publish(farm, farm.released(), at(release_registry))
    old = release_registry.copy(tmp_path / "old")
    publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))
    assert locking("one") == 2
    release_registry.kill()
    shutil.rmtree(release_registry.folder / "blobs")
    shutil.copytree(old / "blobs", release_registry.folder / "blobs")
    release_registry.start()

    with pytest.raises(FarmError) as caught:
        locking("another, which saw nothing")

    assert code_of(caught) is Code.LOG_BEHIND
    assert json.loads((tmp_path / "farm.lock").read_text())["bundles"][0]["version"] == "1.0.1"


def test_a_mirror_is_held_against_what_was_seen_of_its_origin(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    publish(farm, farm.released(), at(release_registry))
    locked = consumer.lock(Home(tmp_path / "home"), [at(release_registry)], farm.public)
    old = release_registry.copy(tmp_path / "old")
    publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="odd widths")
    assert not verify(tmp_path / "home", at(release_registry, ":1.0.0"), farm).ok

    with registries.running(old) as mirror, pytest.raises(FarmError) as caught:
        fetch(tmp_path / "home", locked, farm, tmp_path / "out", mirror=mirror.host)

    assert code_of(caught) is Code.LOG_BEHIND


def test_a_stale_copy_under_another_name_is_held_against_what_was_seen_of_the_log(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    """Nothing says that the two are one: they are known by the name that the entries of a log bear."""
    publish(farm, farm.released(), at(release_registry))
    old = release_registry.copy(tmp_path / "old")
    publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="odd widths")
    assert not verify(tmp_path / "home", at(release_registry, ":1.0.0"), farm).ok

    with registries.running(old) as other:
        assert other.host != release_registry.host
        (error,) = verify(tmp_path / "home", at(other, ":1.0.0"), farm).errors
        with pytest.raises(FarmError) as caught:
            consumer.lock(Home(tmp_path / "home"), [at(other)], farm.public)
        assert verify(tmp_path / "of who saw nothing", at(other, ":1.0.0"), farm).ok
        made = publish(farm, farm.released(salt="fixed", out="second"), at(other))

    assert (error.code, code_of(caught)) == (Code.LOG_BEHIND, Code.LOG_BEHIND)
    assert made.entry.sequence == 3  # the publisher put the withdrawal back first: one log, wherever it lies


def test_a_lock_file_is_not_replaced_by_a_stale_copy_under_another_name(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    """The lock file alone knows what was seen: on a new machine, as of a pipeline."""
    publish(farm, farm.released(), at(release_registry))
    old = release_registry.copy(tmp_path / "old")
    publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))
    locked = consumer.lock(Home(tmp_path / "home"), [at(release_registry)], farm.public)

    with registries.running(old) as other, pytest.raises(FarmError) as caught:
        consumer.lock(Home(tmp_path / "new"), [at(other)], farm.public, before=locked)

    assert code_of(caught) is Code.LOG_BEHIND


EDITS = {
    "log": {"log": 32 * "0"},
    "source": {"source": "127.0.0.1:5000/media/other"},
    "end": {"log_identity": f"sha256:{64 * '0'}"},
    "channel": {"channel": "another"},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edited_lock_file_hides_no_withdrawal_and_is_what_the_error_names(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, edit: dict[str, Any]
) -> None:
    home = tmp_path / "home"
    publish(farm, farm.released(), at(release_registry))
    locked = consumer.lock(Home(home), [at(release_registry)], farm.public)
    fetch(home, locked, farm, tmp_path / "out")
    publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="odd widths")
    with pytest.raises(FarmError):
        fetch(home, locked, farm, tmp_path / "out")
    edited = dataclasses.replace(locked, bundles=(dataclasses.replace(locked.bundles[0], **edit),))

    with pytest.raises(FarmError) as caught:
        fetch(home, edited, farm, tmp_path / "out", offline=True)

    if "channel" in edit:  # what lies there is asked first, and the lock file is not what says what a release is
        assert (code_of(caught), "the lock file says" in caught.value.why) == (Code.SIGNATURE_FOREIGN, True)
    else:
        assert code_of(caught) is Code.LOCKFILE_INVALID
        assert "version control" in caught.value.next_step


ELSEWHERE = {"log": 32 * "0", "source": "127.0.0.1:5000/media/other", "log_identity": f"sha256:{64 * '0'}"}
"""What a lock file may say of a log that nobody saw: nothing that is known contradicts it."""


def locked_of_two_logs(release_registry: ReleaseRegistry, farm: Farm, home: Path) -> tuple[Lockfile, Locked]:
    """The lock file of a bundle, and what one says of another bundle in a log beside its own."""
    other = reference.parse(f"{release_registry.host}/media/other")
    publish(farm, farm.released(), at(release_registry))
    publish(farm, farm.released(salt="fixed", out="second"), other)
    locked = consumer.lock(Home(home), [at(release_registry)], farm.public)
    (unlike,) = consumer.lock(Home(home), [other], farm.public).bundles
    return locked, unlike


@pytest.mark.parametrize("where", ["a log that nobody saw", "a log that ends later than was seen"])
def test_a_lock_file_that_names_another_log_hides_no_withdrawal(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, where: str
) -> None:
    home = tmp_path / "home"
    locked, unlike = locked_of_two_logs(release_registry, farm, home)
    (fetched,) = fetch(home, locked, farm, tmp_path / "out")
    publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="odd widths")
    with pytest.raises(FarmError):
        fetch(home, locked, farm, tmp_path / "out")
    edit: dict[str, Any] = {**ELSEWHERE, "log_sequence": 9}
    if where == "a log that ends later than was seen":
        edit |= {"log": unlike.log, "source": unlike.source}
    edited = dataclasses.replace(locked, bundles=(dataclasses.replace(locked.bundles[0], **edit),))

    with pytest.raises(FarmError) as caught:
        fetch(home, edited, farm, tmp_path / "out", offline=True)

    assert (code_of(caught), caught.value.status) == (Code.RELEASE_WITHDRAWN, 4)
    assert caught.value.what == "media/cls:1.0.0 is withdrawn"
    assert caught.value.why.startswith(f"odd widths; the lock file says that its log is {edit['log']} of ")
    assert fetch(home, edited, farm, tmp_path / "out", offline=True, withdrawn_too=True)[0].present
    shutil.copytree(fetched.path, tmp_path / "copied/cls")  # a machine with the key and the lock file alone
    assert fetch(tmp_path / "new", edited, farm, tmp_path / "copied", offline=True)[0].present
    for path in (home / "registry").glob("*.log"):
        path.write_bytes(b"garbage\n")
    with pytest.raises(FarmError) as caught:  # nobody can tell what it withdrew
        fetch(home, edited, farm, tmp_path / "out", offline=True)
    assert (code_of(caught), caught.value.status) == (Code.LOG_INVALID, 1)


def test_a_lock_file_that_names_a_log_without_its_bundle_is_wrong(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    locked, unlike = locked_of_two_logs(release_registry, farm, home)
    fetch(home, locked, farm, tmp_path / "out")
    (item,) = locked.bundles
    edited = dataclasses.replace(unlike, version=item.version, digest=item.digest, payloads=item.payloads)

    with pytest.raises(FarmError) as caught:
        fetch(home, dataclasses.replace(locked, bundles=(edited,)), farm, tmp_path / "out", offline=True)

    assert code_of(caught) is Code.LOCKFILE_INVALID
    assert caught.value.why == f"none of the 1 entries that it saw of the log publishes {item.digest}"


@pytest.mark.parametrize("seen", ["the log of the lock file", "only trials, which did not withdraw it"])
def test_what_another_repository_did_with_a_release_stops_nobody_who_locked_it_elsewhere(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, seen: str
) -> None:
    """A release may lie in two repositories: the lock file's own log decides, where this machine saw it there."""
    released = farm.released()
    trials = reference.parse(f"{release_registry.host}/media/trials")
    publish(farm, released, trials)
    publish(farm, released, at(release_registry))
    maker = tmp_path / "home" if seen == "the log of the lock file" else tmp_path / "maker"
    locked = consumer.lock(Home(maker), [at(release_registry)], farm.public)
    fetch(maker, locked, farm, tmp_path / "out")
    if seen == "the log of the lock file":
        publishing.withdraw(farm.settings, dataclasses.replace(trials, tag="1.0.0"), reason="a trial that is over")
        assert not verify(tmp_path / "home", dataclasses.replace(trials, tag="1.0.0"), farm).ok
    else:
        assert verify(tmp_path / "home", dataclasses.replace(trials, tag="1.0.0"), farm).ok

    assert fetch(tmp_path / "home", locked, farm, tmp_path / "out", offline=True)[0].present


def test_what_was_seen_of_logs_of_other_keys_says_nothing(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    stranger = releases.farm(tmp_path / "stranger")
    theirs = reference.parse(f"{release_registry.host}/media/theirs")
    publish(stranger, stranger.released(), theirs)
    publish(farm, farm.released(), at(release_registry))
    assert stranger.public.keyid != farm.public.keyid
    home = tmp_path / "home"
    assert verify(home, dataclasses.replace(theirs, tag="1.0.0"), stranger).ok
    locked = consumer.lock(Home(tmp_path / "maker"), [at(release_registry)], farm.public)
    (one,) = fetch(tmp_path / "maker", locked, farm, tmp_path / "out")

    assert fetch(home, locked, farm, tmp_path / "out", offline=True) == [dataclasses.replace(one, present=True)]


@pytest.mark.parametrize("withdrawn", [False, True])
def test_an_old_lock_file_chooses_an_old_release_that_was_not_withdrawn(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, withdrawn: bool
) -> None:
    """Whoever may edit the lock file chooses the version; what a machine saw of its log afterwards counts."""
    home = tmp_path / "home"
    publish(farm, farm.released(), at(release_registry))
    old = consumer.lock(Home(home), [at(release_registry)], farm.public)
    fetch(home, old, farm, tmp_path / "old")
    publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))
    if withdrawn:
        publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="odd widths", redirect="1.0.1")
    new = consumer.lock(Home(home), [at(release_registry)], farm.public, before=old)
    fetch(home, new, farm, tmp_path / "new")
    assert (old.bundles[0].version, new.bundles[0].version) == ("1.0.0", "1.0.1")

    if withdrawn:
        with pytest.raises(FarmError) as caught:
            fetch(home, old, farm, tmp_path / "old", offline=True)
        assert code_of(caught) is Code.RELEASE_WITHDRAWN
        assert caught.value.next_step == f"Take {at(release_registry).place}:1.0.1 instead."
    else:
        assert fetch(home, old, farm, tmp_path / "old", offline=True)[0].version == "1.0.0"
        with pytest.raises(FarmError) as caught:  # beside the new release there is no old one to go back to
            fetch(home, old, farm, tmp_path / "new", offline=True)
        assert code_of(caught) is Code.OFFLINE


def test_one_release_in_two_registries_is_no_stale_copy(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    """A registry for trials gets every release first, the one for all only some of them, later."""
    first, second = farm.released(), farm.released(salt="fixed", out="second")
    with registries.running(tmp_path / "trials") as trials:
        for bundle in (first, second):
            publish(farm, bundle, at(trials))
        publishing.withdraw(farm.settings, at(trials, ":1.0.1"), reason="odd widths")

        assert publish(farm, first, at(release_registry)).entry.sequence == 1

        for place in (at(trials, ":1.0.0"), at(release_registry, ":1.0.0")):
            assert faults(verify(tmp_path / "home", place, farm)) == []


@pytest.mark.parametrize("how", ["moved", "gone"])
def test_where_a_tag_does_not_hold_the_digest_still_does(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, how: str
) -> None:
    first = publish(farm, farm.released(), at(release_registry))
    second = publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))
    locked = consumer.lock(Home(tmp_path / "home"), [at(release_registry, ":1.0.0")], farm.public)
    if how == "moved":
        there = Remote(at(release_registry))
        there.put("1.0.0", there.document(second.digest), oci.INDEX)
    else:
        lose(release_registry, "1.0.0")

    (error,) = verify(tmp_path / "home", at(release_registry, ":1.0.0"), farm).errors

    assert error.code is (Code.TAG_MOVED if how == "moved" else Code.MANIFEST_MISSING)
    assert verify(tmp_path / "home", at(release_registry, f"@{first.digest}"), farm).ok
    assert fetch(tmp_path / "home", locked, farm, tmp_path / "out")[0].version == "1.0.0"


# Who writes


def test_one_repository_has_one_lock_by_whatever_name(
    release_registry: ReleaseRegistry, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_TURN_S", 0.1)
    port = release_registry.host.rpartition(":")[2]
    other = reference.parse(f"localhost:{port}/{REPOSITORY}")

    with (
        publishing._turn(farm.settings, at(release_registry)),
        pytest.raises(FarmError) as caught,
        publishing._turn(farm.settings, other),
    ):
        pass

    assert code_of(caught) is Code.LOCK_TIMEOUT


def test_an_entry_that_came_meanwhile_is_not_overwritten(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = farm.released("1.0.1")
    other = second_machine(farm, tmp_path / "other")
    theirs = other.released("1.0.0", salt="other")
    real = transfer.push

    def interrupted(*args: object) -> transfer.Pushed:
        monkeypatch.setattr(transfer, "push", real)
        publish(other, theirs, at(release_registry))
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(transfer, "push", interrupted)
    with pytest.raises(FarmError) as caught:
        publish(farm, ours, at(release_registry))

    assert code_of(caught) is Code.LOG_FORKED
    with pytest.raises(FarmError) as caught:
        publish(farm, ours, at(release_registry))
    assert code_of(caught) is Code.RELEASE_NOT_COMPARED  # with what came meanwhile
    again = farm.release(farm.root / "built-/cls", against=published(release_registry, farm))
    assert again.path is not None
    assert publish(farm, again.path, at(release_registry)).entry.sequence == 2
    found = transfer.read_log(Remote(at(release_registry)), farm.public)
    assert [entry.version for entry in found.entries] == ["1.0.0", "1.0.1"]


def test_of_two_farms_that_write_at_once_no_tag_is_moved_and_the_second_is_told(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race that a registry without conditional writes leaves: B publishes wholly between A's last look and write.

    B was told PUBLISHED, and can be told otherwise only when it looks again; nobody gets either bundle for verified.
    """
    other = second_machine(farm, tmp_path / "other")
    a, b = farm.released("2.0.0", salt="A"), other.released("2.0.0", salt="B")
    real, done = transfer.write_log, []

    def late(there: Remote, found: ReleaseLog, scratch: Path) -> None:
        monkeypatch.setattr(transfer, "write_log", real)
        done.append(publish(other, b, at(release_registry)))
        real(there, found, scratch)

    monkeypatch.setattr(transfer, "write_log", late)
    with pytest.raises(FarmError) as caught:
        publish(farm, a, at(release_registry))

    assert code_of(caught) is Code.TAG_MOVED
    tagged = Remote(at(release_registry)).tagged("2.0.0") or b""
    assert digest.of_bytes(tagged) == done[0].digest == oci_bundle.read(b).digest  # it stayed where B set it
    (error,) = verify(tmp_path / "consumer", at(release_registry, ":2.0.0"), farm).errors
    assert error.code is Code.TAG_MOVED
    with pytest.raises(FarmError) as caught:
        publish(other, b, at(release_registry))
    assert code_of(caught) is Code.LOG_FORKED
    lose(release_registry, "2.0.0")
    assert publish(farm, a, at(release_registry)).entry.version == "2.0.0"
    assert verify(tmp_path / "consumer", at(release_registry, ":2.0.0"), farm).ok


def test_a_publisher_whose_log_was_overwritten_meanwhile_is_told(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B, which looked at the log before A wrote it, replaces it while A sets the tag."""
    other = second_machine(farm, tmp_path / "other")
    a, b = farm.released("2.0.0", salt="A"), other.released("2.0.0", salt="B")
    nothing, theirs = ReleaseLog(), oci_bundle.read(b).digest
    entry = log.next_entry(
        nothing, Deed.PUBLISH, REPOSITORY, name="cls", version="2.0.0", digest=theirs, channel="preview"
    )
    with client.open_signer(other.home) as signer:
        (sealed,) = signer.sign(b, [entry.statement()])
    real = publishing._tag

    def overtaken(there: Remote, view: oci_bundle.BundleView, tag: str) -> bool:
        made = real(there, view, tag)
        transfer.write_log(there, nothing.with_entry(sealed, other.public, REPOSITORY), tmp_path)
        return made

    monkeypatch.setattr(publishing, "_tag", overtaken)
    with pytest.raises(FarmError) as caught:
        publish(farm, a, at(release_registry))

    assert code_of(caught) is Code.LOG_FORKED


def test_the_signer_is_asked_after_the_push(
    release_registry: ReleaseRegistry, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A push may take an hour, and a signer that nobody asks for minutes ends."""
    released = farm.released()
    done: list[str] = []
    push, open_signer = transfer.push, client.open_signer
    monkeypatch.setattr(transfer, "push", lambda *args: (push(*args), done.append("push"))[0])
    monkeypatch.setattr(client, "open_signer", lambda *args: (done.append("signer"), open_signer(*args))[1])

    publish(farm, released, at(release_registry))

    assert done == ["push", "signer"]


def test_a_log_that_was_lost_is_put_back_by_who_wrote_it(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    publish(farm, farm.released(), at(release_registry))
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok
    lose(release_registry, transfer.LOG_TAG)
    other = second_machine(farm, tmp_path / "other")
    with pytest.raises(FarmError) as caught:
        publish(other, other.released("1.0.1", salt="other"), at(release_registry))
    assert code_of(caught) is Code.LOG_INVALID
    assert "1.0.0" in caught.value.why

    made = publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))

    assert (made.entry.sequence, made.entry.version) == (2, "1.0.1")
    for version in ("1.0.0", "1.0.1"):
        assert verify(tmp_path / "consumer", at(release_registry, f":{version}"), farm).ok


def test_a_release_whose_bytes_are_lost_can_be_withdrawn(
    release_registry: ReleaseRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real signer, which signs a withdrawal by its form."""
    with monkeypatch.context() as patch:
        releases.sign_here(patch)
        farm = releases.farm(tmp_path / "farm")
        released = farm.released()
        publish(farm, released, at(release_registry))
    for blob in oci_bundle.read(released).folder.blobs:
        release_registry.blob(blob).unlink()

    entry = publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="lost")

    assert transfer.read_log(Remote(at(release_registry)), farm.public).withdrawn("1.0.0") == entry


def test_a_withdrawal_says_the_same_as_long_as_it_stands(release_registry: ReleaseRegistry, farm: Farm) -> None:
    for number, salt in enumerate(("", "fixed", "more")):
        publish(farm, farm.released(salt=salt, out=f"out-{number}"), at(release_registry))
    place = at(release_registry, ":1.0.0")
    first = publishing.withdraw(farm.settings, place, reason="odd widths", redirect="1.0.1+build")
    publishing.withdraw(farm.settings, at(release_registry, ":1.0.1"), reason="worse")

    assert publishing.withdraw(farm.settings, place, reason="odd widths", redirect="1.0.1") == first

    assert first.redirect == "1.0.1"
    for change in ({"reason": "another"}, {"redirect": "1.0.2"}, {"redirect": ""}):
        with pytest.raises(FarmError) as caught:
            publishing.withdraw(farm.settings, place, **{"reason": "odd widths", "redirect": "1.0.1", **change})
        assert code_of(caught) is Code.RELEASE_WITHDRAWN


def test_what_to_take_instead_must_be_another_good_release(release_registry: ReleaseRegistry, farm: Farm) -> None:
    for number, salt in enumerate(("", "fixed")):
        publish(farm, farm.released(salt=salt, out=f"out-{number}"), at(release_registry))
    place = at(release_registry, ":1.0.0")

    def refused(redirect: str) -> FarmError:
        with pytest.raises(FarmError) as caught:
            publishing.withdraw(farm.settings, place, reason="odd widths", redirect=redirect)
        return caught.value

    itself = refused("1.0.0+build")
    assert (itself.code, itself.what) == (Code.USAGE, f"{place} cannot be taken instead of itself")
    unknown = refused("2.0.0")
    assert (unknown.code, unknown.why) == (
        Code.RELEASE_UNKNOWN,
        f"the release log of {place.place} has 1.0.0, 1.0.1",
    )
    publishing.withdraw(farm.settings, at(release_registry, ":1.0.1"), reason="worse")
    gone = refused("1.0.1")
    assert (gone.code, gone.what) == (Code.RELEASE_WITHDRAWN, f"{place.place}:1.0.1 is withdrawn")


# What a registry is compared with


def test_of_a_long_past_only_what_counts_is_fetched(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = ["1.0.0", "1.0.1", "1.1.0", "1.2.0-rc.1"]
    made = [
        publish(farm, farm.released(version, salt=version, out=version), at(release_registry)) for version in versions
    ]
    pulled: list[str] = []
    real = transfer.pull
    monkeypatch.setattr(transfer, "pull", lambda *args: (pulled.append(args[1]), real(*args))[1])

    past = consumer.past_of(Home(tmp_path / "home"), at(release_registry), farm.public)

    assert [version.text for version in past.versions] == versions
    assert pulled == [item.digest for item in made[1:]]
    base = past.before()
    assert (past.releases[-1].channel, base and base.version) == ("preview", "1.1.0")


def test_a_release_is_compared_with_a_repository_and_no_tag_of_it(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_HOME", str(farm.home.root))
    found = CliRunner().invoke(release_command.command, [str(farm.root), "--against", "127.0.0.1:1/media/cls:1.0.0"])
    assert isinstance(found.exception, FarmError)
    assert found.exception.code is Code.REFERENCE_INVALID
