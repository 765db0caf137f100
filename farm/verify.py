"""Verifies a bundle offline, trusting nothing but a public key. The order is the argument:

1. every byte of the folder is named by a document, and every document is canonical (`kernelfarm.oci_bundle`);
2. media.idx, which no document names, is what the index gives;
3. each attestation is signed by the key and says of these very bytes what they are; none is missing (`signing.verify`);
4. only then are headers and linked files parsed: a payload must not contradict itself (`farm.payload_check`);
5. the policy, if there is one.

A step that fails ends the argument: what follows is not checked, and nothing is reported as good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farm import payload_check
from farm.payload import HEADER, device_index
from farm.policy import Policy
from kernelfarm import layout, oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.layout import Limits, fault
from kernelfarm.oci import Descriptor
from kernelfarm.oci_bundle import AttestationView, BundleView, PayloadView
from signing import comparison, dsse, facts, licences, verify
from signing.comparison import COMPARISON
from signing.keys import PublicKey
from signing.licences import LICENCES
from signing.release import RELEASE, Release
from signing.statement import PROVENANCE, Provenance, Statement

PayloadCheck = Callable[[BundleView, PayloadView], Iterator[tuple[str, str]]]
"""Yields (what was checked, what was found) for one payload; raises `FarmError` naming the file."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report: what was checked, of what, and what was found, or the error."""

    name: str
    subject: str
    found: str = ""
    error: FarmError | None = None

    @property
    def ok(self) -> bool:
        """It holds."""
        return self.error is None

    @property
    def unmade(self) -> bool:
        """It could not be made here: this machine lacks something, which says nothing about the bundle."""
        return self.error is not None and self.error.status is Status.ENVIRONMENT

    def to_json(self) -> dict[str, Any]:
        """The line as a JSON object."""
        error = {} if self.error is None else {"error": self.error.to_json()}
        return {"check": self.name, "subject": self.subject, "ok": self.ok, "found": self.found, **error}


