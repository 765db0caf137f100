"""The licence gate over payloads and bundles: what is planted is found, and named with rule and remedy."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from containers.image.pins import Pin
from farm import attest
from farm.bundle import PayloadInput, write_bundle
from farm.cli.main import main
from farm.licences import gate, judging, materials, waivers
from farm.licences.gate import Terms
from farm.licences.materials import Contents
from farm.licences.order import LicenceOrder
from farm.licences.waivers import Signed
from farm.payload import read_folder
from farm.verify import verify_bundle
from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.links import Input, Linked, Links, Origin
from kernelfarm.nouns import Model
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from sbom.licence import policy
from sbom.licence.judge import judge
from sbom.licence.nouns import Decision, Role, Scan, Verdict
from sbom.licence.nouns import Outcome as ScanOutcome
from signing import dsse
from signing.waiver import Waiver
from tests.support import bundles

DAY = "2026-11-29"
TARGET = "x86-64-v3"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


def contents(tmp_path: Path, links: Links = bundles.LINKS, name: str = "payload") -> Contents:
    return materials.of_folder(TARGET, read_folder(bundles.payload(tmp_path / name, TARGET, links=links)))


def terms(*granted: Signed, day: str = DAY, model: str = "MIT") -> Terms:
    return Terms(policy.own(), day, {"": model} if model else {}, granted)


def the_verdict(found: Contents, home: Home, by: Terms | None = None, pins: tuple[Pin, ...] = ()) -> Verdict:
    """As the gate gives it, with all of the payload's files scanned and empty of licence texts."""
    every = materials.materials(found, (by or terms()).licences.get("", ""), pins, ContentStore(home.store))
    scans = {one.digest: Scan(one.digest, ScanOutcome.DONE) for item in every for one in item.pieces}
    return judge(every, scans, policy.own(), waivers=waivers.good((by or terms()).waivers, DAY))


def test_a_payload_of_known_sources_with_a_model_licence_is_allowed(tmp_path: Path, home: Home) -> None:
    verdict = the_verdict(contents(tmp_path), home)
    assert (verdict.decision, verdict.findings) == (Decision.ALLOW, ())
    roles = {(item.role.value, item.name) for item in verdict.materials}
    assert {("linked", "kernel-farm-runtime"), ("model", "cls"), ("imported", "ziglang")} <= roles


def test_a_planted_object_is_denied_and_file_rule_and_remedy_are_named(tmp_path: Path, home: Home) -> None:
    planted = Input("readline.o", digest.of_bytes(b"gpl"), Origin.UNKNOWN, 3, (".text",))
    first, *rest = bundles.LINKS.files
    links = Links((Linked(first.name, (*first.inputs, planted)), *rest), bundles.LINKS.sources)
    verdict = the_verdict(contents(tmp_path, links), home)
    (found,) = verdict.findings
    assert (verdict.decision, found.rule, found.material) == (Decision.DENY, "unknown", "kernels.so:readline.o")
    with pytest.raises(FarmError) as caught:
        gate.refuse_denied(verdict, DAY, "cls for x86-64-v3")
    assert (caught.value.code, caught.value.status) == (Code.LICENCE_DENIED, Status.REFUSED)
    assert "readline.o is linked into kernels.so and nothing says what it was compiled from" in caught.value.why
    assert caught.value.next_step.startswith("Take it out of the link")
    assert caught.value.detail["rule"] == "unknown"


def test_a_gpl_wheel_in_the_lock_is_denied(tmp_path: Path, home: Home) -> None:
    wheel = tmp_path / "turbo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            "turbo-1.0.dist-info/METADATA", "Name: turbo\nVersion: 1.0\nLicense-Expression: GPL-3.0-only\n"
        )
    store = ContentStore(home.store)
    pin = Pin("wheel", "turbo", "1.0", wheel.name, 1, store.put_file(wheel), "wheels", ("*",))
    verdict = the_verdict(contents(tmp_path), home, pins=(pin,))
    (found,) = verdict.findings
    assert (verdict.decision, found.material, found.rule) == (Decision.DENY, "turbo", 'imported.deny "GPL-*"')
    assert found.reason.startswith("its metadata (License-Expression) declares GPL-3.0-only")
    assert found.remedy.startswith("Take the package out of the lock")


