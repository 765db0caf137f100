"""Releases for tests: small bundles (`tests.support.bundles`) with rebuilds by a second worker, and their farm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from farm import attest, config
from farm.config import Config
from farm.release import release
from farm.release.channels import Channel
from farm.release.release import Order, Outcome, Past
from farm.release.versions import Level, parse
from kernelfarm import canonical, digest, nouns, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.nouns import Comparison
from kernelfarm.paths import Home
from sbom.licence import policy as policies
from sbom.licence.nouns import Applied, Decision, Finding, Role, Verdict
from signing import client, comparison, keys, licences
from signing.keys import PublicKey
from signing.release import Source
from signing.statement import Statement
from tests.support import bundles
from tests.support.bundles import LocalSigner

PREVIEW = Channel("preview")
NO_PAST = Past()
FINDING = Finding(
    digest.of_bytes(b"finding"),
    "runtime",
    Role.LINKED,
    "macro.c",
    None,
    "GPL-2.0-only",
    'linked.deny "GPL-*"',
    Decision.DENY,
    "it is copyleft",
    "Leave it out.",
)
SOURCE = Source("git", "0" * 40)


@dataclass(frozen=True, slots=True)
class Farm:
    """A farm with a key, in a folder of a test's."""

    root: Path

    @property
    def home(self) -> Home:
        """Its state."""
        return Home(self.root / "home")

    @property
    def settings(self) -> Config:
        """Its settings."""
        return config.load({"FARM_HOME": str(self.home.root)})

    @property
    def public(self) -> PublicKey:
        """Its public key."""
        return keys.load_public(self.public_file)

    @property
    def public_file(self) -> Path:
        """The file of its public key."""
        return self.home.keys / "default.pub"

    def build(
        self,
        name: str = "built",
        *,
        targets: Sequence[str] = bundles.TARGETS,
        salt: str = "",
        model: nouns.Model = bundles.MODEL,
        decision: Decision | None = Decision.ALLOW,
        policy: Digest | None = None,
    ) -> Path:
        """A bundle as `farm build` leaves it, the licences judged like this under the farm's policy; None: by nobody.

        `policy` is that of somebody else.
        """
        with client.open_signer(self.home) as signer:
            made = bundles.write(
                self.root / name / model.name,
                self.root / "work",
                signed_by=signer,
                targets=targets,
                version=None,
                salt=salt,
                model=model,
            )
            if decision is not None:
                attest.attach(made.path, verdicts(made.path, decision, policy), signer)
        return made.path

    def rebuild(
        self,
        bundle: Path,
        *,
        worker: str = "second",
        host: str = "second-host",
        targets: Sequence[str] = (),
        same: bool = True,
    ) -> None:
        """What `farm rebuild` adds, by another worker."""
        view = oci_bundle.read(bundle).require()
        made = []
        for payload in view.payloads:
            if targets and payload.target not in targets:
                continue
            origin = bundles.provenance(payload.target, model=bundles.MODEL)
            rebuilt = payload.digest if same else digest.of_bytes(b"other bytes")
            unlike = () if same else (nouns.Difference("kernels.so", payload.digest, rebuilt, 0),)
            found = Comparison(
                nouns.recipe_key(origin.recipe),
                payload.digest,
                rebuilt,
                origin.execution,
                ("dir",),
                unlike,
                worker=worker,
                host=host,
            )
            made.append(comparison.statement(found, f"{view.name}/{payload.target}"))
        with client.open_signer(self.home) as signer:
            attest.attach(bundle, made, signer)

    def judge(self, bundle: Path, made: Sequence[Statement]) -> None:
        """Sign verdicts into a bundle, as `farm licences --again` does."""
        with client.open_signer(self.home) as signer:
            attest.attach(bundle, made, signer)

    def release(
        self,
        bundle: Path,
        *,
        against: Past = NO_PAST,
        version: str | None = None,
        bump: str | None = None,
        pre: str = "",
        channel: Channel = PREVIEW,
        out: str = "releases",
    ) -> Outcome:
        """What `farm release` makes of it."""
        order = Order(
            bundle,
            self.root / out,
            channel,
            None if bump is None else Level[bump.upper()],
            None if version is None else parse(version),
            pre,
        )
        return release.release(self.settings, order, against, check_payload=bundles.no_check, source=SOURCE)

    def released(
        self,
        version: str | None = None,
        *,
        salt: str = "",
        out: str = "releases",
        targets: Sequence[str] = bundles.TARGETS,
    ) -> Path:
        """A release in a folder."""
        built = self.build(f"built-{salt}", salt=salt, targets=targets)
        self.rebuild(built)
        made = self.release(built, version=version, out=out)
        assert made.report.ok, [str(error) for error in made.report.errors]
        assert made.path is not None
        return made.path


def verdicts(bundle: Path, decision: Decision, policy: Digest | None = None) -> list[Statement]:
    """What the licence gate says of each payload of a bundle."""
    view = oci_bundle.read(bundle).require()
    found = () if decision is Decision.ALLOW else (replace(FINDING, decision=decision),)
    said = Verdict(policy or policies.own().digest, None, decision, decision, "", (), found)
    return [
        licences.statement(canonical.to_json(said), f"{view.name}/{payload.target}", payload.digest)
        for payload in view.payloads
    ]


def waived(bundle: Path, until: str) -> list[Statement]:
    """What the licence gate says of each payload of a bundle in which a waiver covers a denial until a day."""
    view = oci_bundle.read(bundle).require()
    name = digest.of_bytes(f"a waiver until {until}".encode())
    covered = replace(FINDING, waiver=name)
    said = FINDING.material, FINDING.file, FINDING.expression, FINDING.rule
    waiver = Applied(name, "counsel", until, "a macro's name", FINDING.key, "w.json", *said)
    found = Verdict(policies.own().digest, None, Decision.ALLOW, Decision.DENY, until, (), (covered,), (waiver,))
    return [
        licences.statement(canonical.to_json(found), f"{view.name}/{payload.target}", payload.digest)
        for payload in view.payloads
    ]


@contextmanager
def _local(home: Home, name: str = keys.DEFAULT) -> Iterator[LocalSigner]:
    yield LocalSigner(keys.load_private(keys.find(home, name).private))


def sign_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign in the test's own process: a signer process of its own takes a second each time."""
    monkeypatch.setattr(client, "open_signer", _local)


def farm(root: Path) -> Farm:
    """A new farm."""
    made = Farm(root)
    keys.new(made.home)
    return made
