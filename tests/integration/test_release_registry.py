"""Releases in a real registry: what was published comes back, and whatever the registry does to it is noticed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from farm import blobs
from farm.registry import consumer, publishing, reference, remote, transfer
from farm.registry.reference import Reference
from farm.registry.remote import Remote
from farm.verify import Report
from kernelfarm import digest, oci, oci_bundle
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from signing import dsse, keys
from signing.comparison import COMPARISON
from signing.licences import LICENCES
from signing.release import RELEASE
from signing.statement import PROVENANCE, SIGNATURE
from tests.support import bundles, releases
from tests.support import release_registry as registries
from tests.support.release_registry import ReleaseRegistry, at, publish, verify
from tests.support.releases import Farm

pytestmark = pytest.mark.services


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Farm:
    releases.sign_here(monkeypatch)
    return releases.farm(tmp_path / "farm")


def codes(report: Report) -> set[Code]:
    return {error.code for error in report.errors}


def put_tag(server: ReleaseRegistry, tag: str, data: bytes, media_type: str) -> None:
    """Set a tag past the farm, as anybody can who may write to the registry."""
    url = f"http://{server.host}/v2/media/cls/manifests/{tag}"
    asked = urllib.request.Request(url, data=data, method="PUT", headers={"Content-Type": media_type})
    urllib.request.urlopen(asked).close()


def test_a_release_is_published_verified_locked_and_fetched(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    released = farm.released()

    made = publish(farm, released, at(release_registry))

    assert (made.entry.version, made.entry.sequence, made.again) == ("1.0.0", 1, False)
    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)
    assert report.ok, [str(error) for error in report.errors]
    assert report.digest == made.digest == oci_bundle.read(released).digest
    locked = consumer.lock(Home(tmp_path / "consumer"), [at(release_registry)], farm.public)
    (fetched,) = consumer.fetch(
        Home(tmp_path / "consumer"), locked, farm.public, tmp_path / "out", check_payload=bundles.no_check
    )
    assert (fetched.digest, fetched.present) == (made.digest, False)
    there = {path.relative_to(released): path.read_bytes() for path in bundles.plain_files(released)}
    here = {path.relative_to(fetched.path): path.read_bytes() for path in bundles.plain_files(fetched.path)}
    assert here == there
    release_registry.kill()
    (again,) = consumer.fetch(
        Home(tmp_path / "consumer"), locked, farm.public, tmp_path / "out", offline=True, check_payload=bundles.no_check
    )
    assert again.present


def test_the_same_release_again_moves_nothing(release_registry: ReleaseRegistry, farm: Farm) -> None:
    released = farm.released()
    first = publish(farm, released, at(release_registry))

    again = publish(farm, released, at(release_registry))

    assert (again.again, again.pushed.moved, again.entry) == (True, 0, first.entry)


def test_a_version_means_one_bundle_for_ever(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    publish(farm, farm.released("1.0.0"), at(release_registry))
    shutil.rmtree(farm.home.root / "releases")  # another farm with the same key would not know

    with pytest.raises(FarmError) as caught:
        publish(farm, farm.released("1.0.0", salt="other", out="second"), at(release_registry))

    assert caught.value.code is Code.RELEASE_EXISTS
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


def test_build_metadata_makes_no_second_tag(release_registry: ReleaseRegistry, farm: Farm) -> None:
    publish(farm, farm.released("1.0.0+first"), at(release_registry))
    shutil.rmtree(farm.home.root / "releases")

    with pytest.raises(FarmError) as caught:
        publish(farm, farm.released("1.0.0+second", salt="x", out="second"), at(release_registry))

    assert caught.value.code is Code.RELEASE_EXISTS


def test_a_version_before_those_published_is_refused(release_registry: ReleaseRegistry, farm: Farm) -> None:
    publish(farm, farm.released("1.0.0-rc.10"), at(release_registry))
    shutil.rmtree(farm.home.root / "releases")

    with pytest.raises(FarmError) as caught:
        publish(farm, farm.released("1.0.0-rc.9", salt="x", out="second"), at(release_registry))

    assert caught.value.code is Code.VERSION_NOT_NEXT


def test_what_was_not_released_is_not_published(release_registry: ReleaseRegistry, farm: Farm) -> None:
    with pytest.raises(FarmError) as caught:
        publish(farm, farm.build(), at(release_registry))

    assert caught.value.code is Code.NOT_RELEASED


def test_an_interrupted_push_goes_on_where_it_stopped(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try gets a few writes further and breaks off: the next pushes what is missing, and the tag comes last."""
    released = farm.released()
    left = [0]

    class Broken(Exception):
        pass

    def limited(name: str, kind: type) -> None:
        real = getattr(kind, name)

        def write(self: object, *args: object) -> object:
            if left[0] == 0:
                raise Broken
            made = real(self, *args)
            left[0] -= made is not False  # what is there already is no write
            return made

        monkeypatch.setattr(kind, name, write)

    limited("put", remote.Remote)
    limited("send", blobs.Repository)
    total = 0
    while True:
        left[0] = 5
        assert "1.0.0" not in release_registry.tags("media/cls")
        try:
            made = publish(farm, released, at(release_registry))
            break
        except Broken:
            total += 1
            assert total < 100
    assert total > 5
    assert made.entry.sequence == 1
    monkeypatch.undo()
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok
    assert publish(farm, released, at(release_registry)).pushed.moved == 0


