"""A worker that means harm gets nothing into store or ledger; the gate answers with a code and serves the next one."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from containers.result import PAYLOAD_FILES, Accepted
from farm import describe
from farm.actions import Job
from farm.blobs import Repository
from farm.gate import authority, messages, tokens
from farm.gate.authority import Authority
from farm.gate.client import Gate
from farm.gate.identities import Identities
from farm.gate.messages import Beat, Beaten, Empty, Fail, Finish, Grant, Held, Lose, Offer, Take, Taken, Token
from farm.https import Peer
from farm.ledger.rules import Reason
from farm.logs import log_path
from farm.payload import payload_digest
from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Payload, PayloadFile, RunState
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from sbom import document
from tests.support import bundles, farms
from tests.support.gate_server import GateServer

pytestmark = pytest.mark.services

OFFER = Offer.of(farms.BOX)


@dataclass(frozen=True, slots=True)
class Guest:
    """An enrolled worker, played by the test: it knows the protocol and keeps no rule."""

    name: str
    gate: Gate
    store: ContentStore
    registry: Peer

    def take(self, offer: Offer = OFFER) -> Grant:
        grant = self.gate.ask(messages.TAKE, Take(offer, 0.0, "host"), Taken).grant
        assert grant is not None
        return grant

    def upload(self, grant: Grant, payload: Payload) -> None:
        """Bring the payload's files, as far as the store has them, into its repository."""
        token = self.gate.ask(messages.TOKEN, held(grant), Token).token
        results = Repository(self.registry, tokens.results_of(self.name), lambda: token)
        for entry in payload.files:
            if self.store.has(entry.digest):
                results.put(self.store, entry.digest)

    def finish(self, lease: Held, payload: Payload) -> None:
        self.gate.ask(messages.FINISH, Finish(lease, payload, 1), Empty)


def held(grant: Grant) -> Held:
    return Held(grant.run, grant.fencing)


def guest(server: GateServer, name: str = "mallory") -> Guest:
    gate = server.as_worker(name)
    return Guest(name, gate, ContentStore(server.folder / f"store-of-{name}"), gate.registry(server.registry.url))


def payload_of(
    store: ContentStore, job: Job, folder: Path, change: Callable[[Path], object] = lambda _: None
) -> Payload:
    """A good payload for a job, its files in the store. `change` may alter what was compiled before it is described."""
    compiled = bundles.compiled(folder, job.action.target_name, model=job.model)
    change(compiled)
    made = describe.completed(job, Accepted(compiled, (), ()))
    paths = sorted(made.folder.iterdir())
    files = tuple(PayloadFile(path.name, store.put_file(path), path.stat().st_size) for path in paths)
    return Payload(payload_digest(made.folder), job.model.name, job.action.target_name, files)


def refusal(work: Callable[[], object]) -> Code:
    with pytest.raises(FarmError) as caught:
        work()
    return caught.value.code


@dataclass(frozen=True, slots=True)
class Scene:
    """A farm with one queued run, and what it holds before anything happened."""

    server: GateServer
    job: Job
    run: int
    blobs: tuple[digest.Digest, ...]

    def require_nothing_in(self, state: RunState = RunState.RUNNING) -> None:
        """Not a byte more in the store, no payload, no cache entry; no half of a download left."""
        farm = self.server.farm
        assert tuple(farm.store.digests()) == self.blobs
        row = farm.ledger.runs.get(self.run)
        assert (row.status.state, row.payload) == (state, None)
        assert farm.ledger.runs.cached(self.job.action.execution_key) is None
        assert [path.name for path in farm.settings.home.cache.iterdir()] == []


@pytest.fixture
def scene(gate_server: GateServer) -> Scene:
    farm = gate_server.farm
    job = farms.job(farm.store)
    run = farms.submit(farm.ledger, job)
    return Scene(gate_server, job, run, tuple(farm.store.digests()))


