"""The consumer's side: what a reference means, whether it holds, a lock file of digests, and fetching what that names.

Everything rests on a public key: the log that gives a tag its meaning is signed with it, and so is the bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farm import publish
from farm.bundle import require_replaceable
from farm.policy import Policy
from farm.registry import log, memory, publishing, reference, transfer
from farm.registry.lockfile import Locked, Lockfile
from farm.registry.log import Head, ReleaseLog
from farm.registry.reference import Reference
from farm.registry.remote import Remote
from farm.registry.transfer import Say, silent
from farm.release import facts, standing
from farm.release.compatibility import Interface
from farm.release.record import Released
from farm.release.release import Past, open_all, require_good
from farm.release.versions import compared_with
from farm.verify import PayloadCheck, Report, verify_bundle
from kernelfarm import digest, files, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.paths import Home
from signing.keys import PublicKey
from signing.release import LogEntry, Release
from signing.statement import Statement

_TURN_S = 600.0


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a reference means by its repository's log."""

    remote: Remote
    log: ReleaseLog
    entry: LogEntry


@dataclass(frozen=True, slots=True)
class Fetched:
    """A bundle of a lock file, in its folder. `present`: it was there already, whole."""

    name: str
    version: str
    channel: str
    digest: Digest
    path: Path
    present: bool

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "name": self.name,
            "version": self.version,
            "channel": self.channel,
            "digest": self.digest,
            "path": str(self.path),
            "present": self.present,
        }


def resolve(
    home: Home, place: Reference, public: PublicKey, *, known: Sequence[Locked] = (), origin: Reference | None = None
) -> Resolved:
    """What a reference means: a tag or digest that the log published; without either, the last good final release.

    `known` has ends of logs, of which those count that are of this log or were seen at this place; `origin` is whose
    log it is where `place` is in a mirror: what this machine saw there counts too. Raises LOG_* for a log that does not
    hold or lacks what was seen of it, RELEASE_UNKNOWN, and TAG_MOVED or MANIFEST_MISSING where `place` names a tag that
    is not where the log says.
    """
    remote = Remote(place)
    repository = (origin or place).repository
    found = transfer.read_log(remote, public, repository)
    for item in known:
        if item.log == found.name or item.source == (origin or place).place:
            log.require_extends(found, Head(item.log_sequence, item.log_identity), place.place)
    for spot in (place,) if origin is None else (origin, place):
        memory.require_and_remember(home, spot, public, repository, found)
    if place.digest:
        entry = found.of_digest(place.digest)
    elif place.tag:
        entry = found.published(place.tag)
    else:
        entry = found.latest()
    if entry is None:
        raise publishing.unknown(place, found)
    if place.tag:
        _require_tag(remote, entry)
    return Resolved(remote, found, entry)


def _require_tag(remote: Remote, entry: LogEntry) -> None:
    place = f"{remote.reference.place}:{entry.tag}"
    there = remote.tagged(entry.tag)
    if there is None:
        why = f"entry {entry.sequence} of the release log says that it is {entry.digest}"
        advice = "Fetch it by that digest, or have it published again."
        raise FarmError(Code.MANIFEST_MISSING, f"the tag {place} is gone", why, advice, {"digest": entry.digest})
    found = digest.of_bytes(there)
    if found != entry.digest:
        why = f"it means {found}, entry {entry.sequence} of the release log says {entry.digest}"
        advice = f"Use {remote.reference.place}@{entry.digest}, and tell who runs the registry."
        raise FarmError(Code.TAG_MOVED, f"the tag {place} was moved", why, advice, {"found": found})


