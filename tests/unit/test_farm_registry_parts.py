"""References, credentials, the chain of the release log, and reports for pipelines."""

from __future__ import annotations

import base64
import json
import tracemalloc
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from farm.registry import access, lockfile, log, memory, reference
from farm.registry.lockfile import Locked, Lockfile
from farm.registry.log import Head, ReleaseLog
from farm.release import reports, versions
from farm.verify import Check, Report
from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from signing import dsse
from signing.release import Deed, LogEntry
from tests.support import bundles

KEY = bundles.signer()
D = [digest.of_bytes(bytes([number])) for number in range(4)]


@pytest.mark.parametrize(
    ("text", "host", "repository", "tag", "named"),
    [
        ("registry.example/media/cls:1.2.0", "registry.example", "media/cls", "1.2.0", None),
        ("localhost/cls", "localhost", "cls", "", None),
        ("localhost:5000/cls:1.0.0-rc.1", "localhost:5000", "cls", "1.0.0-rc.1", None),
        ("[::1]:5000/a/b-c_d.e:x", "[::1]:5000", "a/b-c_d.e", "x", None),
        (f"oci://127.0.0.1:5000/cls@{D[0]}", "127.0.0.1:5000", "cls", "", D[0]),
    ],
)
def test_a_reference_is_read(text: str, host: str, repository: str, tag: str, named: str | None) -> None:
    found = reference.parse(text)

    assert (found.host, found.repository, found.tag, found.digest) == (host, repository, tag, named)
    assert str(found) == text.removeprefix("oci://")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cls",
        "cls:1",
        "media/cls:1",
        "registry.example/",
        "registry.example/Media",
        "registry.example/a//b",
        "registry.example/../b:1",
        "registry.example/a:",
        "registry.example/a@sha256:00",
        "user@registry.example/a",
        "registry.example:port/a",
        f"registry.example/a:1@{D[0]}",
        "registry.example/a?b",
        "-.example/a",
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(FarmError) as caught:
        reference.parse(text)
    assert caught.value.code is Code.REFERENCE_INVALID


def test_a_folder_is_no_reference_even_where_it_looks_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert reference.looks_like("registry.example/cls:1.0.0")
    (tmp_path / "registry.example").mkdir()
    (tmp_path / "registry.example/cls:1.0.0").mkdir()
    assert not reference.looks_like("registry.example/cls:1.0.0")
    assert not reference.looks_like("bundles/model")


@pytest.mark.parametrize("text", ["registry.example/media/cls", "localhost:5000/cls"])
def test_a_repository_without_a_version_is_told_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FarmError) as caught:
        reference.require_version(text)

    assert caught.value.code is Code.REFERENCE_INVALID
    assert caught.value.what == f"{text} names no version and no digest"
    assert f"Write {text}:1.2.0, or {text}@sha256:...; oci://{text} is its last final release." in str(caught.value)
    (tmp_path / text).mkdir(parents=True)
    reference.require_version(text)


@pytest.mark.parametrize("text", ["bundles/model", "registry.example/cls:1.0.0", "oci://registry.example/cls", "cls"])
def test_what_is_no_bare_repository_lacks_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    reference.require_version(text)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost:1", True),
        ("127.9.9.9", True),
        ("[::1]:5", True),
        ("localhost.example", False),
        ("192.0.2.1:80", False),
    ],
)
def test_only_the_loopback_interface_is_spoken_to_without_tls(host: str, local: bool) -> None:
    place = reference.parse(f"{host}/a")
    assert place.is_local is local
    assert access.registry(place, {}).url == f"{'http' if local else 'https'}://{host}/"