def test_an_honest_worker_is_served(scene: Scene, tmp_path: Path) -> None:
    """Without this the refusals below would prove nothing."""
    alice = guest(scene.server, "alice")
    grant = alice.take()
    payload = payload_of(alice.store, scene.job, tmp_path / "payload")
    alice.upload(grant, payload)
    alice.gate.ask(messages.BEAT, Beat(held(grant), ("group", 1, 2)), Beaten)
    alice.gate.log(held(grant), 0, b"compiling\n")
    alice.finish(held(grant), payload)
    alice.finish(held(grant), payload)  # it did not get the answer, and asks again
    farm = scene.server.farm
    row = farm.ledger.runs.get(scene.run)
    assert (row.status.state, row.stage) == (RunState.DONE, "group")
    assert {entry.digest for entry in payload.files} < set(farm.store.digests())
    [attempt] = farm.ledger.runs.attempts(scene.run)
    assert (attempt.worker, attempt.host, attempt.runner) == ("gate:alice", "host", "process")
    assert log_path(farm.settings.home.logs, scene.run, 1).read_bytes() == b"compiling\n"


@pytest.mark.parametrize("name", sorted(PAYLOAD_FILES))
def test_a_wrong_digest_is_refused(scene: Scene, tmp_path: Path, name: str) -> None:
    mallory = guest(scene.server)
    grant = mallory.take()
    good = payload_of(mallory.store, scene.job, tmp_path / "payload")
    evil = mallory.store.put_bytes(b"evil")
    changed = [replace(each, digest=evil, size=4) if each.name == name else each for each in good.files]
    payload = replace(good, files=tuple(changed))
    mallory.upload(grant, payload)
    assert refusal(lambda: mallory.finish(held(grant), payload)) is Code.RESULT_REFUSED
    scene.require_nothing_in()


def test_a_wrong_digest_of_the_payload_is_refused(scene: Scene, tmp_path: Path) -> None:
    """Every file is as it should be; only what they are together is a lie."""
    mallory = guest(scene.server)
    grant = mallory.take()
    payload = replace(payload_of(mallory.store, scene.job, tmp_path / "payload"), digest=digest.of_bytes(b"lie"))
    mallory.upload(grant, payload)
    assert refusal(lambda: mallory.finish(held(grant), payload)) is Code.RESULT_REFUSED
    scene.require_nothing_in()


def test_a_bill_of_materials_that_leaves_something_out_is_refused(scene: Scene, tmp_path: Path) -> None:
    """Its digest is right; it is not what the gate would write for these files."""
    mallory = guest(scene.server)
    grant = mallory.take()
    payload_of(mallory.store, scene.job, tmp_path / "payload")
    place = tmp_path / "payload" / "sbom.cdx.json"
    bill = canonical.loads(place.read_bytes())
    bill["components"] = [item for item in bill["components"] if item["bom-ref"] != "tool/ziglang"]
    place.write_bytes(document.numbered(bill))
    paths = sorted(place.parent.iterdir())
    files = tuple(PayloadFile(path.name, mallory.store.put_file(path), path.stat().st_size) for path in paths)
    payload = Payload(payload_digest(place.parent), scene.job.model.name, scene.job.action.target_name, files)
    mallory.upload(grant, payload)
    assert refusal(lambda: mallory.finish(held(grant), payload)) is Code.RESULT_REFUSED
    scene.require_nothing_in()


def test_a_size_that_is_a_lie_is_refused(scene: Scene, tmp_path: Path) -> None:
    mallory = guest(scene.server)
    grant = mallory.take()
    good = payload_of(mallory.store, scene.job, tmp_path / "payload")
    mallory.upload(grant, good)
    for change in (-1, 1):
        first = replace(good.files[0], size=good.files[0].size + change)
        lie = replace(good, files=(first, *good.files[1:]))
        assert refusal(lambda lie=lie: mallory.finish(held(grant), lie)) is Code.BLOB_REFUSED
    scene.require_nothing_in()


