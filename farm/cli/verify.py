"""`farm verify`: is this bundle whole, and who says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import checks, output
from farm.cli.command import Command
from kernelfarm.errors import Code, FarmError

if TYPE_CHECKING:
    from farm.verify import Report

EPILOG = """\b
Examples:
  farm verify bundles/model --key release.pub
  farm verify bundles/model --key release.pub --policy release
  farm verify registry.example/media/model:1.2.0 --key release.pub
  farm verify bundles/model --key release.pub --policy policy.toml --json

\b
The policy "release" is built in: every payload must come from a sandbox (runner docker or bubblewrap).
A policy of your own is a TOML file; every key but the first is optional:
  schema = "verify-policy/1"
  names = ["cls"]                                   models that are accepted
  targets = ["x86-64-v4"]                           payloads that must be there
  builders = ["urn:kernel-farm:builder:process:1"]  who may have built them
  models = ["sha256:..."]                           model files, by digest
  tools = { ziglang = "0.17.0" }                    versions that must have been used

Exit status: 0 verified, 1 bad (each line names the file), 2 wrong usage or no such key, 3 a check could not be
made on this machine, 4 refused by the policy, withdrawn, or a release that something signed speaks against."""


@click.command("verify", cls=Command, epilog=EPILOG)
@click.argument("bundle", metavar="BUNDLE|REGISTRY/REPOSITORY:VERSION")
@click.option("--key", type=click.Path(path_type=Path), help="The public key that must have signed it.")
@click.option("--policy", type=click.Path(path_type=Path), help="Further demands: release, or a file.")
@click.option("--no-signature", is_flag=True, help="Check integrity only: says nothing about who made the bundle.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write the checks as JUnit XML too.")
@click.option("--sarif", type=click.Path(path_type=Path), help="Write what does not hold as SARIF too.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(
    bundle: str,
    key: Path | None,
    policy: Path | None,
    no_signature: bool,
    junit: Path | None,
    sarif: Path | None,
    as_json: bool,
) -> int:
    """Verify BUNDLE, trusting nothing but the key: a folder offline, or a release in a registry.

    Every byte of the folder must be named by a document, every document and file whole, the signature and each
    payload's provenance made with the key and about these very bytes, and the linked kernels what the bundle says of
    them. A released bundle that a signed licence verdict denies, or a signed rebuild contradicts, is refused. In a
    registry also its signed release log holds, which says what each tag means and what was withdrawn.
    """
    from farm import policy as policies
    from farm.registry import reference
    from farm.release import reports, standing
    from farm.release.release import open_all
    from farm.verify import verify_bundle
    from kernelfarm import oci_bundle, paths
    from signing import keys

    if (key is None) == (not no_signature):
        raise _no_key() if key is None else _key_and_none()
    reference.require_version(bundle)
    public = keys.load_public(key) if key is not None else None
    demands = policies.find(policy) if policy is not None else None
    if reference.looks_like(bundle):
        from farm.registry import consumer

        if public is None:
            what, why = "a release in a registry is verified with a key", "its tags mean what the signed log says"
            raise FarmError(Code.USAGE, what, why, "Give --key NAME.pub.")
        report = consumer.verify_reference(paths.home(), reference.parse(bundle), public, policy=demands)
    else:
        report = verify_bundle(Path(bundle), public, policy=demands)
        if report.ok and public is not None and report.version is not None:
            statements = open_all(oci_bundle.read(Path(bundle)).require(), public)
            standing.check(report, report.version, standing.by_name(statements))
    reports.write(report, "farm verify", junit=junit, sarif=sarif)
    if as_json:
        output.print_json(report.to_json())
    else:
        _print(report)
    return int(report.status)


def _no_key() -> FarmError:
    return FarmError(
        Code.KEY_REQUIRED,
        "no key was given",
        "without one anybody could have made the bundle",
        "Give --key NAME.pub, the public key of whoever built it (`farm keys export` there prints it); "
        "--no-signature checks integrity only.",
    )


def _key_and_none() -> FarmError:
    why = "the one asks for what the other leaves out"
    return FarmError(Code.USAGE, "--key and --no-signature exclude each other", why, "Give one of the two.")


def _print(report: Report) -> None:
    checks.show(report)
    if not report.signed:
        click.echo(output.style("SIGNATURES WERE NOT CHECKED: anybody can have made this bundle.", "yellow"))
    verdict = "VERIFIED" if report.signed else "WHOLE, BUT NOT VERIFIED"
    missed = "NOT CHECKED TO THE END: this machine lacks something" if report.unmade else "NOT VERIFIED"
    what = f"{report.name} {report.version or ''}".strip()
    click.echo("  ".join(filter(None, [verdict if report.ok else missed, what, report.digest])))
