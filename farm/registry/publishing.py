"""`farm publish` and `farm withdraw`: what writes to a repository's release log, one at a time.

The lock is this farm's: it lies beside the key that signs the log, and only who has that key can write to it. Order:
the bundle's bytes, the log entry, the tag. Broken off anywhere, the same command goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farm.config import Config
from farm.registry import log, memory, transfer
from farm.registry.log import ReleaseLog
from farm.registry.reference import Reference
from farm.registry.remote import Remote
from farm.registry.transfer import Pushed, Say, silent
from farm.release import versions
from farm.release.release import open_all, released_of, require_good
from farm.verify import PayloadCheck, verify_bundle
from kernelfarm import canonical, digest, files, oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci_bundle import BundleView
from signing import client, keys
from signing.client import Signer
from signing.keys import PublicKey
from signing.release import Deed, LogEntry

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
    statement, RELEASE_EXISTS for another bundle of the same version, VERSION_NOT_NEXT for one that does not come after
    all published, RELEASE_WITHDRAWN, TAG_MOVED, and as `verify_bundle`, `Remote` and `log.decode`.
    """
    home = settings.home.create()
    public = keys.load_public(keys.find(home, key).public)
    require_good(verify_bundle(root, public, check_payload=check_payload))
    view = oci_bundle.read(root).require()
    _require_released(view, public, root)
    remote = Remote(place)
    with _turn(settings, place), client.open_signer(home, key) as signer:
        found = _read(settings, remote, public)
        wanted = versions.parse(view.version or "")
        entry = found.published(wanted.tag)
        _require_open(found, entry, view, remote, wanted.tag)
        if entry is None:
            versions.require_next(wanted, found.versions())
        pushed = transfer.push(remote, view, say)
        if entry is None:
            entry = log.next_entry(
                found, Deed.PUBLISH, place.repository, name=view.name, version=str(wanted), digest=view.digest
            )
            _append(settings, remote, found, entry, root, signer)
        again = _tag(remote, view, wanted.tag)
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

    The same withdrawal again is no fault. Raises RELEASE_UNKNOWN for a version that was not published, or a redirect to
    none that is good; USAGE without a reason.
    """
    home = settings.home.create()
    public = keys.load_public(keys.find(home, key).public)
    if not reason.strip() or not reason.isprintable() or len(reason) > 1000:
        raise FarmError(
            Code.USAGE, "a withdrawal needs a reason", "in a line of at most 1000 letters", "Give --reason."
        )
    remote = Remote(place)
    with _turn(settings, place), client.open_signer(home, key) as signer:
        found = _read(settings, remote, public)
        entry = found.of_digest(place.digest) if place.digest else found.published(place.tag)
        if entry is None:
            raise unknown(place, found)
        _require_redirect(found, entry, redirect, place)
        if before := found.withdrawn(entry.tag):
            return before
        made = log.next_entry(
            found,
            Deed.WITHDRAW,
            place.repository,
            name=entry.name,
            version=entry.version,
            digest=entry.digest,
            reason=reason,
            redirect=redirect,
        )
        with files.coded("a release could not be fetched", home.cache), files.temp_folder(home.cache) as folder:
            transfer.pull(remote, entry.digest, public, folder)  # the signer signs about bytes that it can hash
            _append(settings, remote, found, made, folder, signer)
        return made


def unknown(place: Reference, found: ReleaseLog) -> FarmError:
    """The error that a reference means nothing that was published."""
    tags = ", ".join(version.tag for version in sorted(found.versions())) or "nothing"
    what = f"{place} is not published"
    return FarmError(Code.RELEASE_UNKNOWN, what, f"the release log of {place.place} has {tags}", "Name one of these.")


def _require_released(view: BundleView, public: PublicKey, root: Path) -> None:
    if released_of(open_all(view, public)) is None:
        what, why = f"{root} is not a release", "nothing in it says that it passed the gates"
        raise FarmError(Code.NOT_RELEASED, what, why, f"Run `farm release {root}` first.")


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
    target = found.published(versions.parse(redirect).tag)
    if target is None or found.withdrawn(target.tag) or target.tag == entry.tag:
        raise unknown(Reference(place.host, place.repository, redirect), found)


def _tag(remote: Remote, view: BundleView, tag: str) -> bool:
    """Set the tag, last of all, and look that it holds; whether it was set before."""
    assert view.descriptor is not None
    data = view.folder.read_blob(view.descriptor)
    before = remote.tagged(tag) == data
    if not before:
        remote.put(tag, data, oci.INDEX)
    if remote.tagged(tag) != data:
        why = "it was set and then meant something else: somebody writes to the repository past this farm"
        raise FarmError(Code.TAG_MOVED, f"{remote.reference.place}:{tag} does not hold", why, "Publish again.")
    return before


@contextmanager
def _turn(settings: Config, place: Reference) -> Iterator[None]:
    """Be the only process of this farm that writes to a repository."""
    name = digest.hex_of(canonical.digest_of({"publish": place.place}))[:16]
    with files.locked(settings.home.run / f"publish-{name}", timeout_s=_TURN_S):
        yield


def _read(settings: Config, remote: Remote, public: PublicKey) -> ReleaseLog:
    found = transfer.read_log(remote, public)
    memory.require_and_remember(settings.home, remote.reference, public.keyid, found)
    return found


def _append(settings: Config, remote: Remote, found: ReleaseLog, entry: LogEntry, root: Path, signer: Signer) -> None:
    """Sign an entry about the bundle in `root` and put the longer log in place."""
    (sealed,) = signer.sign(root, [entry.statement()])
    longer = found.with_entry(sealed, signer.public, remote.reference.repository)
    with files.coded("the release log could not be written", settings.home.cache):
        settings.home.cache.mkdir(parents=True, exist_ok=True)
        with files.temp_folder(settings.home.cache) as scratch:
            transfer.write_log(remote, longer, scratch)
    again = transfer.read_log(remote, signer.public)
    log.require_extends(again, longer.head, remote.reference.place)
    memory.require_and_remember(settings.home, remote.reference, signer.public.keyid, again)