def test_a_file_that_never_came_is_refused(scene: Scene, tmp_path: Path) -> None:
    mallory = guest(scene.server)
    grant = mallory.take()
    payload = payload_of(mallory.store, scene.job, tmp_path / "payload")
    assert refusal(lambda: mallory.finish(held(grant), payload)) is Code.BLOB_MISSING
    scene.require_nothing_in()


@pytest.mark.parametrize(
    ("beyond", "claimed_less", "expected"),
    [(0, 0, None), (1, 0, Code.RESULT_REFUSED), (1, 1, Code.BLOB_REFUSED)],
    ids=["at-the-limit", "says-so", "claims-less"],
)
def test_an_oversize_blob_is_refused(
    scene: Scene, tmp_path: Path, beyond: int, claimed_less: int, expected: Code | None
) -> None:
    """A payload that is right in everything, with a file of a byte above its limit. How much is fetched of one that
    claims less: `tests/unit/test_farm_blobs.py`."""
    mallory = guest(scene.server)
    grant = mallory.take()
    size = PAYLOAD_FILES["media.hdr"] + beyond
    good = payload_of(
        mallory.store, scene.job, tmp_path / "payload", lambda made: (made / "media.hdr").write_bytes(bytes(size))
    )
    files = [replace(each, size=size - claimed_less) if each.name == "media.hdr" else each for each in good.files]
    payload = replace(good, files=tuple(files))
    mallory.upload(grant, payload)
    if expected is None:
        mallory.finish(held(grant), payload)
        return
    assert refusal(lambda: mallory.finish(held(grant), payload)) is expected
    scene.require_nothing_in()


def test_other_files_than_a_payload_has_are_refused(scene: Scene, tmp_path: Path) -> None:
    mallory = guest(scene.server)
    grant = mallory.take()
    good = payload_of(mallory.store, scene.job, tmp_path / "payload")
    more = PayloadFile("extra", mallory.store.put_bytes(b"x"), 1)
    for files in (good.files[1:], (*good.files, more)):
        payload = replace(good, files=files)
        mallory.upload(grant, payload)
        assert refusal(lambda payload=payload: mallory.finish(held(grant), payload)) is Code.RESULT_REFUSED
    for renamed in ("../../ledger.sqlite3", "/etc/passwd", "..", ""):
        text = json.loads(json.dumps([{"name": renamed, "digest": more.digest, "size": 1}]))
        assert refusal(lambda text=text: raw_finish(mallory, grant, good, text)) is Code.GATE_PROTOCOL
    scene.require_nothing_in()


def raw_finish(who: Guest, grant: Grant, payload: Payload, files: object) -> None:
    """A result whose list of files no noun would let through."""
    document = canonical.to_json(Finish(held(grant), payload, 1))
    document["payload"]["files"] = files
    who.gate.ask(messages.FINISH, document, Empty)


def test_the_payload_of_another_job_is_refused(scene: Scene, tmp_path: Path) -> None:
    mallory = guest(scene.server)
    grant = mallory.take()
    other = farms.job(mallory.store, on="x86-64-v4")
    payload = payload_of(mallory.store, other, tmp_path / "payload")
    mallory.upload(grant, payload)
    assert refusal(lambda: mallory.finish(held(grant), payload)) is Code.RESULT_REFUSED
    scene.require_nothing_in()


