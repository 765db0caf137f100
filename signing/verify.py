"""The rules of trust, without any I/O: what a statement must say to be about this very bundle.

One set of rules, used twice: by the signer before it signs, with digests that it computed itself, and by whoever
verifies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelfarm import nouns, oci
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from signing import comparison, licences
from signing.comparison import COMPARISON
from signing.facts import BundleFacts
from signing.licences import LICENCES
from signing.release import LOG_ENTRY, RELEASE, LogEntry, Release, verdicts_named
from signing.statement import AGAIN, PROVENANCE, SIGNATURE, Provenance, Statement, invalid

_MISSING = "Do not use the bundle: fetch it again from where it was made or published, whole."


def require_about(statement: Statement, facts: BundleFacts, name: str) -> None:
    """Raises `FarmError` unless the statement is one of ours and about exactly this bundle or one of its payloads.

    SIGNATURE_FOREIGN: it names other digests, or says of them what the bytes do not. ATTESTATION_INVALID: malformed, or
    of an unknown kind. `name` is the file that errors name.
    """
    if statement.predicate_type == SIGNATURE:
        _require_signature(statement, facts, name)
    elif statement.predicate_type == PROVENANCE:
        _require_provenance(statement, facts, name)
    elif statement.predicate_type == COMPARISON:
        _require_comparison(statement, facts, name)
    elif statement.predicate_type == LICENCES:
        _require_licences(statement, facts, name)
    elif statement.predicate_type == RELEASE:
        _require_release(statement, facts, name)
    elif statement.predicate_type == LOG_ENTRY:
        _require_log_entry(statement, facts, name)
    else:
        raise invalid(name, f"its kind {statement.predicate_type!r} is unknown")


def _require_signature(statement: Statement, facts: BundleFacts, name: str) -> None:
    if statement.encode() == facts.signature().encode():
        return
    named = ", ".join(subject.digest for subject in statement.subjects) or "nothing"
    if [subject.digest for subject in statement.subjects] != [facts.digest]:
        raise _foreign(name, f"it signs {named}, this bundle is {facts.digest}", named)
    raise _foreign(name, "the name, version or payloads that it signs are not those of the bundle", named)


def _require_provenance(statement: Statement, facts: BundleFacts, name: str) -> None:
    provenance = Provenance.from_statement(statement, name)
    subject = statement.subjects[0].digest
    about = {payload.digest: payload for payload in facts.payloads}.get(subject)
    if about is None:
        raise _foreign(name, f"it is the provenance of {subject}, which is not in this bundle", subject)
    said = (provenance.model.name, provenance.model.digest, provenance.target_name, provenance.recipe.target_digest)
    if said != (about.model_name, about.model_digest, about.target, about.target_digest):
        raise _foreign(name, f"the payload of {about.target} was compiled from or for something else", subject)
    recipe = provenance.recipe
    if (recipe.ir_version, recipe.abi_version, recipe.tools) != (about.ir_version, about.abi_version, about.tools):
        raise _foreign(name, f"the payload of {about.target} says that other tools or versions made it", subject)


def _require_comparison(statement: Statement, facts: BundleFacts, name: str) -> None:
    subject = comparison.from_statement(statement, name).original
    about = {payload.digest: payload for payload in facts.payloads}.get(subject)
    if about is None:
        raise _foreign(name, f"it compares {subject}, which is not in this bundle", subject)
    if statement.subjects[0].name != f"{about.model_name}/{about.target}":
        raise _foreign(name, f"it calls the payload of {about.target} {statement.subjects[0].name!r}", subject)


def _require_release(statement: Statement, facts: BundleFacts, name: str) -> None:
    found = Release.from_statement(statement, name)
    if [subject.digest for subject in statement.subjects] != [facts.digest]:
        raise _foreign(name, f"it releases another bundle than {facts.digest}", statement.subjects[0].digest)
    said = (found.name, found.version, [(item.target, item.payload) for item in found.payloads])
    if said != (facts.name, facts.version, sorted((item.target, item.digest) for item in facts.payloads)):
        raise _foreign(name, "the name, version or payloads that it releases are not those of the bundle", facts.digest)
    for item in found.payloads:
        if len(item.builds) < 2 or len({(build.worker, build.host) for build in item.builds}) != len(item.builds):
            raise invalid(name, f"it does not name two builds of {item.target} by different workers or on other hosts")


def _require_log_entry(statement: Statement, facts: BundleFacts, name: str) -> None:
    found = LogEntry.from_statement(statement, name)
    if (found.digest, found.name, found.version) != (facts.digest, facts.name, facts.version):
        raise _foreign(name, "the bundle that it logs is not this one", found.digest)


def _require_licences(statement: Statement, facts: BundleFacts, name: str) -> None:
    licences.require_form(statement, name)
    (subject,) = statement.subjects
    about = {payload.digest: payload for payload in facts.payloads}.get(subject.digest)
    if about is None:
        raise _foreign(name, f"it judges {subject.digest}, which is not in this bundle", subject.digest)
    if subject.name != f"{about.model_name}/{about.target}":
        raise _foreign(name, f"it calls the payload of {about.target} {subject.name!r}", subject.digest)


def require_complete(statements: Mapping[str, Statement], facts: BundleFacts) -> None:
    """Raises `FarmError` unless there is one signature and one provenance for each payload. Keys are file names.

    There may be any number of comparisons, each of the recipe that the payload's provenance gives, and one release
    statement. What that rests on must all be there, builds and licence verdicts: a registry that hides one does not get
    away with it. Of verdicts that no release rests on a payload has at most one: the last.
    """
    named = verdicts_named(statements.values())
    signatures = sorted(name for name, item in statements.items() if item.predicate_type == SIGNATURE)
    _require_one(signatures, "index.json", "signature of the bundle")
    for payload in facts.payloads:
        found = sorted(name for name, item in statements.items() if _is_about(item, PROVENANCE, payload.digest))
        _require_one(found, oci.blob_name(payload.digest), f"provenance of the payload of {payload.target}")
        judged = sorted(
            name
            for name, item in statements.items()
            if _is_about(item, LICENCES, payload.digest) and item.identity not in named
        )
        if judged:
            _require_one(judged, oci.blob_name(payload.digest), f"licence verdict of the payload of {payload.target}")
    _require_same_recipe(statements)
    require_evidence(statements)


def _require_same_recipe(statements: Mapping[str, Statement]) -> None:
    recipes = {
        item.subjects[0].digest: nouns.recipe_key(Provenance.from_statement(item, name).recipe)
        for name, item in statements.items()
        if item.predicate_type == PROVENANCE
    }
    for name, item in sorted(statements.items()):
        if item.predicate_type == COMPARISON:
            found = comparison.from_statement(item, name)
            if recipes.get(found.original) != found.recipe_key:
                raise _foreign(name, f"it is a rebuild by another recipe, {found.recipe_key}", found.original)


def require_evidence(statements: Mapping[str, Statement]) -> None:
    """Raises `FarmError` SIGNATURE_MISSING where something is not there that the release among these rests on."""
    present = {item.identity: item for item in statements.values()}
    releases = sorted(name for name, item in statements.items() if item.predicate_type == RELEASE)
    if logged := sorted(name for name, item in statements.items() if item.predicate_type == LOG_ENTRY):
        raise invalid(logged[0], "it is an entry of a registry's log, which is no part of a bundle")
    if releases:
        _require_one(releases, "index.json", "release statement")
    for name in releases:
        for item in Release.from_statement(statements[name], name).payloads:
            rests_on = {
                **{build.statement: f"statement of {build.worker} about" for build in item.builds},
                item.verdict: "licence verdict of",
            }
            for wanted, kind in rests_on.items():
                said = present.get(wanted)
                judges = said is not None and said.predicate_type == LICENCES
                about = said is not None and [subject.digest for subject in said.subjects] == [item.payload]
                if not about or judges != (wanted == item.verdict):
                    what = f"the {kind} the payload of {item.target} is missing"
                    why = f"the release rests on it ({wanted})"
                    raise FarmError(Code.SIGNATURE_MISSING, what, why, _MISSING, {"file": name})


def require_subject(statement: Statement, subject: Digest, name: str) -> None:
    """Raises `FarmError` SIGNATURE_FOREIGN unless the statement speaks about the `subject` that its manifest gives."""
    if [item.digest for item in statement.subjects] != [subject]:
        raise _foreign(name, f"its manifest files it under {subject}, it speaks about something else", subject)


def _is_about(statement: Statement, kind: str, payload: Digest) -> bool:
    return statement.predicate_type == kind and [item.digest for item in statement.subjects] == [payload]


def _require_one(found: Sequence[str], file: str, what: str) -> None:
    if not found:
        raise FarmError(Code.SIGNATURE_MISSING, f"there is no {what}", "", _MISSING, {"file": file})
    if len(found) > 1:
        why = ", ".join(found)
        raise FarmError(Code.ATTESTATION_INVALID, f"there is more than one {what}", why, AGAIN, {"file": found[1]})


def _foreign(name: str, why: str, named: str) -> FarmError:
    what = f"{name} is about something else"
    return FarmError(Code.SIGNATURE_FOREIGN, what, why, AGAIN, {"file": name, "digest": named})
