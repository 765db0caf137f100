"""`farm publish` and `farm withdraw`: what writes to a repository's release log, one at a time.

The lock is this farm's: it lies beside the key that signs the log, and only who has that key can write to it. Order:
the bundle's bytes, a look whether a consumer could verify them there, the log entry, the tag, which is set once and
never moved, and a last look at both. Broken off anywhere, the same command goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farm.config import Config
from farm.licences import gate
from farm.registry import log, memory, transfer
from farm.registry.log import ReleaseLog
from farm.registry.reference import Reference
from farm.registry.remote import Remote
from farm.registry.transfer import Pushed, Say, silent
from farm.release import facts, standing, versions
from farm.release.release import open_all, require_good
from farm.release.versions import Version
from farm.verify import PayloadCheck, verify_bundle
from kernelfarm import canonical, digest, files, layout, oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci_bundle import BundleView, PayloadView
from signing import client, keys
from signing.keys import PublicKey
from signing.release import Deed, LogEntry, Release, released_of

_TURN_S = 600.0


@dataclass(frozen=True, slots=True)
class Published:
    """A release in a repository. `again`: it was there, complete, under this very tag."""

    reference: Reference
    digest: Digest
    entry: LogEntry
    pushed: Pushed
    again: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON, schema "published/1"."""
        return {
            "schema": "published/1",
            "reference": str(self.reference),
            "digest": self.digest,
            "name": self.entry.name,
            "version": self.entry.version,
            "channel": self.entry.channel,
            "log": {"sequence": self.entry.sequence, "entry": self.entry.identity},
            "moved": self.pushed.moved,
            "present": self.pushed.present,
            "again": self.again,
        }


def publish(
    settings: Config,
    root: Path,
    place: Reference,
    *,
    key: str = keys.DEFAULT,
    check_payload: PayloadCheck | None = None,
    say: Say = silent,
) -> Published:
    """Bring the release in the folder `root` into a repository, under the tag of its version.

    The same release again is no fault: what is missing is pushed. Raises NOT_RELEASED for a bundle without a release
    statement, LICENCE_*, BUILDS_DISAGREE where what it was released by does not hold today, RELEASE_EXISTS for another
    bundle of the same version, VERSION_NOT_NEXT for one that does not come after all published, RELEASE_NOT_COMPARED,
    BUMP_TOO_LOW, CHANNEL_REFUSED, RELEASE_WITHDRAWN, TAG_MOVED, and as `verify_bundle`, `Remote`, `transfer.pull` and
    `log.decode`.
    What the registry lost of the log is put back first, as this farm wrote it.
    """
    home = settings.home.create()
    public = keys.load_public(keys.find(home, key).public)
    require_good(verify_bundle(root, public, check_payload=check_payload), str(root))
    view = oci_bundle.read(root).require()
    released = _require_released(view, public, root)
    remote = Remote(place)
    with _turn(settings, place):
        found = _restored(settings, remote, public, say)
        wanted = versions.parse(view.version or "")
        entry = found.published(wanted.tag)
        _require_open(found, entry, view, remote, wanted.tag)
        if entry is None:
            versions.require_next(wanted, found.versions())
        else:
            _require_same_channel(entry, released)
        base = found.before(wanted)
        if base is not None:
            _require_compared(base, wanted, released, root, place)
            if entry is None:
                _require_level(remote, base, wanted, view, public, home.cache)
        pushed = transfer.push(remote, view, say)
        _require_there(settings, remote, view, public)
        if entry is None:
            entry = log.next_entry(
                found,
                Deed.PUBLISH,
                place.repository,
                name=view.name,
                version=str(wanted),
                digest=view.digest,
                channel=released.channel,
            )
            with client.open_signer(home, key) as signer:  # not before: it ends when nobody asks it for minutes
                (sealed,) = signer.sign(root, [entry.statement()])
            found = _append(settings, remote, found, sealed, public)
        again = _tag(remote, view, wanted.tag)
        now = transfer.read_log(remote, public)  # of two that wrote at the same time the first learns it here
        log.require_extends(now, found.head, place.place)
        return Published(Reference(place.host, place.repository, wanted.tag), view.digest, entry, pushed, again)