def test_a_pinned_wheel_that_declares_nothing_wants_a_review(tmp_path: Path, home: Home) -> None:
    pin = Pin("wheel", "turbo", "1.0", "turbo.whl", 1, digest.of_bytes(b"not here"), "wheels", ("*",))
    (found,) = the_verdict(contents(tmp_path), home, pins=(pin,)).findings
    assert (found.decision, found.material, found.rule) == (Decision.REVIEW, "turbo", "unknown")


def test_without_a_model_licence_somebody_has_to_look(tmp_path: Path, home: Home) -> None:
    verdict = the_verdict(contents(tmp_path), home, terms(model=""))
    (found,) = verdict.findings
    assert (verdict.decision, found.material, found.rule) == (Decision.REVIEW, "cls", "unknown")


def test_model_licences_are_given_for_all_or_by_name() -> None:
    assert gate.model_licences(["mit", "cls=Apache-2.0"]) == {"": "MIT", "cls": "Apache-2.0"}
    for texts, code in ((["MIT", "ISC"], Code.USAGE), (["MIT AND"], Code.LICENCE_INVALID)):
        with pytest.raises(FarmError) as caught:
            gate.model_licences(texts)
        assert caught.value.code is code


def signed(verdict: Verdict, granted: str, expires: str, material: str = "") -> Signed:
    found = next(item for item in verdict.findings if material in ("", item.material))
    made = Waiver(
        found.key, found.material, found.file, found.expression, found.rule, "asked the owner", granted, expires
    )
    key = bundles.signer(7)
    return waivers.parse(dsse.seal(made.statement(), key.private), "w.json", [key.public])


def test_an_expired_waiver_is_named_and_covers_nothing(tmp_path: Path, home: Home) -> None:
    found = contents(tmp_path)
    waiver = signed(the_verdict(found, home, terms(model="")), "2026-10-01", "2026-11-01")
    store = ContentStore(home.store)

    good = gate.verdict(found, terms(waiver, day="2026-10-31", model=""), home, store)
    late = gate.verdict(found, terms(waiver, day="2026-11-01", model=""), home, store)

    assert [item.waiver for item in good.findings if item.material == "cls"] == [waiver.digest]
    (open_one,) = (item for item in late.open_findings("2026-11-01") if item.material == "cls")
    assert open_one.waiver is None
    assert open_one.reason.endswith(f"; a waiver of {waiver.keyid} expired on 2026-11-01")
    assert open_one.remedy.startswith("Have the waiver renewed")
    assert late.waivers == ()


def test_one_waiver_covers_a_model_for_all_targets_and_no_other_model(tmp_path: Path, home: Home) -> None:
    """Its weights lie otherwise in each target's payload, so that their bytes do not say which model it is."""

    def found(name: str, model: Model) -> Contents:
        folder = bundles.payload(tmp_path / f"{name}-{model.digest[-4:]}", name, model=model)
        (folder / "weights.bin").write_bytes(name.encode())
        return materials.of_folder(name, read_folder(folder))

    first, second = bundles.TARGETS[:2]
    waiver = signed(the_verdict(found(first, bundles.MODEL), home, terms(model="")), DAY, "2027-01-31")
    other = replace(bundles.MODEL, digest=digest.of_bytes(b"another model of the same name"))

    def covered(contents: Contents) -> list[str | None]:
        verdict = the_verdict(contents, home, terms(waiver, model=""))
        return [item.waiver for item in verdict.findings if item.material == "cls"]

    assert covered(found(second, bundles.MODEL)) == [waiver.digest]
    assert covered(found(second, other)) == [None]


def test_a_waiver_of_a_key_that_nobody_trusts_is_refused(tmp_path: Path, home: Home) -> None:
    waiver = signed(the_verdict(contents(tmp_path), home, terms(model="")), "2026-10-01", "2026-11-01")
    changed = waiver.document.replace("w", "x", 1)
    for data, public in ((waiver.document, bundles.signer(8).public), (changed, bundles.signer(7).public)):
        with pytest.raises(FarmError) as caught:
            waivers.parse(data.encode(), "w.json", [public])
        assert caught.value.code is Code.WAIVER_INVALID