@dataclass(slots=True)
class Report:
    """What verification found. `signed` is False when no key was given: then nothing says who made the bundle."""

    signed: bool
    keyid: str = ""
    digest: Digest | None = None
    name: str = ""
    version: str | None = None
    payloads: dict[str, Digest] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    @property
    def errors(self) -> list[FarmError]:
        """Everything that does not hold."""
        return [check.error for check in self.checks if check.error is not None]

    @property
    def ok(self) -> bool:
        """Everything that was asked for was checked and holds."""
        return bool(self.checks) and not self.errors

    @property
    def status(self) -> Status:
        """Exit status: a bad bundle (1) weighs more than a check that could not be made here (3) or a policy (4)."""
        statuses = sorted({error.status for error in self.errors})
        return statuses[0] if statuses else Status.DONE

    @property
    def unmade(self) -> bool:
        """Nothing bad was found, but not everything could be checked on this machine."""
        return self.status is Status.ENVIRONMENT

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, schema "verify-report/1"."""
        verdict = "verified" if self.ok else "incomplete" if self.unmade else "refused"
        return {
            "schema": "verify-report/1",
            "ok": self.ok,
            "signature": verdict if self.signed else "not checked",
            "key": self.keyid,
            "digest": self.digest,
            "name": self.name,
            "version": self.version,
            "targets": {target: {"digest": value} for target, value in sorted(self.payloads.items())},
            "checks": [check.to_json() for check in self.checks],
        }

    @contextmanager
    def check(self, name: str, subject: str) -> Iterator[Callable[[str], None]]:
        """Adds a line for the block: what it tells the given function, or the `FarmError` that ends it.

        An error that says nothing of what to do next is one about a document or file of the bundle.
        """
        found: list[str] = []
        try:
            yield found.append
        except FarmError as error:
            file = subject if error.status is Status.ENVIRONMENT else str(error.detail.get("file", subject))
            self.checks.append(Check(name, file, error=error.advised(oci_bundle.AGAIN)))
        else:
            self.checks.append(Check(name, subject, "; ".join(found)))


def verify_bundle(
    root: Path,
    public: PublicKey | None,
    *,
    policy: Policy | None = None,
    check_payload: PayloadCheck | None = None,
    limits: Limits | None = None,
) -> Report:
    """Verify the bundle in the folder `root`; everything that is wrong with it is in the report.

    Without `public` only integrity is checked. `check_payload` is by default `payload_check.check`. Raises
    `FarmError` when the folder cannot be read at all.
    """
    report = Report(public is not None, public.keyid if public else "")
    view = oci_bundle.read(root, limits)
    _check_layout(report, view)
    if report.ok:
        report.digest, report.name, report.version = view.digest, view.name, view.version
        report.payloads = {payload.target: payload.digest for payload in view.payloads}
        _check_device_index(report, view)
    statements: dict[str, Statement] = {}
    if report.ok:
        with report.check("configs", layout.INDEX) as found:
            facts.facts_of(view)
            found("each payload's config names its model and target")
    if report.ok:
        statements = _check_statements(report, view, public) if public else _read_statements(report, view)
    if report.ok:
        for payload in view.payloads:
            _check_payload(report, view, payload, check_payload or payload_check.check)
    if report.ok and policy is not None:
        with report.check("policy", policy.name) as found:
            found(policy.require(view, _provenances(statements), signed=report.signed))
    return report


def _check_layout(report: Report, view: BundleView) -> None:
    for error in view.faults:
        name = str(error.detail.get("file", "."))
        report.checks.append(Check("layout", name, view.role_of(name), error.advised(oci_bundle.AGAIN)))
    if not view.faults:
        size = sum(view.folder.blobs.values())
        found = f"{len(view.folder.blobs)} blobs of {size} bytes, each named by a document and whole"
        report.checks.append(Check("layout", layout.INDEX, found))


def _check_device_index(report: Report, view: BundleView) -> None:
    with report.check("device index", layout.DEVICE_INDEX) as found:
        headers = [_header(payload) for payload in view.payloads]
        if layout.DEVICE_INDEX not in view.folder.names:
            raise fault(Code.BUNDLE_MISSING, layout.DEVICE_INDEX, "every bundle has this file")
        if view.folder.read(layout.DEVICE_INDEX) != device_index(headers):
            raise fault(Code.DEVICE_INDEX_WRONG, layout.DEVICE_INDEX, "it is not what the payloads' headers give")
        found(f"lists {len(headers)} payloads, as the image index does")


def _header(payload: PayloadView) -> Descriptor:
    if HEADER not in payload.files:
        name = oci.blob_name(payload.digest)
        raise fault(Code.PAYLOAD_INVALID, name, f"the payload of {payload.target} has no {HEADER}")
    return payload.files[HEADER]


def _check_statements(report: Report, view: BundleView, public: PublicKey) -> dict[str, Statement]:
    """The statements by file; the report says whether all are good and none is missing."""
    opened: dict[str, Statement] = {}
    about = facts.facts_of(view)
    for item in sorted(view.attestations, key=lambda item: _label(view, item)):
        name = oci.blob_name(item.envelope.digest)
        with report.check(_label(view, item), name) as found:
            statement = dsse.open_sealed(view.folder.read_blob(item.envelope), public, name)
            verify.require_subject(statement, item.subject, name)
            verify.require_about(statement, about, name)
            opened[name] = statement
            found(f"signed with {public.keyid}, about {item.subject}{_said(statement, name)}")
    if report.ok:
        with report.check("attestations", layout.INDEX) as found:
            verify.require_complete(opened, about)
            found("one signature, and one provenance for each payload")
    return opened


def _read_statements(report: Report, view: BundleView) -> dict[str, Statement]:
    """The statements without their signatures checked: they must be well formed, and that is all."""
    read: dict[str, Statement] = {}
    for item in sorted(view.attestations, key=lambda item: _label(view, item)):
        name = oci.blob_name(item.envelope.digest)
        with report.check(_label(view, item), name) as found:
            keyid, read[name] = dsse.read_unverified(view.folder.read_blob(item.envelope), name)
            found(f"SIGNATURE NOT CHECKED; it names the key {keyid}")
    return read


def _label(view: BundleView, item: AttestationView) -> str:
    targets = {payload.digest: payload.target for payload in view.payloads}
    return f"{_kind(view, item)} of {targets[item.subject]}" if item.subject in targets else _about_index(view, item)


def _about_index(view: BundleView, item: AttestationView) -> str:
    """As `_kind`, for what speaks about the whole bundle."""
    try:
        _keyid, statement = dsse.read_unverified(view.folder.read_blob(item.envelope))
    except FarmError:
        return "signature"
    return "release" if statement.predicate_type == RELEASE else "signature"


def _kind(view: BundleView, item: AttestationView) -> str:
    """What an attestation of a payload claims to be, before anything of it is believed."""
    try:
        _keyid, statement = dsse.read_unverified(view.folder.read_blob(item.envelope))
    except FarmError:
        return "provenance"
    return {COMPARISON: "comparison", LICENCES: "licences"}.get(statement.predicate_type, "provenance")


def _said(statement: Statement, name: str) -> str:
    """What a comparison found or a release says, for the report; nothing for other statements."""
    if statement.predicate_type == RELEASE:
        found = Release.from_statement(statement, name)
        return f": {found.version} for {found.channel}, {found.level}, from {found.source.kind} {found.source.name}"
    if statement.predicate_type == LICENCES:
        return f": {licences.describe(statement)}"
    if statement.predicate_type != COMPARISON:
        return ""
    return f": {comparison.describe(comparison.from_statement(statement, name))}"


def _check_payload(report: Report, view: BundleView, payload: PayloadView, check_payload: PayloadCheck) -> None:
    with report.check("payload", payload.target) as found:
        for what, text in check_payload(view, payload):
            found(f"{what}: {text}")


def _provenances(statements: Mapping[str, Statement]) -> dict[Digest, Provenance]:
    return {
        item.subjects[0].digest: Provenance.from_statement(item, name)
        for name, item in statements.items()
        if item.predicate_type == PROVENANCE
    }
