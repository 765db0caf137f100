"""`farm release`: gives a built bundle its version, when everything holds that a release promises.

The gates are independent and all are tried, so that one run says everything that is missing:

1. the sources of this farm are a commit's, and the payloads were compiled with them (`sources`);
2. the bundle verifies under this farm's key;
3. the channel's targets are there, from a sandbox where it demands that (`channels`), and every payload's licences were
   judged, by a policy that counts, and none is denied (`standing`);
4. enough builds of each payload agree, and none disagrees (`quorum`);
5. the version says what the release changes (`compatibility`, `versions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from farm import bundle, policy, publish
from farm.config import Config
from farm.licences import gate
from farm.release import facts, quorum, record, sources, stamp, standing, versions
from farm.release.channels import Channel
from farm.release.compatibility import Interface, Verdict
from farm.release.record import Released
from farm.release.versions import Level, Version
from farm.verify import PayloadCheck, Report, verify_bundle
from kernelfarm import digest, files, layout, oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RecipeInputs
from kernelfarm.oci_bundle import BundleView
from signing import client, dsse, keys, licences
from signing.client import Signer
from signing.keys import PublicKey
from signing.release import Agreed, Before, Build, Demand, Release, Source, released_of
from signing.statement import PROVENANCE, Provenance, Statement


@dataclass(frozen=True, slots=True)
class Past:
    """What was released under a name so far, by precedence, and the golden vectors of the last two final releases.

    `published` are those that somebody can have, where --against says which: the next one is compared with the last of
    these, whatever this farm released beside them.
    """

    releases: tuple[Released, ...] = ()
    goldens: Mapping[Digest, bytes] = field(default_factory=dict)
    published: tuple[Released, ...] = ()

    @property
    def versions(self) -> list[Version]:
        """All versions."""
        return [released.parsed for released in self.releases]

    def before(self, version: Version | None = None) -> Released | None:
        """What the next release is compared with, or that of a version: the last final one before it."""
        known = [item for item in self.published or self.releases if version is None or item.parsed < version]
        last = versions.last_final(item.parsed for item in known)
        return next((item for item in known if item.parsed == last), None)


@dataclass(frozen=True, slots=True)
class Order:
    """What `farm release` was asked for. `bump` None: what the comparison gives; `version`: this very one.

    `pre` is the word of a pre-release ("rc"), empty for a final version.
    """

    bundle: Path
    out: Path
    channel: Channel
    bump: Level | None = None
    version: Version | None = None
    pre: str = ""
    key: str = keys.DEFAULT


@dataclass(slots=True)
class Outcome:
    """What came of it: each gate as a check, and the release where all of them hold.

    `unchanged`: the last release has these very payloads, and stays the last.
    """

    name: str = ""
    channel: str = ""
    report: Report = field(default_factory=lambda: Report(signed=True))
    version: str = ""
    digest: Digest | None = None
    before: Before | None = None
    verdict: Verdict | None = None
    unchanged: bool = False
    path: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON, schema "release-report/1"."""
        return {
            "schema": "release-report/1",
            "ok": self.report.ok,
            "name": self.name,
            "channel": self.channel,
            "version": self.version or None,
            "digest": self.digest,
            "before": None if self.before is None else {"version": self.before.version, "digest": self.before.digest},
            "level": None if self.verdict is None else self.verdict.level.word,
            "reasons": [] if self.verdict is None else list(self.verdict.reasons),
            "unchanged": self.unchanged,
            "targets": {target: {"digest": value} for target, value in sorted(self.report.payloads.items())},
            "checks": [check.to_json() for check in self.report.checks],
        }


def past_of(settings: Config, name: str) -> Past:
    """What this farm has on record of a name."""
    found = record.known(settings.home, name)
    compared = versions.compared_with(item.parsed for item in found)
    goldens: dict[Digest, bytes] = {}
    for item in found:
        if item.parsed in compared and not item.parsed.prerelease:
            goldens |= record.goldens(settings.home, item)
    return Past(found, goldens)


def joined(own: Past, published: Past) -> Past:
    """Both pasts as one; a version that both have is the published one, as that is what people can have."""
    by_version = {released.parsed: released for released in (*own.releases, *published.releases)}
    releases = tuple(sorted(by_version.values(), key=lambda item: item.parsed))
    return Past(releases, {**own.goldens, **published.goldens}, published.releases)


def past_of_bundle(root: Path, public: PublicKey, check_payload: PayloadCheck | None = None) -> Past:
    """A released bundle in a folder as a past. Raises `FarmError` for one that does not verify, NOT_RELEASED."""
    require_good(verify_bundle(root, public, check_payload=check_payload), str(root))
    view = oci_bundle.read(root).require()
    if view.version is None:
        advice = "Give the bundle of the last release as --against."
        raise FarmError(Code.NOT_RELEASED, f"{root} is no release", "it has no version", advice)
    released = Released(view.version, view.digest, "", facts.interface_of(view))
    return Past((released,), facts.goldens_of(view))