def test_someone_elses_lease_moves_nothing(scene: Scene, tmp_path: Path) -> None:
    alice, mallory = guest(scene.server, "alice"), guest(scene.server)
    lease = held(alice.take())
    payload = payload_of(mallory.store, scene.job, tmp_path / "payload")
    error = json.dumps(FarmError(Code.MODEL_INVALID, "no").to_json())
    attempts: list[Callable[[], object]] = [
        lambda: mallory.finish(lease, payload),
        lambda: mallory.gate.ask(messages.BEAT, Beat(lease, ("evil", 0, 1)), Beaten),
        lambda: mallory.gate.ask(messages.TOKEN, lease, Token),
        lambda: mallory.gate.ask(messages.FAIL, Fail(lease, Reason.COMPILE_ERROR, error), Empty),
        lambda: mallory.gate.ask(messages.LOSE, Lose(lease, error), Empty),
        lambda: mallory.gate.ask(messages.RELEASE, lease, Empty),
        lambda: mallory.gate.log(lease, 0, b"evil"),
        lambda: mallory.finish(Held(lease.run, lease.fencing + 1), payload),  # one that nobody has yet
        lambda: mallory.finish(Held(lease.run + 1, lease.fencing), payload),  # a run that is not there
    ]
    assert [refusal(attempt) for attempt in attempts] == [Code.GATE_REFUSED] * len(attempts)
    scene.require_nothing_in()
    assert scene.server.farm.ledger.runs.get(scene.run).stage == ""
    assert not log_path(scene.server.farm.settings.home.logs, scene.run, 1).exists()


def test_a_worker_cannot_write_into_anothers_results_nor_into_the_inputs(scene: Scene) -> None:
    mallory = guest(scene.server)
    token = mallory.gate.ask(messages.TOKEN, held(mallory.take()), Token).token
    evil = mallory.store.put_bytes(b"evil")
    for name in (tokens.INPUTS, tokens.results_of("alice")):
        there = Repository(mallory.registry, name, lambda: token)
        assert refusal(lambda there=there: there.put(mallory.store, evil)) is Code.REGISTRY_REFUSED


def test_results_that_lie_in_anothers_repository_do_not_count(scene: Scene, tmp_path: Path) -> None:
    # Given a result that alice uploaded before her lease ran out
    alice, mallory = guest(scene.server, "alice"), guest(scene.server)
    first = alice.take()
    payload = payload_of(alice.store, scene.job, tmp_path / "payload")
    alice.upload(first, payload)
    alice.gate.ask(messages.RELEASE, held(first), Empty)
    # When mallory, who has the run now, claims it as her own
    second = mallory.take()
    assert refusal(lambda: mallory.finish(held(second), payload)) is Code.BLOB_MISSING
    scene.require_nothing_in()


def test_a_stale_fencing_number_moves_nothing(scene: Scene, tmp_path: Path) -> None:
    # Given a worker whose run was taken over by another
    alice, mallory = guest(scene.server, "alice"), guest(scene.server)
    stale = mallory.take()
    payload = payload_of(mallory.store, scene.job, tmp_path / "payload")
    mallory.upload(stale, payload)
    mallory.gate.ask(messages.RELEASE, held(stale), Empty)
    fresh = alice.take()
    assert (stale.fencing, fresh.fencing) == (1, 2)
    # When it comes back with its old lease
    error = json.dumps(FarmError(Code.MODEL_INVALID, "no").to_json())
    lease = held(stale)
    attempts: list[Callable[[], object]] = [
        lambda: mallory.finish(lease, payload),
        lambda: mallory.gate.ask(messages.BEAT, Beat(lease, None), Beaten),
        lambda: mallory.gate.ask(messages.TOKEN, lease, Token),
        lambda: mallory.gate.ask(messages.FAIL, Fail(lease, Reason.COMPILE_ERROR, error), Empty),
        lambda: mallory.gate.ask(messages.RELEASE, lease, Empty),
        lambda: mallory.gate.log(lease, 0, b"evil"),
    ]
    # Then nothing counts, and the other's lease holds
    assert [refusal(attempt) for attempt in attempts] == [Code.LEASE_LOST] * len(attempts)
    assert refusal(lambda: mallory.finish(held(fresh), payload)) is Code.GATE_REFUSED
    scene.require_nothing_in()
    assert scene.server.farm.ledger.runs.get(scene.run).status.worker == "gate:alice"