PUBLISHER = """
import sys
from pathlib import Path
from farm import config
from farm.registry import publishing, reference
from kernelfarm.errors import FarmError
from tests.support import bundles
try:
    place = reference.parse(sys.argv[2])
    made = publishing.publish(config.load(), Path(sys.argv[1]), place, check_payload=bundles.no_check)
    print("again" if made.again else "published", made.digest)
except FarmError as error:
    print(error.code.name)
"""


def publishers(farm: Farm, folders: list[Path], place: Reference) -> list[str]:
    """What processes say that publish at the same time."""
    argv = [[sys.executable, "-c", PUBLISHER, str(folder), str(place)] for folder in folders]
    environment = {"FARM_HOME": str(farm.home.root), "PATH": "/usr/bin:/bin"}
    started = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True, env=environment) for one in argv]
    return sorted(process.communicate()[0].split()[0] for process in started)


def test_of_concurrent_publishers_one_wins(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    first = farm.released("1.0.0")
    shutil.rmtree(farm.home.root / "releases")
    other = farm.released("1.0.0", salt="other", out="second")

    said = publishers(farm, [first, other, first, other], at(release_registry))

    assert said == ["RELEASE_EXISTS", "RELEASE_EXISTS", "again", "published"]
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


KILLED = """
import os, signal, sys
from farm import blobs
from farm.registry.remote import Remote
put, send, before = Remote.put, blobs.Repository.send, sys.argv[3]
def die_at(what):
    if what.startswith(before):
        os.kill(os.getpid(), signal.SIGKILL)
Remote.put = lambda self, what, *more: (die_at(what), put(self, what, *more))[1]
blobs.Repository.send = lambda *args: (die_at("blob"), send(*args))[1]
"""


@pytest.mark.parametrize("before", ["blob", "keep-", "layout-", "sha256-", "release-log", "1.0.0"])
def test_a_publisher_that_was_killed_leaves_no_lock(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, before: str
) -> None:
    released = farm.released()
    argv = [sys.executable, "-c", KILLED + PUBLISHER, str(released), str(at(release_registry)), before]
    done = subprocess.run(argv, env={"FARM_HOME": str(farm.home.root), "PATH": "/usr/bin:/bin"}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert "1.0.0" not in release_registry.tags("media/cls")

    made = publish(farm, released, at(release_registry))

    assert (made.entry.sequence, made.entry.version) == (1, "1.0.0")
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


def test_a_moved_tag_is_detected(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    first = publish(farm, farm.released(), at(release_registry))
    second = publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))
    there = Remote(at(release_registry)).document(second.digest)
    put_tag(release_registry, "1.0.0", there, oci.INDEX)

    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)

    assert codes(report) == {Code.TAG_MOVED}
    assert f"it means {second.digest}" in report.errors[0].why
    assert first.digest in report.errors[0].why