def require_good(report: Report, name: str) -> None:
    """Raise the first error of a report, if there is one; `name` says which bundle it is about."""
    if report.errors:
        raise oci_bundle.of_bundle(report.errors[0], name)


def release(
    settings: Config,
    order: Order,
    against: Past = Past(),
    *,
    check_payload: PayloadCheck | None = None,
    source: Source | None = None,
) -> Outcome:
    """Release the bundle of the order into its folder `out`, or say what keeps it from being one.

    Whatever a gate refuses is in the outcome's report; nothing is written then. `against` is what was published, where
    that is not what is on record here, `source` by default that of this farm. From looking at the past to recording
    the release no other release is made, and the record comes first: a version that was given is never given to
    something else. Raises `FarmError` for what makes the whole order impossible: no bundle, no key, an output that
    cannot be written.
    """
    home = settings.home.create()
    public = keys.load_public(keys.find(home, order.key).public)
    made = Outcome(channel=order.channel.name, report=verify_bundle(order.bundle, public, check_payload=check_payload))
    if not made.report.ok:
        return made
    view = oci_bundle.read(order.bundle).require()
    made.name = view.name
    statements = open_all(view, public)
    recipes = [Provenance.from_statement(item, "").recipe for item in statements if item.predicate_type == PROVENANCE]
    found = _source(made, recipes, source)
    _gate_channel(made, order, view, statements)
    demand = Demand(order.channel.licences, gate.counting(order.channel.policies))
    _gate_licences(made, order, view, statements, demand)
    builds = _gate_builds(made, order, statements)
    ours = facts.interface_of(view)
    with files.locked(home.run / "release"):
        _gate_version(made, order, joined(past_of(settings, view.name), against), ours, view)
        if made.report.ok:
            assert found is not None and made.digest is not None
            wanted = _statement(made, found, demand, _agreed(view, statements, builds))
            released = Released(made.version, made.digest, order.channel.name, ours)
            record.keep(home, released, facts.goldens_of(view))
            with client.open_signer(home, order.key) as signer:
                _write(made, order, view, wanted, signer)
    return made


def open_all(view: BundleView, public: PublicKey) -> list[Statement]:
    """Every statement of a bundle, each signature checked."""
    return [
        dsse.open_sealed(view.folder.read_blob(item.envelope), public, oci.blob_name(item.envelope.digest))
        for item in view.attestations
    ]


def _source(made: Outcome, recipes: list[RecipeInputs], source: Source | None) -> Source | None:
    found: list[Source] = []
    with made.report.check("sources", "this farm") as say:
        found.append(source or sources.current())
        if source is None:
            for recipe in recipes:
                sources.require_same(recipe)
        say(f"{found[0].kind} {found[0].name}, unchanged, and what compiled the payloads")
    return found[0] if found else None


def _gate_channel(made: Outcome, order: Order, view: BundleView, statements: list[Statement]) -> None:
    with made.report.check("targets", order.channel.name) as say:
        say(order.channel.require_targets([payload.target for payload in view.payloads]))
    if order.channel.sealed:
        with made.report.check("sandbox", order.channel.name) as say:
            provenances = {
                item.subjects[0].digest: Provenance.from_statement(item, "")
                for item in statements
                if item.predicate_type == PROVENANCE
            }
            say(policy.RELEASE.require(view, provenances, signed=True))


def _gate_licences(made: Outcome, order: Order, view: BundleView, statements: list[Statement], demand: Demand) -> None:
    with made.report.check("licences", order.channel.name) as say:
        say(standing.judge(view, statements, gate.today(), demand))


def _gate_builds(made: Outcome, order: Order, statements: list[Statement]) -> dict[str, tuple[Build, ...]]:
    found = {}
    for target, payload in sorted(made.report.payloads.items()):
        with made.report.check("builds", target) as say:
            found[target] = quorum.agreed(target, payload, statements, order.channel)
            say(f"the same bytes from {', '.join(build.worker for build in found[target])}")
    return found


def _agreed(
    view: BundleView, statements: list[Statement], builds: Mapping[str, tuple[Build, ...]]
) -> tuple[Agreed, ...]:
    """What the gates found of each payload: the builds that agree, and the verdict that counts."""
    named = standing.by_name(statements)
    verdicts = {payload: named[name].identity for payload, name in licences.counting(named).items()}
    payloads = {item.target: item.digest for item in view.payloads}
    return tuple(
        Agreed(target, payloads[target], found, verdicts[payloads[target]]) for target, found in builds.items()
    )