def test_a_worker_of_other_sources_gets_no_run(scene: Scene) -> None:
    mallory = guest(scene.server)
    for other in (
        replace(OFFER, compiler_source=digest.of_bytes(b"evil")),
        replace(OFFER, means=()),
        Offer.of(replace(farms.BOX, tools=())),
        Offer.of(replace(farms.BOX, execution=replace(farms.BOX.execution, runner="docker"))),
    ):
        assert mallory.gate.ask(messages.TAKE, Take(other, 0.0, "host"), Taken).grant is None
    scene.require_nothing_in(RunState.QUEUED)


def test_a_revoked_worker_is_refused_from_its_next_request_on(scene: Scene, tmp_path: Path) -> None:
    mallory = guest(scene.server)
    grant = mallory.take()
    payload = payload_of(mallory.store, scene.job, tmp_path / "payload")
    mallory.upload(grant, payload)
    scene.server.identities.revoke("mallory")  # the connection that it has stays open
    assert refusal(lambda: mallory.finish(held(grant), payload)) is Code.GATE_REFUSED
    assert refusal(mallory.gate.hello) is Code.GATE_REFUSED
    scene.require_nothing_in()


def test_a_certificate_that_was_replaced_is_refused(scene: Scene) -> None:
    before = scene.server.as_worker("mallory")
    scene.server.enrol("mallory")
    assert refusal(before.hello) is Code.GATE_REFUSED


def test_an_expired_identity_is_refused(scene: Scene) -> None:
    mallory = scene.server.as_worker("mallory")
    record = scene.server.identities.folder / "mallory.json"
    document = json.loads(record.read_text())
    record.write_text(json.dumps({**document, "expires_at": 1}, sort_keys=True, separators=(",", ":")))
    assert refusal(mallory.hello) is Code.GATE_REFUSED


def test_an_unknown_identity_reaches_nothing(scene: Scene, tmp_path: Path) -> None:
    """One whose record is gone; another farm's worker of the same name; the gate's own certificate; none at all."""
    url = scene.server.url
    forgotten = scene.server.as_worker("forgotten")
    (scene.server.identities.folder / "forgotten.json").unlink()
    assert refusal(forgotten.hello) is Code.GATE_REFUSED
    foreign = authority.ensure(Home(tmp_path / "foreign"))
    _record, secret = Identities(foreign).enrol("mallory")
    own = scene.server.registry.keys.ca.certificate.read_bytes()
    stranger = tmp_path / "stranger.pem"
    stranger.write_bytes(secret[: secret.rindex(b"-----BEGIN CERTIFICATE")] + own)
    stranger.chmod(0o600)
    assert refusal(Gate(url, stranger).hello) is Code.GATE_UNREACHABLE  # TLS ends it
    assert refusal(lambda: hello_as(scene.server.registry.keys, url)) is Code.GATE_REFUSED
    assert hello_without_certificate(scene.server) == b""
    scene.require_nothing_in(RunState.QUEUED)


def hello_as(keys: Authority, url: str) -> None:
    """Ask with the certificate that the gate itself shows to the registry."""
    peer = Peer(
        url,
        name=authority.GATE,
        authority=keys.ca.certificate,
        identity=keys.gate.certificate,
        key=keys.gate.key,
        unreachable=Code.GATE_UNREACHABLE,
    )
    with peer.ask("POST", messages.HELLO, data=b'{"schema":"gate-empty/1"}') as answer:
        raise FarmError.from_json(answer.json()["error"])