def test_a_tag_that_was_set_past_the_log_stops_the_publisher(release_registry: ReleaseRegistry, farm: Farm) -> None:
    first = publish(farm, farm.released(), at(release_registry))
    put_tag(release_registry, "1.0.1", Remote(at(release_registry)).document(first.digest), oci.INDEX)

    with pytest.raises(FarmError) as caught:
        publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))

    assert caught.value.code is Code.TAG_MOVED


def test_a_deleted_blob_is_detected_and_healed(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    released = farm.released()
    publish(farm, released, at(release_registry))
    weights = oci_bundle.read(released).payloads[0].files["weights.bin"].digest
    release_registry.blob(weights).unlink()

    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)

    assert codes(report) == {Code.BLOB_MISSING}
    assert weights in str(report.errors[0])
    publish(farm, released, at(release_registry))
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


def test_a_damaged_blob_is_detected(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    released = farm.released()
    publish(farm, released, at(release_registry))
    path = release_registry.blob(oci_bundle.read(released).payloads[0].files["kernels.so"].digest)
    path.write_bytes(path.read_bytes()[::-1])

    assert codes(verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)) == {Code.BLOB_REFUSED}


@pytest.mark.parametrize("which", ["payload", "index"])
def test_a_replaced_manifest_is_detected(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, which: str
) -> None:
    released = farm.released()
    made = publish(farm, released, at(release_registry))
    view = oci_bundle.read(released)
    name = view.payloads[0].digest if which == "payload" else made.digest
    data = release_registry.blob(name).read_bytes()
    release_registry.blob(name).write_bytes(
        data.replace(b"x86-64-v3", b"x86-64-v4").replace(b"kernels.so", b"kernels.sO")
    )

    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)

    (error,) = report.errors
    assert error.code is Code.MANIFEST_REPLACED
    assert error.what.endswith(f"gives something else for {name}")
    assert error.why.endswith(f"bytes have the digest {digest.of_bytes(release_registry.blob(name).read_bytes())}")


def test_a_hidden_attestation_is_detected(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    released = farm.released()
    publish(farm, released, at(release_registry))
    view = oci_bundle.read(released)
    assert view.descriptor is not None
    found = []
    for lost in view.attestations:
        kept = [item.descriptor for item in view.attestations if item is not lost]
        top = oci_bundle.top_index(view.descriptor, kept).encode()
        put_tag(release_registry, remote.layout_tag(view.digest), top, oci.INDEX)
        report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)
        kind = dsse.read_unverified(view.folder.read_blob(lost.envelope))[1].predicate_type
        assert codes(report) == {Code.SIGNATURE_MISSING}
        found.append(kind)
    assert {found.count(kind) for kind in (SIGNATURE, RELEASE)} == {1}
    assert {found.count(kind) for kind in (PROVENANCE, COMPARISON, LICENCES)} == {2}


def test_licence_verdicts_cannot_be_taken_from_a_release(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    """Without the key: by whoever may write to the registry, of all payloads at once."""
    released = farm.released()
    publish(farm, released, at(release_registry))
    locked = consumer.lock(Home(tmp_path / "before"), [at(release_registry)], farm.public)
    view = oci_bundle.read(released)
    assert view.descriptor is not None
    kinds = {item: dsse.read_unverified(view.folder.read_blob(item.envelope))[1] for item in view.attestations}
    kept = [item.descriptor for item, said in kinds.items() if said.predicate_type != LICENCES]
    top = oci_bundle.top_index(view.descriptor, kept).encode()
    put_tag(release_registry, remote.layout_tag(view.digest), top, oci.INDEX)

    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)

    (error,) = report.errors
    assert (error.code, report.status) == (Code.SIGNATURE_MISSING, 1)
    assert error.what == "the licence verdict of the payload of x86-64-v3 is missing"
    for take in (
        lambda home: consumer.lock(home, [at(release_registry)], farm.public),
        lambda home: consumer.fetch(home, locked, farm.public, tmp_path / "out", check_payload=bundles.no_check),
    ):
        with pytest.raises(FarmError) as caught:
            take(Home(tmp_path / "consumer"))
        assert caught.value.code is Code.SIGNATURE_MISSING
    publish(farm, released, at(release_registry))
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


