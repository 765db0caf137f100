"""`farm verify`: is this bundle whole, and who says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import output
from farm.cli.command import Command
from kernelfarm.errors import Code, FarmError

if TYPE_CHECKING:
    from farm.verify import Check, Report

EPILOG = """\b
Examples:
  farm verify bundles/model --key release.pub
  farm verify bundles/model --key release.pub --policy release
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
made on this machine, 4 refused by the policy."""


@click.command("verify", cls=Command, epilog=EPILOG)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), help="The public key that must have signed it.")
@click.option("--policy", type=click.Path(path_type=Path), help="Further demands: release, or a file.")
@click.option("--no-signature", is_flag=True, help="Check integrity only: says nothing about who made the bundle.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(bundle: Path, key: Path | None, policy: Path | None, no_signature: bool, as_json: bool) -> int:
    """Verify BUNDLE offline, trusting nothing but the key.

    Every byte of the folder must be named by a document, every document and file whole, the signature and each
    payload's provenance made with the key and about these very bytes, and the linked kernels what the bundle says of
    them.
    """
    from farm import policy as policies
    from farm.verify import verify_bundle
    from signing import keys

    if (key is None) == (not no_signature):
        raise _no_key() if key is None else _key_and_none()
    public = keys.load_public(key) if key is not None else None
    demands = policies.find(policy) if policy is not None else None
    report = verify_bundle(bundle, public, policy=demands)
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
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        click.echo(f"{_mark(check)}  {check.name:{width}}  {_told(check)}")
    for check in report.checks:
        if check.error is not None:
            _complain(check, check.error)
    if not report.signed:
        click.echo(output.style("SIGNATURES WERE NOT CHECKED: anybody can have made this bundle.", "yellow"))
    verdict = "VERIFIED" if report.signed else "WHOLE, BUT NOT VERIFIED"
    missed = "NOT CHECKED TO THE END: this machine lacks something" if report.unmade else "NOT VERIFIED"
    what = f"{report.name} {report.version or ''}".strip()
    click.echo("  ".join(filter(None, [verdict if report.ok else missed, what, report.digest])))


def _mark(check: Check) -> str:
    if check.unmade:
        return output.style("-- ", "yellow")
    return output.style("ok ", "green") if check.ok else output.style("BAD", "red")


def _complain(check: Check, error: FarmError) -> None:
    """One line to standard error: what is bad, or what could not be checked here and what would help."""
    if check.unmade:
        click.echo(f"not checked: {check.name} of {check.subject}: {error}", err=True)
    else:
        click.echo(f"bad: {error.detail.get('file', '')}  {error.code.number} {error.code.title}", err=True)


def _told(check: Check) -> str:
    """What stands behind a check's name: a good one is told briefly, a bad one with the whole name of its file."""
    if check.error is None:
        return f"{_short(check.subject)}  {check.found}"
    if check.unmade:
        return f"{_short(check.subject)}  could not be checked on this machine: {check.error.what}"
    role = f" ({check.found})" if check.found else ""
    return f"{check.subject}{role}  {check.error.code.title}: {check.error.why or check.error.what}"


def _short(subject: str) -> str:
    head, slash, tail = subject.rpartition("/")
    return f"{head}{slash}{tail[:12]}" if len(tail) == 64 else subject