def withdraw(
    settings: Config,
    place: Reference,
    *,
    reason: str,
    redirect: str = "",
    key: str = keys.DEFAULT,
) -> LogEntry:
    """Say in the log that nobody should take a release any more, and which one instead. Its bytes and tag stay.

    The same withdrawal again is no fault, and none of the bundle's bytes need be left. Raises RELEASE_UNKNOWN for a
    version or a redirect that was not published; RELEASE_WITHDRAWN for a redirect that is withdrawn, or a version that
    was for another reason or redirect; USAGE without a reason, or for a redirect to the version itself.
    """
    home = settings.home.create()
    public = keys.load_public(keys.find(home, key).public)
    if not reason.strip() or not reason.isprintable() or len(reason) > 1000:
        raise FarmError(
            Code.USAGE, "a withdrawal needs a reason", "in a line of at most 1000 letters", "Give --reason."
        )
    redirect = versions.parse(redirect).tag if redirect else ""
    remote = Remote(place)
    with _turn(settings, place):
        found = _restored(settings, remote, public, silent)
        entry = found.of_digest(place.digest) if place.digest else found.published(place.tag)
        if entry is None:
            raise unknown(place, found)
        if before := found.withdrawn(entry.tag):
            if (before.reason, before.redirect) != (reason, redirect):
                raise withdrawn_error(before, place.place)
            return before
        _require_redirect(found, entry, redirect, place)
        made = log.next_entry(
            found,
            Deed.WITHDRAW,
            place.repository,
            name=entry.name,
            version=entry.version,
            digest=entry.digest,
            channel=entry.channel,
            reason=reason,
            redirect=redirect,
        )
        with client.open_signer(home, key) as signer:
            sealed = signer.withdraw(made.statement())
        _append(settings, remote, found, sealed, public)
        return made


def unknown(place: Reference, found: ReleaseLog) -> FarmError:
    """The error that a reference means nothing that was published."""
    tags = ", ".join(version.tag for version in sorted(found.versions())) or "nothing"
    what = f"{place} is not published"
    return FarmError(Code.RELEASE_UNKNOWN, what, f"the release log of {place.place} has {tags}", "Name one of these.")


def _require_released(view: BundleView, public: PublicKey, root: Path) -> Release:
    """The release statement of a bundle, of which today holds what the channel demanded of licences and builds."""
    statements = open_all(view, public)
    found = released_of(statements)
    if found is None:
        what, why = f"{root} is not a release", "nothing in it says that it passed the gates"
        raise FarmError(Code.NOT_RELEASED, what, why, f"Run `farm release {root}` first.")
    standing.require(statements)
    standing.judge(view, statements, gate.today(), found.licences)
    return found


def _require_same_channel(entry: LogEntry, released: Release) -> None:
    """Raise where the same bundle is published for another channel: its statement would go, and what that demanded.

    The log says for which: what lies beside the bundle there, a registry can lose.
    """
    if entry.channel != released.channel:
        what = f"{entry.name} {entry.version} is published for the channel {entry.channel}"
        why = f"this release of the same payloads is for {released.channel}"
        advice = f"Give them a version of their own for {released.channel}: `farm release --version`."
        raise FarmError(Code.CHANNEL_REFUSED, what, why, advice, {"channel": entry.channel})


def _require_compared(base: LogEntry, wanted: Version, released: Release, root: Path, place: Reference) -> None:
    """Raise unless the release says what it changes for who has the one published before it: farms differ in what they
    have on record, the log is one. What comes first in a repository may come from anywhere.
    """
    if released.before is not None and released.before.digest == base.digest:
        return
    other = "nothing" if released.before is None else f"{released.before.version}, {released.before.digest}"
    why = f"{place.place} has {base.version}, {base.digest}; the release was compared with {other}"
    command = f"farm release {root} --channel {released.channel} --against {place.place}"
    advice = f"Run `{command}`, and publish what that gives."
    detail = {"published": base.digest, "version": base.version}
    raise FarmError(Code.RELEASE_NOT_COMPARED, f"{wanted} was not compared with {base.version}", why, advice, detail)