def verify_reference(
    home: Home,
    place: Reference,
    public: PublicKey,
    *,
    policy: Policy | None = None,
    check_payload: PayloadCheck | None = None,
) -> Report:
    """Verify what a reference means, from its log to the last byte; everything that is wrong is in the report."""
    report = Report(signed=True, keyid=public.keyid)
    found: list[Resolved] = []
    with report.check("release log", place.place) as say:
        found.append(resolve(home, place, public))
        entry, head = found[0].entry, found[0].log.head
        by = f"by entry {entry.sequence} of {head.sequence}, each signed and chained"
        say(f"{entry.tag} is {entry.digest}, for the channel {entry.channel}, {by}")
    if not report.ok:
        return report
    one = found[0]
    scratch = home.create().cache
    with files.coded("a release could not be fetched", scratch), files.temp_folder(scratch) as folder:
        with report.check("registry", str(place)) as say:
            transfer.pull(one.remote, one.entry.digest, public, folder)
            say("every document and blob is there, and what its digest says")
        if report.ok:
            whole = verify_bundle(folder, public, policy=policy, check_payload=check_payload)
            report.digest, report.name, report.version = whole.digest, whole.name, whole.version
            report.payloads = whole.payloads
            report.checks += whole.checks
        if report.ok:
            statements = _statements_in(folder, public)
            standing.check(report, str(place), statements)
    if report.ok:
        with report.check("name", place.place) as say:
            _require_named(one.entry, report)
            require_channel(one.entry.channel, standing.require_released(statements, one.entry.version), str(place))
            say(f"{report.name} {report.version} for {one.entry.channel}, as the log says")
    with report.check("withdrawal", place.place) as say:
        if withdrawn := one.log.withdrawn(one.entry.tag):
            raise publishing.withdrawn_error(withdrawn, place.place)
        say("not withdrawn")
    return report


def _statements_in(folder: Path, public: PublicKey) -> dict[str, Statement]:
    """The statements of a verified bundle."""
    return standing.by_name(open_all(oci_bundle.read(folder).require(), public))


def _require_named(entry: LogEntry, report: Report) -> None:
    if (report.name, report.version, report.digest) != (entry.name, entry.version, entry.digest):
        why = f"the log says {entry.name} {entry.version}"
        advice = "Do not use the release; tell who signed it."
        raise FarmError(Code.LOG_INVALID, f"the bundle is {report.name} {report.version}", why, advice)


def require_channel(said: str, released: Release, place: str, *, by: str = "the release log") -> None:
    """Raise `FarmError` SIGNATURE_FOREIGN unless a release is for the channel that the log, or who tells `by`, said.

    Payloads of one version may have been released for two channels, by farms of one key. Which of the two statements
    lies beside the bundle is not for a registry to choose.
    """
    if released.channel != said:
        what = f"the release statement of {place} is for the channel {released.channel}"
        why = f"{by} says that it was published for {said}"
        advice = "Do not use it. Have who published it publish it again: that puts the statement of the log's back."
        raise FarmError(Code.SIGNATURE_FOREIGN, what, why, advice, {"channel": released.channel})


def lock(home: Home, places: Sequence[Reference], public: PublicKey, *, before: Lockfile | None = None) -> Lockfile:
    """The lock file of these references. Raises as `resolve` and `standing.require_standing`, RELEASE_WITHDRAWN,
    USAGE for two of one name.

    `before` is the lock file that it replaces: no log may lack what that saw of it.
    """
    known = before.bundles if before is not None and before.key == public.keyid else ()
    made: dict[str, Locked] = {}
    for place in places:
        one = resolve(home, place, public, known=known)
        if withdrawn := one.log.withdrawn(one.entry.tag):
            raise publishing.withdrawn_error(withdrawn, place.place)
        _require_standing_there(one.remote, one.entry.digest, one.entry.version, one.entry.channel, public)
        if one.entry.name in made:
            what = f"two references mean the model {one.entry.name!r}"
            raise FarmError(Code.USAGE, what, f"{made[one.entry.name].source} and {place}", "Lock one of them.")
        made[one.entry.name] = _locked(one)
    return Lockfile(public.keyid, tuple(made.values()))


def _locked(one: Resolved) -> Locked:
    entry, head = one.entry, one.log.head
    assert head.identity is not None
    payloads = transfer.payloads_of(one.remote, entry.digest)
    place = one.remote.reference.place
    return Locked(
        name=entry.name,
        source=place,
        version=entry.version,
        channel=entry.channel,
        digest=entry.digest,
        payloads=payloads,
        log=entry.log,
        log_sequence=head.sequence,
        log_identity=head.identity,
    )


def _require_standing_there(remote: Remote, wanted: Digest, version: str, channel: str, public: PublicKey) -> None:
    """Raise as `standing.require_standing` and `require_channel` for a release that is not fetched whole."""
    found = standing.require_standing(transfer.statements_of(remote, wanted, public), version)
    require_channel(channel, found, f"{remote.reference.place}@{wanted}")


