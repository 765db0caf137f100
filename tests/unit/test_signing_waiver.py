"""Licence waivers: their form, their limits, and the signer that signs them."""

from __future__ import annotations

import pytest

from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from signing import dsse, keys, server, waiver
from signing.waiver import Waiver
from tests.support import bundles

FINDING = digest.of_bytes(b"finding")


def make(reason: str = "a macro's name", granted: str = "2026-11-29", expires: str = "2027-01-31") -> Waiver:
    return Waiver(FINDING, "runtime", "macro.c", "GPL-2.0-only", 'linked.deny "GPL-*"', reason, granted, expires)


def test_a_waiver_is_the_same_after_signing_and_reading() -> None:
    key = bundles.signer()
    opened = dsse.open_sealed(dsse.seal(make().statement(), key.private), key.public)
    assert waiver.from_statement(opened, "w.json") == make()
    assert opened.subjects[0].name == "runtime/macro.c"


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "  "},
        {"expires": "2026-11-29"},
        {"expires": "2028-01-01"},
        {"expires": "20270131"},
        {"expires": "soon"},
    ],
)
def test_a_waiver_has_a_reason_and_an_end_within_a_year(changes: dict[str, str]) -> None:
    with pytest.raises(FarmError) as caught:
        make(**changes)
    assert caught.value.code is Code.WAIVER_INVALID


def test_the_signer_signs_waivers_and_nothing_else_without_a_bundle() -> None:
    key = bundles.signer()
    request = {"schema": "sign-request/1", "do": "waive", "statement": make().statement().to_json()}
    (sealed,) = server.answer(request, key.private)["sealed"]
    assert waiver.from_statement(dsse.open_sealed(sealed.encode(), key.public), "w") == make()

    other = bundles.provenance("x86-64-v3").statement(FINDING)
    for refused in ({**request, "statement": other.to_json()}, {**request, "layout": "/"}):
        assert "error" in server.answer(refused, key.private)
    assert keys.public_of(key.private).keyid == key.public.keyid