def judged_bundle(tmp_path: Path, home: Home, by: Terms) -> Path:
    signer, out = bundles.signer(), tmp_path / "cls"
    folder = bundles.payload(tmp_path / "payload", TARGET)
    found = materials.of_folder(TARGET, read_folder(folder))
    verdict = gate.verdict(found, by, home, ContentStore(home.store))
    payload = PayloadInput(TARGET, folder, bundles.provenance(TARGET), gate.statement(found, verdict))
    write_bundle(out, name="cls", version="1.2.0", payloads=[payload], signer=signer)
    return out


def test_a_verdict_is_signed_with_the_bundle_and_replaced_by_a_newer_one(tmp_path: Path, home: Home) -> None:
    signer = bundles.signer()
    out = judged_bundle(tmp_path, home, terms(model=""))
    before = judging.read(out, signer.public)
    assert before.verdicts[TARGET] is not None

    made = judging.judge(before, terms(model="Apache-2.0"), home, ContentStore(home.store))
    judging.record(out, made, signer)
    after = judging.read(out, signer.public)

    assert after.view.digest == before.view.digest
    found = after.verdicts[TARGET]
    assert found is not None
    assert [item.declared for item in found.materials if item.name == "cls"] == ["Apache-2.0"]
    assert len(after.view.attestations) == len(before.view.attestations)
    report = verify_bundle(out, signer.public, check_payload=lambda *_: iter(()))
    assert report.ok, [str(error) for error in report.errors]
    assert any(check.name == f"licences of {TARGET}" for check in report.checks)
    again = judging.judge(after, terms(model=""), home, ContentStore(home.store))
    assert {verdict.materials for _, verdict in again.values()} == {found.materials}  # the licence stays as recorded


def test_two_verdicts_about_one_payload_are_refused(tmp_path: Path, home: Home) -> None:
    signer, out = bundles.signer(), judged_bundle(tmp_path, home, terms(model=""))
    found = judging.read(out, signer.public)
    (made,) = judging.judge(found, terms(model="ISC"), home, ContentStore(home.store)).values()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(FarmError) as caught:
        patch.setattr(attest, "_superseded", lambda *_: False)
        attest.attach(out, [made[0]], signer)
    assert caught.value.code is Code.ATTESTATION_INVALID


def test_a_verdict_about_another_payload_is_refused(tmp_path: Path, home: Home) -> None:
    signer, out = bundles.signer(), judged_bundle(tmp_path, home, terms())
    other = replace(contents(tmp_path, name="other"), payload=digest.of_bytes(b"other"))
    verdict = gate.verdict(other, terms(), home, ContentStore(home.store))
    with pytest.raises(FarmError) as caught:
        signer.sign(out, [gate.statement(other, verdict)])
    assert caught.value.code is Code.SIGNATURE_FOREIGN


def test_a_release_wants_every_payload_allowed_on_the_day(tmp_path: Path, home: Home) -> None:
    found = contents(tmp_path, name="one")
    waiver = signed(the_verdict(found, home, terms(model="")), DAY, "2027-01-31")
    verdict = the_verdict(found, home, terms(waiver, model=""))
    statement = gate.statement(found, verdict)
    view = judging.read(judged_bundle(tmp_path, home, terms()), bundles.signer().public).view
    statement = replace(statement, subjects=(replace(statement.subjects[0], digest=view.payloads[0].digest),))

    short = digest.hex_of(policy.own().digest)[:12]
    assert gate.require(view, {"s": statement}, DAY) == f"1 payloads allowed until 2027-01-31 by policy {short}"
    for statements, day in (({"s": statement}, "2027-01-31"), ({}, DAY)):
        with pytest.raises(FarmError) as caught:
            gate.require(view, statements, day)
        assert (caught.value.code, caught.value.status) == (Code.LICENCE_REVIEW, Status.REFUSED)
        assert ("expired on 2027-01-31" in caught.value.why) == bool(statements)


def lax() -> policy.Policy:
    """A policy of somebody's own that allows everything."""
    return policy.parse({"schema": "licence-policy/1", **{role.value: {"allow": ["*"]} for role in Role}}, "lax.toml")