def test_credentials_come_from_the_environment_else_from_docker(tmp_path: Path) -> None:
    auth = base64.b64encode(b"me:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"registry.example": {"auth": auth}}}))
    given = {"DOCKER_CONFIG": str(tmp_path)}

    assert access.credentials("registry.example", given) == "me:secret"
    assert access.credentials("other.example", given) == ""
    given |= {"FARM_REGISTRY_USER": "u", "FARM_REGISTRY_PASSWORD": "p", "FARM_REGISTRY_HOST": "x.example:5000"}
    assert access.credentials("x.example:5000", given) == "u:p"
    assert access.credentials("registry.example", given) == "me:secret"
    for host in ("x.example", "mirror.example", "x.example:5001"):  # a lock file, --mirror and --against name hosts
        assert access.credentials(host, given) == ""
    (tmp_path / "config.json").write_text('{"auths": {"registry.example": {"auth": "no base64"}}}')
    assert access.credentials("registry.example", given) == ""


def chain(*deeds: tuple[Deed, str, str]) -> list[LogEntry]:
    """Entries that follow each other: (deed, version, digest)."""
    made: list[LogEntry] = []
    for deed, version, named in deeds:
        found = ReleaseLog(tuple(made))
        reason = "odd widths" if deed is Deed.WITHDRAW else ""
        entry = log.next_entry(
            found,
            deed,
            "media/cls",
            name="cls",
            version=version,
            digest=digest.parse(named),
            channel="stable",
            reason=reason,
        )
        made.append(entry)
    return made


def sealed(entries: list[LogEntry], signer: bundles.LocalSigner = KEY) -> bytes:
    return b"".join(dsse.seal(entry.statement(), signer.private) + b"\n" for entry in entries)


GOOD = chain((Deed.PUBLISH, "1.0.0", D[0]), (Deed.PUBLISH, "1.0.1", D[1]), (Deed.WITHDRAW, "1.0.0", D[0]))


def remembered(home: Home, place: str, entries: list[LogEntry]) -> None:
    found = log.decode(sealed(entries), KEY.public, "media/cls")
    memory.require_and_remember(home, reference.parse(place), KEY.public, "media/cls", found)


@pytest.mark.parametrize("place", ["registry.example/media/cls", "alias.example:5000/media/cls"])
def test_whoever_shows_a_log_is_held_against_what_was_seen_of_it_anywhere(tmp_path: Path, place: str) -> None:
    home = Home(tmp_path)
    remembered(home, "registry.example/media/cls", GOOD)
    second = replace(GOOD[1], digest=D[3])
    forked = [GOOD[0], second, replace(GOOD[2], previous=second.identity)]

    with pytest.raises(FarmError) as caught:
        remembered(home, place, GOOD[:1])
    assert (caught.value.code, caught.value.detail) == (Code.LOG_BEHIND, {"entries": 1, "seen": 3})
    with pytest.raises(FarmError) as caught:
        remembered(home, place, forked)
    assert caught.value.code is Code.LOG_FORKED
    remembered(home, place, GOOD)
    assert memory.seen(home, reference.parse(place), KEY.public, "media/cls").entries == tuple(GOOD)


def test_two_logs_of_one_path_are_two_though_they_began_with_the_same_release(tmp_path: Path) -> None:
    """A release is published to a registry for trials, then to the one for all: neither is a stale mirror."""
    home, first, second = Home(tmp_path), "trial.example/media/cls", "registry.example/media/cls"
    remembered(home, first, GOOD)

    remembered(home, second, chain((Deed.PUBLISH, "1.0.0", D[0])))

    assert memory.seen(home, reference.parse(first), KEY.public, "media/cls").head.sequence == 3
    assert memory.seen(home, reference.parse(second), KEY.public, "media/cls").head.sequence == 1


def test_a_place_that_shows_no_log_or_another_than_before_is_noticed(tmp_path: Path) -> None:
    home, place = Home(tmp_path), "registry.example/media/cls"
    remembered(home, place, GOOD[:2])
    another = chain(*[(Deed.PUBLISH, f"1.0.{patch}", D[0]) for patch in range(3)])

    for entries, code in (([], Code.LOG_BEHIND), (another, Code.LOG_FORKED)):
        with pytest.raises(FarmError) as caught:
            remembered(home, place, entries)
        assert caught.value.code is code


def test_what_was_seen_of_a_log_is_found_by_its_name_wherever_it_was_seen(tmp_path: Path) -> None:
    home, other = Home(tmp_path), reference.parse("other.example/media/cls")
    remembered(home, "registry.example/media/cls", GOOD)

    assert memory.seen_of(home, GOOD[0].log, KEY.public).withdrawn("1.0.0") == GOOD[2]
    assert memory.seen(home, other, KEY.public, "media/cls") == ReleaseLog()
    (path,) = (tmp_path / "registry").glob("*.place")
    path.write_text("no name")
    with pytest.raises(FarmError) as caught:
        remembered(home, "registry.example/media/cls", GOOD)
    assert (caught.value.code, caught.value.detail) == (Code.LOG_INVALID, {"file": str(path)})


def test_a_log_says_what_a_tag_means_and_what_is_withdrawn() -> None:
    found = log.decode(sealed(GOOD), KEY.public, "media/cls")

    assert found.published("1.0.1") == GOOD[1]
    assert found.withdrawn("1.0.0") == GOOD[2]
    assert found.latest() == GOOD[1]
    assert found.head == Head(3, GOOD[2].identity)
    assert log.decode(b"", KEY.public, "media/cls") == ReleaseLog()


@pytest.mark.parametrize(
    ("version", "before"),
    [
        ("1.0.0-rc.1", None),  # nothing final comes before it
        ("1.0.0", None),
        ("1.0.2", "1.0.1"),  # though 2.0.0 was published since, and 1.0.1 withdrawn
        ("1.1.0", "1.0.1"),  # pre-releases promise nothing
        ("2.0.0", "1.0.1"),
        ("2.0.0+again", "1.0.1"),
        ("2.0.1-rc.1", "2.0.0"),
    ],
)
def test_a_log_says_what_a_version_is_compared_with(version: str, before: str | None) -> None:
    published = [(Deed.PUBLISH, text, D[0]) for text in ("1.0.0-rc.1", "1.0.0", "1.0.1", "1.1.0-rc.1", "2.0.0")]
    found = ReleaseLog(tuple(chain(*published, (Deed.WITHDRAW, "1.0.1", D[0]))))

    base = found.before(versions.parse(version))

    assert (None if base is None else base.version) == before


FAULTY = {
    "one taken out": GOOD[1:],
    "one in the middle taken out": [GOOD[0], GOOD[2]],
    "two exchanged": [GOOD[1], GOOD[0], GOOD[2]],
    "one twice": [GOOD[0], GOOD[0]],
    "another history before": [replace(chain((Deed.PUBLISH, "1.0.0", D[2]))[0], log=GOOD[0].log), GOOD[1]],
    "a tag that is moved": chain((Deed.PUBLISH, "1.0.0", D[0]), (Deed.PUBLISH, "1.0.0", D[1])),
    "a tag that is moved by build metadata": chain((Deed.PUBLISH, "1.0.0", D[0]), (Deed.PUBLISH, "1.0.0+x", D[1])),
    "withdrawn, never published": chain((Deed.WITHDRAW, "1.0.0", D[0])),
    "withdrawn twice": chain((Deed.PUBLISH, "1.0.0", D[0]), *[(Deed.WITHDRAW, "1.0.0", D[0])] * 2),
    "withdrawn as something else": chain((Deed.PUBLISH, "1.0.0", D[0]), (Deed.WITHDRAW, "1.0.0", D[1])),
    "without a reason": [GOOD[0], GOOD[1], replace(GOOD[2], reason="")],
    "another tag than its version's": [replace(GOOD[0], tag="2.0.0")],
    "withdrawn from another channel": [GOOD[0], GOOD[1], replace(GOOD[2], channel="preview")],
    "another log's later": [GOOD[0], replace(GOOD[1], log="0" * 32)],
    "another repository's": [replace(GOOD[0], repository="media/det")],
    "another name later": [GOOD[0], replace(GOOD[1], name="det")],
}


@pytest.mark.parametrize("entries", FAULTY.values(), ids=FAULTY.keys())
def test_a_log_that_does_not_hold_is_refused_even_if_every_entry_is_signed(entries: list[LogEntry]) -> None:
    with pytest.raises(FarmError) as caught:
        log.decode(sealed(entries), KEY.public, "media/cls")
    assert caught.value.code is Code.LOG_INVALID


@pytest.mark.parametrize("repository", ["mirror/media/cls", "cls", "other/cls"])
def test_a_log_counts_for_its_own_repository_only(repository: str) -> None:
    """Else `cls` could be served the log of `media/cls`, which another team of the same key fills."""
    with pytest.raises(FarmError) as caught:
        log.decode(sealed(GOOD), KEY.public, repository)
    assert caught.value.code is Code.LOG_INVALID


def test_a_line_that_is_too_long_for_an_entry_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "\U0001f600" * 1000
    longest = [GOOD[0], replace(GOOD[2], sequence=2, previous=GOOD[0].identity, reason=reason)]
    assert log.decode(sealed(longest), KEY.public, "media/cls").entries == tuple(longest)
    monkeypatch.setattr(dsse, "open_sealed", lambda *_: pytest.fail("it was parsed"))

    with pytest.raises(FarmError) as caught:
        log.decode(b"[" * (6 << 20) + b"\n", KEY.public, "media/cls")

    assert caught.value.code is Code.LOG_INVALID


@pytest.mark.parametrize("data", [b"\n" * (4 << 20), b"\n", b"{}\n" * (1 << 20), b"x" * (4 << 20)])
def test_what_is_no_log_is_refused_at_its_first_line_whatever_follows(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FarmError) as caught:
            log.decode(data, KEY.public, "media/cls")
        assert caught.value.next_step
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20


def test_a_log_whose_last_line_is_not_whole_is_refused() -> None:
    with pytest.raises(FarmError) as caught:
        log.decode(sealed(GOOD)[:-1], KEY.public, "media/cls")
    assert (caught.value.code, "whole line" in caught.value.why) == (Code.LOG_INVALID, True)


def test_another_key_signs_no_entry() -> None:
    with pytest.raises(FarmError) as caught:
        log.decode(sealed(GOOD[:1]) + sealed(GOOD[1:], bundles.signer(2)), KEY.public, "media/cls")
    assert caught.value.code is Code.WRONG_KEY


LOCKED = Locked("cls", "registry.example/media/cls", "1.0.0", "stable", D[0], (("x86-64-v3", D[1]),), "0" * 32, 1, D[2])
FAULTY_LOCKS: dict[str, list[Locked]] = {
    "no bundle at all": [],
    "nothing was seen of the log": [replace(LOCKED, log_sequence=0)],
    "no log": [replace(LOCKED, log="")],
    "less than nothing was seen": [replace(LOCKED, log_sequence=-5)],
    "a source with a tag": [replace(LOCKED, source="registry.example/media/cls:1.0.0")],
    "a source with a digest": [replace(LOCKED, source=f"registry.example/media/cls@{D[0]}")],
    "one name twice": [LOCKED, replace(LOCKED, source="registry.example/media/other")],
    "a name that leads elsewhere": [replace(LOCKED, name="../cls")],
    "a version that is none": [replace(LOCKED, version="1.0")],
}


@pytest.mark.parametrize("items", FAULTY_LOCKS.values(), ids=FAULTY_LOCKS.keys())
def test_a_lock_file_that_says_too_little_is_refused(tmp_path: Path, items: list[Locked]) -> None:
    path = tmp_path / "farm.lock"
    path.write_bytes(canonical.encode(Lockfile("key", (LOCKED,))))
    assert lockfile.read(path).bundles == (LOCKED,)
    value = {**canonical.to_json(Lockfile("key", ())), "bundles": [canonical.to_json(item) for item in items]}
    path.write_bytes(canonical.dumps(value))

    with pytest.raises(FarmError) as caught:
        lockfile.read(path)

    assert caught.value.code is Code.LOCKFILE_INVALID


def test_a_log_that_ends_early_or_was_rewritten_is_noticed() -> None:
    found = log.decode(sealed(GOOD), KEY.public, "media/cls")
    log.require_extends(found, Head(0, None), "here")
    log.require_extends(found, Head(2, GOOD[1].identity), "here")
    for seen, code in ((Head(4, D[0]), Code.LOG_BEHIND), (Head(2, D[0]), Code.LOG_FORKED)):
        with pytest.raises(FarmError) as caught:
            log.require_extends(found, seen, "here")
        assert caught.value.code is code


REPORT = Report(
    signed=True,
    checks=[
        Check("layout", "index.json", "3 blobs"),
        Check("payload", "blobs/a b", error=FarmError(Code.BUNDLE_CORRUPT, "damaged \x00 <&", "why", "Do it.")),
        Check("tool", "x", error=FarmError(Code.TOOL_MISSING, "no tool")),
    ],
)


def test_junit_has_a_case_for_each_check() -> None:
    made = reports.to_junit(REPORT, "farm verify")
    root = ET.fromstring(made)

    assert root.attrib == {"name": "farm verify", "tests": "3", "failures": "1", "errors": "1", "time": "0"}
    assert [child.attrib for child in root] == [root.attrib]
    assert {(case.get("classname"), case.get("time")) for case in root.iter("testcase")} == {("farm.verify", "0")}
    assert len({case.get("name") for case in root.iter("testcase")}) == 3  # GitLab tells cases apart by these names
    assert [[child.tag for child in case] for case in root.iter("testcase")] == [["system-out"], ["failure"], ["error"]]
    assert made == reports.to_junit(REPORT, "farm verify")


def test_sarif_has_a_result_for_what_does_not_hold() -> None:
    (run,) = json.loads(reports.to_sarif(REPORT))["runs"]

    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["FARM-E0421", "FARM-E0730"]
    first, second = run["results"]
    assert (first["ruleId"], first["level"], second["level"]) == ("FARM-E0421", "error", "warning")
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "blobs/a%20b"
    assert place["region"]["startLine"] == 1
    assert first["message"]["text"] == "payload: blobs/a b: damaged \ufffd <&. why. Do it."
    assert first["partialFingerprints"] != second["partialFingerprints"]