def _gate_version(made: Outcome, order: Order, past: Past, ours: Interface, view: BundleView) -> None:
    with made.report.check("version", made.name) as say:
        same = _already(past, ours, order)
        base = past.before(None if same is None else same.parsed)
        verdict = _compared(past, base, ours, view)
        if same is not None and base is not None and same.parsed.core < base.parsed.raised(verdict.level):
            same, base = None, past.before()  # it was compared with less than what --against shows
            verdict = _compared(past, base, ours, view)
        made.before = None if base is None else Before(base.version, base.digest)
        made.verdict = verdict
        version = same.parsed if same is not None else _next(past, base, order, verdict)
        order.channel.require_version(version)
        made.version, made.unchanged = version.text, same is not None
        made.digest = digest.of_bytes(stamp.index_of(view, version.text))
        say(_said(made, verdict))


def _compared(past: Past, base: Released | None, ours: Interface, view: BundleView) -> Verdict:
    if base is None:
        return Verdict(())
    return facts.compared(base.interface, past.goldens, ours, view)


def _already(past: Past, ours: Interface, order: Order) -> Released | None:
    """The release of these very payloads that answers the order: the same again is no new release.

    Raises `FarmError` CHANNEL_REFUSED where it went to another channel, which its signed statement names.
    """
    last = [
        released
        for released in past.releases
        if (released.parsed == order.version if order.version else _kind(released.parsed) == order.pre)
    ]
    final = versions.last_final(past.versions)
    newer_final = final is not None and last and last[-1].parsed < final
    if not last or newer_final or last[-1].interface.payloads() != ours.payloads():
        return None
    found, name = last[-1], order.channel.name
    before = past.before(found.parsed)
    if order.bump is not None and before is not None and found.parsed.core < before.parsed.raised(order.bump):
        return None
    if found.channel != name:
        what = f"{ours.name} {found.version} was released for the channel {found.channel}"
        why = f"it has these very payloads, and its signed statement does not say {name}"
        advice = f"Give them a version of their own for {name}: --version {found.parsed.core.raised(Level.PATCH)}."
        raise FarmError(Code.CHANNEL_REFUSED, what, why, advice, {"channel": found.channel})
    return found


def _kind(version: Version) -> str:
    """ "rc" of 1.0.0-rc.1, "rc1" of 1.0.0-rc1; empty for a final version alone."""
    head, dot, number = version.prerelease.rpartition(".")
    return head if dot and number.isdigit() else version.prerelease


def _next(past: Past, base: Released | None, order: Order, verdict: Verdict) -> Version:
    after = None if base is None else base.parsed
    version = order.version
    if version is None:
        level = verdict.level if order.bump is None else order.bump
        version = versions.following(past.versions, after, level, order.pre)
    versions.require_level(version, after, verdict.level, verdict.reasons)
    versions.require_next(version, past.versions)
    return version


def _said(made: Outcome, verdict: Verdict) -> str:
    if made.unchanged:
        return f"{made.version}, which has these very payloads already"
    if made.before is None:
        return f"{made.version}, the first final release" if not _kind(Version(made.version)) else made.version
    return f"{made.version} after {made.before.version}: {'; '.join(verdict.reasons) or 'no payload differs'}"


def _statement(made: Outcome, source: Source, demand: Demand, agreed: tuple[Agreed, ...]) -> Release:
    assert made.verdict is not None
    return Release(
        name=made.name,
        version=made.version,
        channel=made.channel,
        level=made.verdict.level.word,
        reasons=made.verdict.reasons,
        before=made.before,
        source=source,
        licences=demand,
        payloads=agreed,
    )


def _write(made: Outcome, order: Order, view: BundleView, wanted: Release, signer: Signer) -> None:
    out = order.out / made.name
    made.path = out
    with files.coded("the folder of releases could not be made", order.out):
        order.out.mkdir(parents=True, exist_ok=True)
    files.sweep(order.out)
    publish.recover(out)
    bundle.require_replaceable(out)
    if not _holds(out, made, wanted, signer.public):
        stamp.write(view, out, wanted, signer)


def _holds(out: Path, made: Outcome, wanted: Release, public: PublicKey) -> bool:
    """Whether the folder holds this very release already, whole and signed, for the same reasons.

    What the farm's sources were is no reason: who released it first stays on record.
    """
    if not (out / layout.LAYOUT).exists():
        return False
    try:
        found = oci_bundle.read(out).require()
        statements = open_all(found, public)
    except FarmError:  # damaged, or another's: it is written anew
        return False
    before = released_of(statements)
    return found.digest == made.digest and before is not None and replace(before, source=wanted.source) == wanted


__all__ = ["Order", "Outcome", "Past", "joined", "past_of", "past_of_bundle", "release"]