def test_a_verdict_by_another_policy_counts_only_where_that_policy_does(tmp_path: Path, home: Home) -> None:
    found = contents(tmp_path, name="one")
    view = judging.read(judged_bundle(tmp_path, home, terms()), bundles.signer().public).view
    statement = gate.statement(found, replace(the_verdict(found, home), policy=lax().digest))
    statement = replace(statement, subjects=(replace(statement.subjects[0], digest=view.payloads[0].digest),))
    for ask in (gate.require, gate.refuse):
        assert ask(view, {"s": statement}, DAY, [lax().digest])
        with pytest.raises(FarmError) as caught:
            ask(view, {"s": statement}, DAY)
        assert caught.value.code is Code.LICENCE_REVIEW
        assert lax().digest in caught.value.why
        assert policy.own().digest in caught.value.why


def test_a_verdict_that_was_taken_away_is_refused_whatever_a_release_asks(tmp_path: Path, home: Home) -> None:
    view = judging.read(judged_bundle(tmp_path, home, terms()), bundles.signer().public).view
    for ask in (gate.require, gate.refuse):
        with pytest.raises(FarmError) as caught:
            ask(view, {}, DAY)
        assert (caught.value.code, caught.value.status) == (Code.LICENCE_REVIEW, Status.REFUSED)


def test_a_release_of_any_kind_refuses_a_denial_and_tells_what_is_open(tmp_path: Path, home: Home) -> None:
    found = contents(tmp_path, name="one")
    view = judging.read(judged_bundle(tmp_path, home, terms()), bundles.signer().public).view
    said = {}
    for model in ("GPL-3.0-only", ""):
        statement = gate.statement(found, the_verdict(found, home, terms(model=model)))
        subject = replace(statement.subjects[0], digest=view.payloads[0].digest)
        said[model] = {"s": replace(statement, subjects=(subject,))}
    with pytest.raises(FarmError) as caught:
        gate.refuse(view, said["GPL-3.0-only"], DAY)
    assert caught.value.code is Code.LICENCE_DENIED
    assert gate.refuse(view, said[""], DAY).startswith("review: 1 finding by policy ")


def test_a_licence_that_is_given_takes_the_place_of_the_recorded_one(tmp_path: Path, home: Home) -> None:
    recorded = judging.read(judged_bundle(tmp_path, home, terms(model="MIT")), bundles.signer().public)
    for given, expected in (({"": "ISC"}, "ISC"), ({"cls": "ISC"}, "ISC"), ({"other": "ISC"}, "MIT"), ({}, "MIT")):
        by = replace(terms(), licences=given)
        ((_, made),) = judging.judge(recorded, by, home, ContentStore(home.store)).values()
        assert [item.declared for item in made.materials if item.name == "cls"] == [expected], given


def test_a_waiver_in_the_farms_state_by_a_key_that_nobody_trusts_is_told_and_stops_nothing(
    tmp_path: Path, home: Home
) -> None:
    # Given a waiver by counsel in the farm's state, and a build that trusts another key
    found = contents(tmp_path)
    waiver = signed(gate.verdict(found, terms(model=""), home, ContentStore(home.store)), DAY, "2027-01-31", "cls")
    place = home.root / waivers.FOLDER / "counsel.json"
    place.parent.mkdir()
    place.write_text(waiver.document)
    public = {number: tmp_path / f"{number}.pub" for number in (7, 8)}
    for number, path in public.items():
        path.write_text(bundles.signer(number).public.pem)

    # When it is judged
    trusting = {number: LicenceOrder.of(keys_of=[path]).terms(home, "default") for number, path in public.items()}
    made = {
        number: gate.verdict(found, replace(by, day=DAY), home, ContentStore(home.store))
        for number, by in trusting.items()
    }

    # Then it covers for who trusts it, and is named for others; a file that is named on the command line must be good
    of_model = {number: next(one for one in item.findings if one.material == "cls") for number, item in made.items()}
    assert of_model[7].waiver == waiver.digest
    assert of_model[8].waiver is None
    assert f"the waiver counsel.json is signed by {waiver.keyid}, which may not waive" in of_model[8].reason
    with pytest.raises(FarmError) as caught:
        LicenceOrder.of(granted=[place], keys_of=[public[8]]).terms(home, "default")
    assert caught.value.code is Code.WAIVER_INVALID