def _require_level(
    remote: Remote, base: LogEntry, wanted: Version, view: BundleView, public: PublicKey, scratch: Path
) -> None:
    """Compare once more, with the published bytes: what a farm has on record is not signed. Raises BUMP_TOO_LOW.

    Of a release whose bytes are gone, as they may be, the release's own word is all there is.
    """
    try:
        with transfer.fetched(remote, base.digest, public, scratch) as before:
            old, goldens = facts.interface_of(before), facts.goldens_of(before)
    except FarmError as error:
        if error.code is Code.REGISTRY_UNREACHABLE:
            raise
        return
    verdict = facts.compared(old, goldens, facts.interface_of(view), view)
    versions.require_level(wanted, versions.parse(base.version), verdict.level, verdict.reasons)


def _require_open(found: ReleaseLog, entry: LogEntry | None, view: BundleView, remote: Remote, tag: str) -> None:
    """Raise unless the version is free in the repository, or means this very bundle there."""
    place = remote.reference.place
    if entry is not None and entry.digest != view.digest:
        why = f"entry {entry.sequence} of its log says that {tag} is {entry.digest}, this bundle is {view.digest}"
        advice = "A version means one bundle for ever: release this one under the next version."
        raise FarmError(Code.RELEASE_EXISTS, f"{place}:{tag} exists", why, advice, {"published": entry.digest})
    if withdrawn := found.withdrawn(tag):
        raise withdrawn_error(withdrawn, place)
    there = remote.tagged(tag)
    if there is not None and digest.of_bytes(there) != view.digest:
        why = (
            f"the tag means {digest.of_bytes(there)}; the log says {'nothing of it' if entry is None else view.digest}"
        )
        advice = "Somebody set it past the log. Remove it in the registry, or publish to another repository."
        raise FarmError(Code.TAG_MOVED, f"{place}:{tag} was set by somebody else", why, advice)
    if found.entries and found.entries[0].name != view.name:
        why = f"its release log is that of {found.entries[0].name!r}"
        advice = "Publish each model to a repository of its own."
        raise FarmError(Code.RELEASE_EXISTS, f"{place} holds another model than {view.name!r}", why, advice)


def withdrawn_error(entry: LogEntry, place: str) -> FarmError:
    """The error that a release is withdrawn, with where to go instead."""
    advice = f"Take {place}:{entry.redirect} instead." if entry.redirect else "Take another release."
    detail = {"reason": entry.reason, "redirect": entry.redirect, "entry": entry.sequence}
    return FarmError(Code.RELEASE_WITHDRAWN, f"{place}:{entry.tag} is withdrawn", entry.reason, advice, detail)


def _require_redirect(found: ReleaseLog, entry: LogEntry, redirect: str, place: Reference) -> None:
    if not redirect:
        return
    target = found.published(redirect)
    if target is None:
        raise unknown(Reference(place.host, place.repository, redirect), found)
    if target.tag == entry.tag:
        what = f"{place.place}:{entry.tag} cannot be taken instead of itself"
        raise FarmError(Code.USAGE, what, next_step="Give another version as --redirect, or none.")
    if withdrawn := found.withdrawn(target.tag):
        raise withdrawn_error(withdrawn, place.place)


def _tag(remote: Remote, view: BundleView, tag: str) -> bool:
    """Set the tag where there is none, last of all, and look that it holds; whether it was set before.

    A tag is never moved, whoever set it. Between the look and the setting somebody may set it all the same: registries
    offer no "only where there is none". Whoever sets it first then finds out when they look again, or the next time.
    """
    assert view.descriptor is not None
    data = view.folder.read_blob(view.descriptor)
    before = remote.tagged(tag)
    if before is None:
        remote.put(tag, data, oci.INDEX)
    now = remote.tagged(tag) if before is None else before
    if now != data:
        means = "nothing" if now is None else digest.of_bytes(now)
        why = (
            f"it means {means}, the log now says {view.digest}: another machine with this key, or somebody, set it too"
        )
        advice = (
            "Find out who. Remove the tag in the registry and publish again; the other bundle needs its own version."
        )
        raise FarmError(Code.TAG_MOVED, f"{remote.reference.place}:{tag} is not ours", why, advice, {"found": means})
    return before is not None


