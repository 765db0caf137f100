"""Whatever is put into a signed statement, reading it ends with a noun or a code, and with the right signature only."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfarm import canonical
from kernelfarm.digest import of_bytes
from kernelfarm.errors import FarmError
from signing import dsse
from signing.statement import PROVENANCE, Provenance, Statement, Subject
from tests.support import bundles

SIGNER = bundles.signer()
MADE = bundles.provenance("x86-64-v4").statement(of_bytes(b"payload"))

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 1 << 40)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from("abc"), json_values), st.binary(max_size=8))
def test_any_statement_is_signed_and_opened_as_it_is(predicate: dict[str, Any], about: bytes) -> None:
    statement = Statement((Subject("x", of_bytes(about)),), "urn:x", predicate)

    sealed = dsse.seal(statement, SIGNER.private)

    assert dsse.open_sealed(sealed, SIGNER.public) == statement


def paths_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in items for path in paths_of(item, (*at, key)))]


PREDICATE: dict[str, Any] = canonical.loads(canonical.dumps(dict(MADE.predicate)))
PLACES = [path for path in paths_of(PREDICATE) if path]


@given(st.sampled_from(PLACES), json_values)
def test_any_value_at_any_place_of_a_provenance_is_read_back_or_refused(path: tuple[Any, ...], value: Any) -> None:
    predicate = canonical.loads(canonical.dumps(PREDICATE))
    place = predicate
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    statement = Statement(MADE.subjects, PROVENANCE, predicate)

    try:
        read = Provenance.from_statement(statement, "f")
    except FarmError as error:
        assert error.detail["file"] == "f"
    else:
        assert read.statement(MADE.subjects[0].digest).encode() == statement.encode()


@given(json_values)
def test_any_json_in_an_envelope_is_refused_with_a_code(value: Any) -> None:
    keyid = SIGNER.public.keyid
    envelope = {
        "payload": base64.b64encode(canonical.dumps(value)).decode(),
        "payloadType": dsse.PAYLOAD_TYPE,
        "signatures": [{"keyid": keyid, "sig": base64.b64encode(b"x").decode()}],
    }
    documents = (value, {"dsseEnvelope": value, "verificationMaterial": value}, {"dsseEnvelope": envelope})
    for document in documents:
        try:
            dsse.open_sealed(canonical.dumps(document), SIGNER.public, "f")
        except FarmError as error:
            assert error.detail["file"] == "f"
        else:
            raise AssertionError(document)
