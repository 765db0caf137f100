"""Small bundles for tests: payloads whose files are a few bytes, keys and a signer inside the test's process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from farm import verify
from farm.bundle import PayloadInput, WrittenBundle, write_bundle
from kernelfarm import device, digest, nouns, oci_bundle
from kernelfarm.links import Links
from kernelfarm.oci_bundle import BundleView, PayloadView
from sbom import document, notice
from sbom.image import Lock, Package
from sbom.making import Making
from signing import dsse, facts, keys, release
from signing import verify as rules
from signing.client import Signer
from signing.keys import PublicKey
from signing.statement import Provenance, Statement
from tests.support.payloads import LINKS, MODEL, TOOLS, compiled
from toolchains import target

TARGETS = ("x86-64-v3", "x86-64-v4")
WORKER = {"name": "first-host", "worker": "first-host-1"}
"""Who compiled such a payload."""
LOCK = Lock(
    digest.of_bytes(b"a lock"),
    (
        Package("deb", "libc6", "2.36-9", "libc6_2.36-9_amd64.deb", digest.of_bytes(b"libc6")),
        Package("deb", "busybox-static", "1:1.35", "busybox-static_1%3a1.35_amd64.deb", digest.of_bytes(b"busybox")),
        Package("wheel", "numpy", "2.3.5", "numpy-2.3.5-cp311.whl", digest.of_bytes(b"numpy")),
        Package("wheel", "ziglang", "0.17.0", "ziglang-0.17.0-py3.whl", digest.of_bytes(b"zig wheel")),
    ),
)
"""The lock of the image of such a payload: it brings the one tool of its recipe, and more."""


@dataclass(frozen=True, slots=True)
class LocalSigner:
    """A signer with the key in this process, and the rules of the real one: for tests only."""

    private: ec.EllipticCurvePrivateKey

    @property
    def public(self) -> PublicKey:
        """See `signing.client.Signer`."""
        return keys.public_of(self.private)

    def sign(self, layout: Path, statements: Sequence[Statement]) -> list[bytes]:
        """See `signing.client.Signer`."""
        found = facts.facts_of(oci_bundle.read(layout))
        for statement in statements:
            rules.require_about(statement, found, "a statement")
        return [dsse.seal(statement, self.private) for statement in statements]

    def withdraw(self, statement: Statement) -> bytes:
        """See `signing.client.SocketSigner`."""
        release.require_withdrawal(statement, "the withdrawal")
        return dsse.seal(statement, self.private)


def signer(number: int = 1) -> LocalSigner:
    """A signer whose key follows from `number`: the same in every run."""
    return LocalSigner(ec.derive_private_key(number, ec.SECP256R1()))


def payload(folder: Path, name: str, *, model: nouns.Model = MODEL, salt: str = "", links: Links = LINKS) -> Path:
    """Write a payload whose binaries are text; its header and config fit them. Different `salt`, different kernels."""
    return described(compiled(folder, name, model=model, salt=salt, links=links), name, model=model)


def described(folder: Path, name: str, *, model: nouns.Model = MODEL, made: nouns.RecipeInputs | None = None) -> Path:
    """The payload in a folder with notices and a bill of materials that fit what is in it now.

    `made` is the recipe it was made by, if it is not the one of today's target file.
    """
    (folder / "NOTICE").write_bytes(notice.describe(folder))
    (folder / "sbom.cdx.json").write_bytes(document.describe(folder, making(name, model=model, made=made)))
    return folder


def making(name: str, *, model: nouns.Model = MODEL, made: nouns.RecipeInputs | None = None) -> Making:
    """What the bill of such a payload is made from, beside its files."""
    return Making(model, name, made or recipe(name, model=model), LOCK)


def provenance(name: str, *, model: nouns.Model = MODEL, started_on: str = "2026-11-29T17:00:00Z") -> Provenance:
    """How such a payload says that it was made."""
    execution = nouns.Execution(None, "x86_64", "process")
    made = recipe(name, model=model)
    return Provenance(model, name, made, execution, started_on=started_on, host={"cores": "2", **WORKER})


def recipe(name: str, *, model: nouns.Model = MODEL) -> nouns.RecipeInputs:
    """The recipe of such a payload."""
    return nouns.RecipeInputs(
        model_digest=model.identity,
        target_digest=target.load(name).digest,
        options=nouns.Options.of({"x": (1, 3, 48, 192)}),
        compiler_source=digest.of_bytes(b"compiler"),
        runtime_source=digest.of_bytes(b"runtime"),
        tools=TOOLS,
        ir_version=device.IR_VERSION,
        abi_version=device.ABI_VERSION,
    )


def write(
    out: Path,
    work: Path,
    *,
    signed_by: Signer | None = None,
    targets: Sequence[str] = TARGETS,
    version: str | None = "1.2.0",
    model: nouns.Model = MODEL,
    salt: str = "",
) -> WrittenBundle:
    """Write a bundle of such payloads to `out`; `work` is a folder for them that need not exist."""
    shutil.rmtree(work, ignore_errors=True)
    payloads = [
        PayloadInput(name, payload(work / name, name, model=model, salt=salt), provenance(name, model=model))
        for name in targets
    ]
    return write_bundle(out, name=model.name, version=version, payloads=payloads, signer=signed_by or signer())


def verified(bundle: Path, public: PublicKey | None = None) -> verify.Report:
    """The report on such a bundle, under the first signer's key by default; its binaries are text and are not read."""
    return verify.verify_bundle(bundle, public or signer().public, check_payload=no_check)


def no_check(view: BundleView, payload: PayloadView) -> Iterator[tuple[str, str]]:
    """A payload check that checks nothing."""
    del view, payload
    yield "binaries", "not read"


def plain_files(bundle: Path) -> list[Path]:
    """Every file of a bundle, sorted."""
    return sorted(path for path in bundle.rglob("*") if path.is_file())