def hello_without_certificate(server: GateServer) -> bytes:
    """What a client gets that shows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(server.registry.keys.ca.certificate)
    host, port = server.url.removeprefix("https://").rsplit(":", 1)
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain, server_hostname=authority.GATE) as stream,
        contextlib.suppress(OSError),
    ):
        stream.sendall(b"POST /v1/hello HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        return stream.recv(100)
    return b""


def test_a_worker_cannot_play_the_gate(scene: Scene, tmp_path: Path) -> None:
    """Its certificate is of this farm, and good for clients only; the name of the gate it cannot get."""
    identity = scene.server.enrol("mallory")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity)
    victim = tmp_path / "alice.pem"
    victim.write_bytes(scene.server.enrol("alice").read_bytes())
    victim.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def play() -> None:
            connection, _ = listener.accept()
            with connection, pytest.raises(OSError):
                context.wrap_socket(connection, server_side=True)

        thread = threading.Thread(target=play)
        thread.start()
        port = listener.getsockname()[1]
        assert refusal(Gate(f"https://127.0.0.1:{port}", victim).hello) is Code.GATE_UNREACHABLE
        thread.join()


@pytest.mark.parametrize("name", ["../alice", "alice/../bob", "Alice", "", "a" * 64, "a.b", "gate:alice", "a\n"])
def test_a_name_that_leads_out_of_the_folder_cannot_be_enrolled(scene: Scene, name: str) -> None:
    assert refusal(lambda: scene.server.identities.enrol(name)) is Code.IDENTITY_INVALID


def test_malformed_messages_get_a_coded_answer_and_the_gate_stays_up(scene: Scene) -> None:
    mallory = guest(scene.server)
    grant = mallory.take()
    peer = mallory.gate._peer
    bodies = (b"", b"{}", b"[" * 100_000, b"\xff", b'{"schema":"gate-held/1","run":true,"fencing":1}', b"x" * 2_000_000)
    for path in (messages.TAKE, messages.FINISH, messages.BEAT, messages.FAIL, "v1/nothing", ""):
        for data in bodies:
            with peer.ask("POST", path, data=data) as answer:
                assert FarmError.from_json(answer.json()["error"]).code is Code.GATE_PROTOCOL, (path, data[:20])
    with peer.ask("GET", messages.TAKE) as answer:
        assert answer.status_code == 405
    for held_by in (Held(-1, 1), Held(1 << 52, 1), Held(scene.run, 1 << 52)):
        assert refusal(lambda held_by=held_by: mallory.gate.ask(messages.RELEASE, held_by, Empty)) is Code.GATE_REFUSED
    for progress in (("\x1b[2J", 0, 1), ("group", -1, 1), ("group", 0, 1 << 40)):
        beat = Beat(held(grant), progress)
        assert refusal(lambda beat=beat: mallory.gate.ask(messages.BEAT, beat, Beaten)) is Code.GATE_PROTOCOL
    scene.require_nothing_in()
    assert mallory.gate.hello().worker == "mallory"
    assert "Traceback" not in scene.server.log


def test_a_worker_gives_only_reasons_that_are_a_workers(scene: Scene) -> None:
    mallory = guest(scene.server)
    lease = held(mallory.take())
    error = json.dumps(FarmError(Code.MODEL_INVALID, "no").to_json())
    for reason in sorted(set(Reason) - messages.FAILURES, key=lambda each: each.value):
        asked = Fail(lease, reason, error)
        assert refusal(lambda asked=asked: mallory.gate.ask(messages.FAIL, asked, Empty)) is Code.GATE_PROTOCOL
    asked = Fail(lease, Reason.COMPILE_ERROR, "x" * (messages.ERROR_LIMIT + 1))
    assert refusal(lambda: mallory.gate.ask(messages.FAIL, asked, Empty)) is Code.GATE_PROTOCOL
    scene.require_nothing_in()


def test_a_log_is_kept_up_to_its_limit_and_only_at_its_end(scene: Scene) -> None:
    mallory = guest(scene.server)
    lease = held(mallory.take())
    piece = bytes(messages.LOG_PIECE)
    for number in range(messages.LOG_LIMIT // messages.LOG_PIECE + 4):
        mallory.gate.log(lease, number * len(piece), piece)
    mallory.gate.log(lease, 0, b"evil")
    path = log_path(scene.server.farm.settings.home.logs, scene.run, lease.fencing)
    assert path.stat().st_size == messages.LOG_LIMIT
    assert b"evil" not in path.read_bytes()
    scene.require_nothing_in()