@contextmanager
def _turn(settings: Config, place: Reference) -> Iterator[None]:
    """Be the only process of this farm that writes to a repository, by whatever names its registry is reached."""
    name = digest.hex_of(canonical.digest_of({"publish": place.repository}))[:16]
    with files.locked(settings.home.run / f"publish-{name}", timeout_s=_TURN_S):
        yield


def _require_there(settings: Config, remote: Remote, view: BundleView, public: PublicKey) -> None:
    """Raise unless a consumer who asks now gets this very bundle, whole and verified: before anything says so."""
    with _scratch(settings, "what was pushed could not be looked at") as folder:
        transfer.pull(remote, view.digest, public, folder)
        require_good(verify_bundle(folder, public, check_payload=_checked_before), str(remote.reference))
        if oci_bundle.read(folder).folder.read(layout.INDEX) != view.folder.read(layout.INDEX):
            what = f"{remote.reference.place} gives other attestations than were pushed"
            raise FarmError(Code.MANIFEST_REPLACED, what, "somebody writes to it at the same time", "Publish again.")


def _checked_before(view: BundleView, payload: PayloadView) -> Iterator[tuple[str, str]]:
    """Nothing: these bytes were checked in their folder, and have the same digests here."""
    del view, payload
    yield from ()


def _restored(settings: Config, remote: Remote, public: PublicKey, say: Say) -> ReleaseLog:
    """The log of the repository; where it is only the beginning of what this farm knows, the rest is put back first.

    Raises `FarmError` LOG_INVALID where there is no log and yet releases: it was lost, and is not begun anew.
    """
    place = remote.reference
    found = transfer.read_log(remote, public)
    own = (
        memory.seen_of(settings.home, found.name, public)
        if found.name
        else memory.seen(settings.home, place, public, place.repository)
    )
    if own.head.sequence > found.head.sequence and own.entries[: found.head.sequence] == found.entries:
        say(f"the registry lost entries {found.head.sequence + 1} to {own.head.sequence} of the log: put back")
        _write(settings, remote, own)
        found = transfer.read_log(remote, public)
    if not found.entries and (tags := remote.versions()):
        why = f"it has no log, and yet bundles under {', '.join(tags[:5])}: the tag {transfer.LOG_TAG} was lost"
        advice = "Publish from the machine that published them, or have the tag restored; else use another repository."
        raise FarmError(Code.LOG_INVALID, f"{place.place} has lost its release log", why, advice)
    _remember(settings, remote, found, public)
    return found


def _remember(settings: Config, remote: Remote, found: ReleaseLog, public: PublicKey) -> None:
    place = remote.reference
    memory.require_and_remember(settings.home, place, public, place.repository, found)


def _append(settings: Config, remote: Remote, found: ReleaseLog, sealed: bytes, public: PublicKey) -> ReleaseLog:
    """Put a log that is longer by one signed entry in place, unless it is another by now. The log as it is then."""
    place = remote.reference
    longer = found.with_entry(sealed, public, place.repository)
    now = transfer.read_log(remote, public)
    log.require_extends(now, found.head, place.place)
    if now.head != found.head:
        why = f"it had {found.head.sequence} entries and has {now.head.sequence}: another machine has this key"
        raise FarmError(Code.LOG_FORKED, f"the log of {place.place} grew meanwhile", why, "Run the command again.")
    _write(settings, remote, longer)
    again = transfer.read_log(remote, public)
    log.require_extends(again, longer.head, place.place)
    _remember(settings, remote, again, public)
    return again


def _write(settings: Config, remote: Remote, longer: ReleaseLog) -> None:
    with _scratch(settings, "the release log could not be written") as folder:
        transfer.write_log(remote, longer, folder)


@contextmanager
def _scratch(settings: Config, what: str) -> Iterator[Path]:
    cache = settings.home.cache
    with files.coded(what, cache):
        cache.mkdir(parents=True, exist_ok=True)
        with files.temp_folder(cache) as folder:
            yield folder