def fetch(
    home: Home,
    locked: Lockfile,
    public: PublicKey,
    out: Path,
    *,
    offline: bool = False,
    withdrawn_too: bool = False,
    mirror: str = "",
    check_payload: PayloadCheck | None = None,
    say: Say = silent,
) -> list[Fetched]:
    """Have every bundle of a lock file in `out`/NAME, verified; what is there already is verified and stays.

    `offline`: nothing is asked of the network; a withdrawal that this machine saw counts all the same. `mirror` is a
    HOST, or HOST/PATH, in place of those in the lock file. Raises WRONG_KEY for another key than that of the lock file,
    OFFLINE, RELEASE_WITHDRAWN, OUTPUT_FOREIGN where something else than a bundle lies at `out`/NAME, and the first
    error of a bundle that does not verify.
    """
    if public.keyid != locked.key:
        why = f"it was made with the key {locked.key}, the given one is {public.keyid}"
        raise FarmError(Code.WRONG_KEY, "the lock file belongs to another key", why, "Give the key that made it.")
    with files.coded("the folder of bundles could not be made", out):
        out.mkdir(parents=True, exist_ok=True)
    found = []
    for item in locked.bundles:
        place = reference.parse(f"{item.source}@{item.digest}")
        if mirror:
            place = reference.parse(f"{mirror}/{place.repository}@{item.digest}")
        with files.locked(out / f".{item.name}.farm", timeout_s=_TURN_S):
            found.append(_fetch(home, item, place, public, out, offline, withdrawn_too, check_payload, say))
    return found


def _fetch(
    home: Home,
    item: Locked,
    place: Reference,
    public: PublicKey,
    out: Path,
    offline: bool,
    withdrawn_too: bool,
    check_payload: PayloadCheck | None,
    say: Say,
) -> Fetched:
    final = out / item.name
    publish.recover(final)
    origin = reference.parse_repository(item.source)
    if offline:
        _require_here(final, item, public, check_payload)
        found = _remembered(home, item, origin, public)
    else:
        one = resolve(home, place, public, known=[item], origin=origin if origin.place != place.place else None)
        found = one.log
        _require_its_log(item, found, place.place)
    entry = found.of_digest(item.digest)
    if entry is not None and entry.channel != item.channel:
        raise _unlike(item, f"it says that it is for {item.channel}, the release log says for {entry.channel}")
    if entry is not None and not withdrawn_too and (withdrawn := found.withdrawn(entry.tag)):
        raise publishing.withdrawn_error(withdrawn, place.place)
    if entry is None and not withdrawn_too:
        _require_nowhere_withdrawn(home, item, public)
    present = offline or _is_here(final, item, public, check_payload)
    if present and not offline:  # what is fetched anew is looked at whole
        _require_standing_there(one.remote, item.digest, item.version, item.channel, public)
    if not present:
        require_replaceable(final)
        part = out / f".{item.name}.farm.part-{digest.hex_of(item.digest)[:16]}"
        with files.coded("a bundle could not be written", part):
            part.mkdir(exist_ok=True)
            transfer.pull(Remote(place), item.digest, public, part, say)
            _require_good(part, str(place), item, public, check_payload)
            publish.publish(part, final)
            files.remove_tree(part)
    return Fetched(item.name, item.version, item.channel, item.digest, final, present)


def _remembered(home: Home, item: Locked, origin: Reference, public: PublicKey) -> ReleaseLog:
    """What this machine saw of the log that a lock file names: a withdrawal in it counts without the network.

    Raises LOCKFILE_INVALID where the lock file says of it what it is not: that would hide a withdrawal.
    """
    for found in (memory.seen(home, origin, public, None), memory.seen_of(home, item.log, public)):
        _require_its_log(item, found, "this machine's memory")
    return found


def _require_nowhere_withdrawn(home: Home, item: Locked, public: PublicKey) -> None:
    """Raise RELEASE_WITHDRAWN where a log of the key that this machine saw withdraws the bundle of a lock file.

    For a lock file whose own log, as far as it was seen here, does not have the bundle: nothing here says that it is
    the bundle's log. A machine that saw nothing has nothing to hold against it, and one that saw the bundle only
    published, in a repository for trials perhaps, has nothing against it either.
    """
    for found in memory.every(home, public):
        entry = found.of_digest(item.digest)
        if entry is not None and (withdrawn := found.withdrawn(entry.tag)):
            error = publishing.withdrawn_error(withdrawn, found.repository)
            why = (
                f"{error.why}; the lock file says that its log is {item.log} of {item.source}, "
                "which this machine never saw it in"
            )
            advice = "Or fetch it once with the network, or take the lock file from version control."
            raise FarmError(error.code, error.what, why, f"{error.next_step} {advice}", error.detail)