def test_a_stale_mirror_is_detected_by_whoever_saw_more(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    publish(farm, farm.released(), at(release_registry))
    old = release_registry.copy(tmp_path / "mirror")
    publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))
    locked = consumer.lock(Home(tmp_path / "consumer"), [at(release_registry)], farm.public)
    assert locked.bundles[0].version == "1.0.1"
    with registries.running(old) as mirror:
        with pytest.raises(FarmError) as caught:
            consumer.fetch(Home(tmp_path / "new"), locked, farm.public, tmp_path / "out", mirror=mirror.host)
        assert caught.value.code is Code.LOG_BEHIND
        assert caught.value.why == "its release log ends at entry 1, entry 2 was seen before"
    with registries.running(release_registry.copy(tmp_path / "fresh")) as mirror:
        (fetched,) = consumer.fetch(
            Home(tmp_path / "new"),
            locked,
            farm.public,
            tmp_path / "out",
            mirror=mirror.host,
            check_payload=bundles.no_check,
        )
        assert fetched.version == "1.0.1"


def test_a_registry_that_goes_back_is_detected(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    publish(farm, farm.released(), at(release_registry))
    old = release_registry.copy(tmp_path / "old")
    publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok
    release_registry.kill()
    shutil.rmtree(release_registry.folder / "blobs")
    shutil.copytree(old / "blobs", release_registry.folder / "blobs")
    release_registry.start()

    assert codes(verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)) == {Code.LOG_BEHIND}
    made = publish(farm, farm.released(salt="more", out="third"), at(release_registry))
    assert made.entry.sequence == 3  # who wrote the log has what the registry lost of it
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


def test_its_garbage_collector_takes_nothing_of_ours(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    """It removes every document without a tag, also those that a tagged index names, and what only they name."""
    publish(farm, farm.released(), at(release_registry))
    second = farm.released(salt="fixed", out="second")
    publish(farm, second, at(release_registry))
    publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="odd widths", redirect="1.0.1")
    put_tag(
        release_registry,
        "stray",
        b'{"schemaVersion":2,"mediaType":"' + oci.INDEX.encode() + b'","manifests":[]}',
        oci.INDEX,
    )
    put_tag(release_registry, "stray", Remote(at(release_registry)).tagged("1.0.0") or b"", oci.INDEX)

    said = release_registry.collect()

    assert "eligible for deletion" in said
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.1"), farm).ok
    assert codes(verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)) == {Code.RELEASE_WITHDRAWN}
    there, left = Remote(at(release_registry)), oci_bundle.read(second)
    for item in left.attestations:  # other tools find each signature where the distribution specification says
        assert item.descriptor.digest.encode() in (there.tagged(remote.referrers_tag(item.subject)) or b"")
        assert there.document(item.descriptor.digest) == left.folder.read_blob(item.descriptor)
    assert publish(farm, second, at(release_registry)).pushed.moved == 0


def test_a_later_comparison_can_be_added(release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path) -> None:
    released = farm.released()
    publish(farm, released, at(release_registry))
    farm.rebuild(released, worker="third", host="third-host")

    assert publish(farm, released, at(release_registry)).again

    report = verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)
    assert sum(check.name.startswith("comparison") for check in report.checks) == 4