def test_a_damaged_waiver_in_the_farms_state_is_refused(tmp_path: Path, home: Home) -> None:
    (home.root / waivers.FOLDER).mkdir()
    (home.root / waivers.FOLDER / "x.json").write_text("{}")
    (tmp_path / "k.pub").write_text(bundles.signer(7).public.pem)
    with pytest.raises(FarmError) as caught:
        LicenceOrder.of(keys_of=[tmp_path / "k.pub"]).terms(home, "default")
    assert (caught.value.code, caught.value.detail["file"]) == (Code.WAIVER_INVALID, "x.json")


@pytest.mark.parametrize("tools", [None, {"ziglang": {}}, {"": {"version": "1"}}, {"a": {"version": ""}}, {"a": 1}])
def test_a_payload_whose_tools_cannot_be_judged_has_a_code(tmp_path: Path, tools: object) -> None:
    folder = bundles.payload(tmp_path / "payload", TARGET)
    config = folder / "config.json"
    config.write_bytes(canonical.dumps({**canonical.loads(config.read_bytes(), name="config.json"), "tools": tools}))
    with pytest.raises(FarmError) as caught:
        materials.of_folder(TARGET, read_folder(folder))
    assert caught.value.code is Code.PAYLOAD_INCONSISTENT
    assert "tool" in caught.value.why


def test_an_image_that_is_not_that_of_todays_lock_wants_a_review(tmp_path: Path, home: Home) -> None:
    found, made_in = contents(tmp_path), digest.of_bytes(b"an image of last year")
    verdict = gate.verdict(found, terms(), home, ContentStore(home.store), made_in)
    (one,) = (item for item in verdict.findings if item.material == "kernel-farm-image")
    assert (one.rule, one.decision) == ("unsure", Decision.REVIEW)
    assert made_in in one.reason
    assert materials.of_image(made_in, made_in).doubt == ""


def test_metadata_of_a_locked_wheel_count_for_the_version_that_was_used(tmp_path: Path, home: Home) -> None:
    """What is installed today says nothing about another version; the lock's own file does."""
    wheel = tmp_path / "ziglang-0.0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("ziglang-0.0.1.dist-info/METADATA", "Name: ziglang\nLicense-Expression: GPL-3.0-only\n")
    store = ContentStore(home.store)
    pin = Pin("wheel", "ziglang", "0.0.1", wheel.name, 1, store.put_file(wheel), "wheels", ("*",))
    found = contents(tmp_path)
    found = replace(
        found, config={**found.config, "tools": {"ziglang": {"version": "0.0.1"}, "onnx": {"version": "0"}}}
    )

    every = {item.name: item for item in materials.materials(found, "MIT", (pin,), store)}

    assert (every["ziglang"].licence, every["ziglang"].content) == ("GPL-3.0-only AND MIT", pin.digest)
    assert (every["onnx"].licence, every["onnx"].source) == ("Apache-2.0", "sbom/declared.toml")


def test_a_waiver_is_signed_of_a_bundle_whose_signatures_hold(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a bundle that another farm signed
    monkeypatch.setenv("FARM_HOME", str(home.root))
    out = judged_bundle(tmp_path, home, terms(model=""))
    recorded = judging.read(out, bundles.signer().public).verdicts[TARGET]
    assert recorded is not None
    (key,) = (item.key for item in recorded.findings if item.material == "cls")
    assert main(["keys", "new"]) == 0
    other, end = tmp_path / "other.pub", (date.today() + timedelta(days=30)).isoformat()
    other.write_text(bundles.signer().public.pem)
    words = ["waive", str(out), key, "--reason", "asked the owner", "--expires", end]

    # When it is waived, then only under the key that signed it
    assert main(words) == int(Code.WRONG_KEY.status)
    assert waivers.of_home(home) == ()
    assert main([*words, "--signed-by", str(other)]) == 0
    assert len(waivers.of_home(home)) == 1