def _require_its_log(item: Locked, found: ReleaseLog, place: str) -> None:
    """Raise LOCKFILE_INVALID unless a log, where there is one, is what the lock file says of it, as far as it goes."""
    if not found.entries:
        return
    repository = reference.parse_repository(item.source).repository
    if (found.name, found.repository) != (item.log, repository):
        why = (
            f"it says that its log is {item.log} of {repository}, that of {place} is {found.name} of {found.repository}"
        )
        raise _unlike(item, why)
    if len(found.entries) < item.log_sequence:
        return
    if found.entries[item.log_sequence - 1].identity != item.log_identity:
        raise _unlike(item, f"it says that entry {item.log_sequence} of the log is another than in {place}")
    entry = found.of_digest(item.digest)
    if entry is None or entry.sequence > item.log_sequence:
        raise _unlike(item, f"none of the {item.log_sequence} entries that it saw of the log publishes {item.digest}")


def _unlike(item: Locked, why: str) -> FarmError:
    what = f"the lock file is wrong about {item.name} {item.version}"
    return FarmError(Code.LOCKFILE_INVALID, what, why, "Take it from version control, or lock the release again.")


def _require_here(final: Path, item: Locked, public: PublicKey, check_payload: PayloadCheck | None) -> None:
    """Raise unless the bundle is here, whole: OFFLINE where none or another is, else what is wrong with it."""
    if not final.is_dir() or _digest_in(final) not in (None, item.digest):
        what = f"{item.name} {item.version} is not in {final.parent}"
        advice = "Fetch it once with the network, into this folder."
        raise FarmError(Code.OFFLINE, what, f"{item.digest} is what the lock file names", advice)
    try:
        _require_good(final, str(final), item, public, check_payload)
    except FarmError as error:
        if error.status is not Status.BAD:
            raise
        advice = "Fetch it again, without --offline."
        raise FarmError(error.code, error.what, error.why, advice, error.detail) from error


def _is_here(final: Path, item: Locked, public: PublicKey, check_payload: PayloadCheck | None) -> bool:
    """Whether the bundle is here, whole; a damaged one is fetched again. Raises what says nothing about the bundle."""
    if not final.is_dir() or _digest_in(final) != item.digest:
        return False
    try:
        _require_good(final, str(final), item, public, check_payload)
    except FarmError as error:
        if error.status is not Status.BAD:
            raise
        return False
    return True


def _digest_in(folder: Path) -> Digest | None:
    """The digest of the bundle that a folder says to hold; None where it says nothing that can be read."""
    try:
        described = oci_bundle.read(folder).descriptor
    except FarmError:
        return None
    return None if described is None else described.digest


def _require_good(folder: Path, name: str, item: Locked, public: PublicKey, check_payload: PayloadCheck | None) -> None:
    report = verify_bundle(folder, public, check_payload=check_payload)
    if report.ok:
        standing.check(report, name, _statements_in(folder, public))
    require_good(report, name)
    said = (report.name, report.version, report.digest, tuple(sorted(report.payloads.items())))
    if said != (item.name, item.version, item.digest, tuple(sorted(item.payloads))):
        what = f"{name} is not what the lock file names"
        raise FarmError(Code.LOCKFILE_INVALID, what, f"it is {report.name} {report.version}", "Lock it again.")
    released = standing.require_released(_statements_in(folder, public), item.version)
    require_channel(item.channel, released, name, by="the lock file")


def past_of(home: Home, place: Reference, public: PublicKey) -> Past:
    """What a repository published, as a past to compare a release with.

    Fetched are only those that a next release is compared with; of the others it knows the version.
    """
    remote = Remote(place)
    found = transfer.read_log(remote, public)
    memory.require_and_remember(home, place, public, place.repository, found)
    compared = compared_with(found.versions())
    releases: list[Released] = []
    goldens: dict[Digest, bytes] = {}
    scratch = home.create().cache
    for version in sorted(found.versions()):
        entry = found.published(version.tag)
        assert entry is not None
        if version not in compared:
            releases.append(Released(entry.version, entry.digest, entry.channel, Interface(entry.name, ())))
            continue
        with transfer.fetched(remote, entry.digest, public, scratch) as view:
            found_there = standing.require_released(standing.by_name(open_all(view, public)), entry.version)
            require_channel(entry.channel, found_there, f"{place.place}:{entry.tag}")
            releases.append(Released(entry.version, entry.digest, entry.channel, facts.interface_of(view)))
            goldens |= facts.goldens_of(view)
    return Past(tuple(releases), goldens)