def test_what_strangers_add_does_no_harm(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle of their own, and their statements about ours in the lists of referrers, each signed with their key."""
    released = farm.released()
    made = publish(farm, released, at(release_registry))
    stranger = releases.farm(tmp_path / "stranger")
    about_ours = oci_bundle.read(stranger.released()).require()
    assert about_ours.digest == made.digest  # who signs decides no byte of a bundle
    there = Remote(at(release_registry))
    transfer.push(there, oci_bundle.read(stranger.released(salt="theirs", out="second")).require())
    with monkeypatch.context() as patch:
        patch.setattr(Remote, "lay_out", lambda *_: False)  # that adds nothing, it replaces: below
        transfer.push(there, about_ours)

    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok
    assert codes(verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), stranger)) == {Code.WRONG_KEY}
    assert publish(farm, released, at(release_registry)).pushed.moved == 0


def test_a_stranger_who_lays_the_same_bundle_out_as_theirs_is_found_out(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    released = farm.released()
    publish(farm, released, at(release_registry))
    stranger = releases.farm(tmp_path / "stranger")
    theirs = stranger.released()
    with pytest.raises(FarmError) as caught:
        publish(stranger, theirs, at(release_registry))
    assert caught.value.code is Code.WRONG_KEY
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok

    transfer.push(Remote(at(release_registry)), oci_bundle.read(theirs).require())

    assert codes(verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm)) == {Code.SIGNATURE_MISSING}
    publish(farm, released, at(release_registry))
    assert verify(tmp_path / "consumer", at(release_registry, ":1.0.0"), farm).ok


def test_a_withdrawn_release_is_refused_with_where_to_go(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    publish(farm, farm.released(), at(release_registry))
    consumer_home = Home(tmp_path / "consumer")
    locked = consumer.lock(consumer_home, [at(release_registry)], farm.public)
    publish(farm, farm.released(salt="fixed", out="second"), at(release_registry))

    entry = publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="odd widths", redirect="1.0.1")
    again = publishing.withdraw(farm.settings, at(release_registry, ":1.0.0"), reason="odd widths", redirect="1.0.1")

    assert again == entry
    report = verify(consumer_home.root, at(release_registry, ":1.0.0"), farm)
    (error,) = report.errors
    assert (error.code, error.why) == (Code.RELEASE_WITHDRAWN, "odd widths")
    assert error.next_step == f"Take {at(release_registry).place}:1.0.1 instead."
    assert report.status == 4
    with pytest.raises(FarmError) as caught:
        consumer.fetch(consumer_home, locked, farm.public, tmp_path / "out", check_payload=bundles.no_check)
    assert caught.value.code is Code.RELEASE_WITHDRAWN
    (fetched,) = consumer.fetch(
        consumer_home, locked, farm.public, tmp_path / "out", withdrawn_too=True, check_payload=bundles.no_check
    )
    assert fetched.version == "1.0.0"
    assert consumer.lock(consumer_home, [at(release_registry)], farm.public).bundles[0].version == "1.0.1"


def test_an_interrupted_fetch_goes_on_where_it_stopped(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(farm, farm.released(), at(release_registry))
    home = Home(tmp_path / "consumer")
    locked = consumer.lock(home, [at(release_registry)], farm.public)
    real, fetched = Remote.fetch, []

    def breaking(self: Remote, blob: oci.Descriptor, path: Path) -> None:
        if len(fetched) == 3:
            raise KeyboardInterrupt
        before = path.exists()
        real(self, blob, path)
        fetched.extend([] if before else [blob.digest])

    monkeypatch.setattr(Remote, "fetch", breaking)
    with pytest.raises(KeyboardInterrupt):
        consumer.fetch(home, locked, farm.public, tmp_path / "out", check_payload=bundles.no_check)
    first = list(fetched)
    fetched.clear()
    monkeypatch.setattr(
        Remote, "fetch", lambda self, blob, path: (fetched.append(path.exists()), real(self, blob, path))
    )
    (one,) = consumer.fetch(home, locked, farm.public, tmp_path / "out", check_payload=bundles.no_check)

    assert len(first) == 3
    assert sum(fetched) >= 3
    assert bundles.verified(one.path, farm.public).ok
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if not path.name.endswith(".lock")) == ["cls"]


def test_the_last_release_of_a_registry_is_what_the_next_is_compared_with(
    release_registry: ReleaseRegistry, farm: Farm, tmp_path: Path
) -> None:
    publish(farm, farm.released("1.4.0"), at(release_registry))

    past = consumer.past_of(Home(tmp_path / "home"), at(release_registry), farm.public)

    assert [version.text for version in past.versions] == ["1.4.0"]
    base = past.before()
    assert base is not None
    assert base.interface.payloads().keys() == {"x86-64-v3", "x86-64-v4"}


def test_without_a_registry_the_error_says_so(farm: Farm, tmp_path: Path) -> None:
    keys.new(Home(tmp_path / "other"))
    with pytest.raises(FarmError) as caught:
        publish(farm, farm.released(), reference.parse("127.0.0.1:1/media/cls"))
    assert caught.value.code is Code.REGISTRY_UNREACHABLE
