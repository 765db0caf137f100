"""Withdrawals are signed by their form: the bundle that they are about may be what was lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from signing import dsse, server
from signing.release import Deed, LogEntry
from signing.statement import Statement
from tests.support import bundles

SIGNER = bundles.signer()
D = digest.of_bytes(b"x")
ENTRY = LogEntry("0" * 32, 2, D, Deed.WITHDRAW, "media/cls", "cls", "1.0.0", "1.0.0", D, "stable", "odd widths")


def ask(statement: Statement, **more: Any) -> dict[str, Any]:
    request = {"schema": "sign-request/1", "do": "withdraw", "statement": statement.to_json(), **more}
    return server.answer(request, SIGNER.private)


def test_a_withdrawal_is_signed() -> None:
    (sealed,) = ask(ENTRY.statement())["sealed"]

    assert LogEntry.from_statement(dsse.open_sealed(sealed.encode(), SIGNER.public), "") == ENTRY


@pytest.mark.parametrize(
    "statement",
    [
        replace(ENTRY, deed=Deed.PUBLISH, reason="").statement(),  # what is published is hashed by the signer itself
        replace(ENTRY, reason="").statement(),
        replace(ENTRY, sequence=1, previous=None).statement(),
        replace(ENTRY.statement(), predicate_type="urn:kernel-farm:release:2"),
        replace(ENTRY.statement(), predicate={**ENTRY.statement().predicate, "channel": ""}),
        replace(ENTRY.statement(), predicate={**ENTRY.statement().predicate, "log": "0" * 31}),
    ],
)
def test_nothing_else_is_signed_so(statement: Statement) -> None:
    assert FarmError.from_json(ask(statement)["error"]).code is Code.ATTESTATION_INVALID


def test_a_request_with_more_in_it_is_refused() -> None:
    assert FarmError.from_json(ask(ENTRY.statement(), layout="/x")["error"]).code is Code.SIGNER_PROTOCOL
