"""Registries that ask who is there, over TLS, and keep their blobs elsewhere."""

from __future__ import annotations

import base64
import contextlib
import gzip
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from farm import https
from farm.blobs import Repository
from farm.registry import access, reference, remote
from farm.registry.access import Registry
from farm.registry.remote import Remote
from kernelfarm import digest, oci
from kernelfarm.errors import Code, FarmError

BASIC = "Basic " + base64.b64encode(b"me:secret").decode()


class Server(ThreadingHTTPServer):
    """Answers as `rules` say: path to (status, headers, body); what was asked is in `seen`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rules: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.allowed = ""
        self.challenge = ""
        self.seen: list[tuple[str, str, bytes]] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        given = self.headers.get("Authorization", "")
        self.server.seen.append((f"{self.command} {self.path}", given, body))
        path = self.path.partition("?")[0]
        status, headers, data = self.server.rules.get(path, (404, {}, b""))
        if path.startswith("/v2/") and self.server.allowed and given != self.server.allowed:
            status, headers, data = 401, {"WWW-Authenticate": self.server.challenge}, b""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else data)

    do_GET = do_HEAD = do_PUT = do_POST = answer

    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def registry(server: Server, credentials: str = "") -> Registry:
    return Registry(reference.parse(f"{server.host}/media/cls"), credentials=credentials)


def got(asked: Registry, path: str) -> bytes:
    with asked.ask("GET", path) as answer:
        return b"".join(https.pieces(answer))


def test_a_registry_that_asks_for_a_password_gets_it(server: Server) -> None:
    server.allowed, server.challenge = BASIC, 'Basic realm="registry"'
    server.rules["/v2/x"] = (200, {}, b"here")

    assert got(registry(server, "me:secret"), "v2/x") == b"here"
    with pytest.raises(FarmError) as caught:
        got(registry(server, "me:wrong"), "v2/x")
    assert caught.value.code is Code.CREDENTIALS_REFUSED
    with pytest.raises(FarmError) as caught:
        got(registry(server), "v2/x")
    assert caught.value.code is Code.CREDENTIALS_REFUSED
    assert "docker login" in caught.value.next_step


def test_a_token_is_fetched_where_the_registry_says_and_the_body_sent_again(server: Server) -> None:
    server.allowed = "Bearer abc"
    scope = "repository:media/cls:pull,push"
    server.challenge = f'Bearer realm="http://{server.host}/token",service="registry",scope="{scope}"'
    server.rules["/token"] = (200, {}, json.dumps({"token": "abc"}).encode())
    server.rules["/v2/x"] = (201, {}, b"")
    asked = registry(server, "me:secret")

    with asked.ask("PUT", "v2/x", data=b"the body") as answer:
        assert answer.status_code == 201

    first, token, second = server.seen
    assert (first[1], second[1], second[2]) == ("", "Bearer abc", b"the body")
    assert token[1] == BASIC
    assert "scope=repository%3Amedia%2Fcls%3Apull%2Cpush" in token[0]


@pytest.mark.parametrize("said", [b"{}", b"[]", b"no json", b'{"token": 5}', b'{"token": "a\\r\\nX: y"}'])
def test_a_token_service_that_talks_nonsense_is_refused(server: Server, said: bytes) -> None:
    server.allowed, server.challenge = "Bearer abc", f'Bearer realm="http://{server.host}/token"'
    server.rules["/token"] = (200, {}, said)
    with pytest.raises(FarmError) as caught:
        got(registry(server), "v2/x")
    assert caught.value.code is Code.CREDENTIALS_REFUSED


def test_blobs_elsewhere_are_followed_without_the_credentials(server: Server, elsewhere: Server) -> None:
    server.allowed, server.challenge = BASIC, 'Basic realm="registry"'
    server.rules["/v2/x"] = (307, {"Location": f"http://{elsewhere.host}/storage?signed=1"}, b"")
    elsewhere.rules["/storage"] = (200, {}, b"blob")

    assert got(registry(server, "me:secret"), "v2/x") == b"blob"
    assert [(path, given) for path, given, _ in elsewhere.seen] == [("GET /storage?signed=1", "")]


@pytest.mark.parametrize("place", ["http://192.0.2.1/x", "ftp://127.0.0.1/x", "http://me:pw@127.0.0.1/x"])
def test_nothing_is_followed_to_where_there_is_no_tls(server: Server, place: str) -> None:
    server.rules["/v2/x"] = (307, {"Location": place}, b"")
    with pytest.raises(FarmError) as caught:
        got(registry(server), "v2/x")
    assert caught.value.code is Code.REGISTRY_UNREACHABLE


BROKEN = "https://[x"
"""An address that cannot even be taken apart."""


@pytest.mark.parametrize("where", ["storage", "token service", "upload"])
def test_an_address_that_is_none_is_a_coded_error(server: Server, tmp_path: Path, where: str) -> None:
    name = digest.of_bytes(b"x")
    if where == "token service":
        server.allowed, server.challenge = "Bearer abc", f'Bearer realm="{BROKEN}"'
    server.rules["/v2/x"] = (307, {"Location": BROKEN}, b"")
    server.rules["/v2/media/cls/blobs/uploads/"] = (202, {"Location": BROKEN}, b"")
    (tmp_path / "x").write_bytes(b"x")

    with pytest.raises(FarmError) as caught:
        if where == "upload":
            Repository(registry(server), "media/cls", lambda: "").send(tmp_path / "x", name)
        else:
            got(registry(server), "v2/x")

    assert caught.value.code is Code.REGISTRY_UNREACHABLE


def test_a_blob_that_lies_elsewhere_is_there(server: Server, elsewhere: Server, tmp_path: Path) -> None:
    name = digest.of_bytes(b"x")
    server.rules[f"/v2/media/cls/blobs/{name}"] = (307, {"Location": f"http://{elsewhere.host}/storage"}, b"")
    (tmp_path / "x").write_bytes(b"x")

    assert not Repository(registry(server), "media/cls", lambda: "").send(tmp_path / "x", name)
    assert elsewhere.seen == []


def test_the_tags_of_versions_are_read_page_by_page(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_PAGE", 2)
    pages = {"": ["1.0.0", "latest"], "latest": ["2.0.0", "keep"], "keep": ["3.0.0"]}
    bundle = json.dumps({"artifactType": oci.BUNDLE}).encode()
    server.rules |= {f"/v2/media/cls/manifests/{tag}": (200, {}, bundle) for tag in ("1.0.0", "3.0.0", "latest")}
    server.rules["/v2/media/cls/manifests/2.0.0"] = (200, {}, b"[]")
    real = Handler.answer

    def answer(self: Handler) -> None:
        last = self.path.rpartition("last=")[2] if "last=" in self.path else ""
        server.rules["/v2/media/cls/tags/list"] = (200, {}, json.dumps({"tags": pages[last]}).encode())
        real(self)

    monkeypatch.setattr(Handler, "do_GET", answer)

    assert Remote(reference.parse(f"{server.host}/media/cls")).versions() == ["1.0.0", "3.0.0"]


def test_redirects_without_an_end_are_given_up(server: Server) -> None:
    server.rules["/v2/x"] = (307, {"Location": "/v2/x"}, b"")
    with pytest.raises(FarmError) as caught:
        got(registry(server), "v2/x")
    assert caught.value.code is Code.REGISTRY_UNREACHABLE


def test_a_file_that_holds_no_certificate_is_a_coded_error(tmp_path: Path) -> None:
    place = reference.parse("registry.example/a")
    with pytest.raises(FarmError) as caught:
        access.registry(place, {"FARM_REGISTRY_CA": "/nonexistent/ca.pem"})
    assert caught.value.code is Code.FILE_MISSING
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(FarmError) as caught:
        access.registry(place, {"FARM_REGISTRY_CA": str(tmp_path / "ca.pem")})
    assert caught.value.code is Code.IDENTITY_INVALID


@contextlib.contextmanager
def said(pieces: Iterable[bytes], every_s: float = 0.0, *, reads: bool = True) -> Iterator[str]:
    """The host of a server that says these pieces to whoever asks and hangs up; without `reads` it hears nothing."""
    ended = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                if reads:
                    connection.recv(1 << 16)
                for piece in pieces:
                    if ended.wait(every_s):
                        return
                    connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        ended.set()


HEAD = b"HTTP/1.1 200 OK\r\n"
DRIPS: dict[str, tuple[bytes, bytes]] = {
    "the head": (HEAD, b"X"),
    "the body": (HEAD + b"Content-Length: 99999\r\n\r\n", b"x"),
    "a body without a size": (HEAD + b"\r\n", b"x"),
    "the size of a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "compressed nothing": (HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10], b"\0\0\0\xff\xff"),
}


@pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS.keys())
def test_an_answer_that_drips_for_ever_ends(monkeypatch: pytest.MonkeyPatch, drip: tuple[bytes, bytes]) -> None:
    begin, again = drip
    monkeypatch.setattr(https, "SLOWEST", 1000)
    begun = time.monotonic()
    with said(itertools.chain([begin], itertools.repeat(again)), every_s=0.05) as host:
        asked = Registry(reference.parse(f"{host}/media/cls"))
        with pytest.raises(FarmError) as caught, asked.ask("GET", "v2/x", read_s=0.5) as answer:
            https.body(answer)

    assert caught.value.code is Code.REGISTRY_UNREACHABLE
    assert time.monotonic() - begun < 10


def test_who_does_not_take_what_is_sent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "READ_S", 0.5)
    monkeypatch.setattr(https, "CONNECT_S", 2.0)
    with said([b""], every_s=60.0, reads=False) as host:
        asked = Registry(reference.parse(f"{host}/media/cls"))
        with pytest.raises(FarmError) as caught, asked.ask("PUT", "v2/x", data=b"x" * (64 << 20)):
            pass

    assert caught.value.code is Code.REGISTRY_UNREACHABLE


def test_a_slow_link_has_as_long_as_its_bytes_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times as long as it might be silent, at a rate above the slowest."""
    monkeypatch.setattr(https, "SLOWEST", 1000)
    body = [b"x" * 200] * 16
    with said([HEAD + b"Content-Length: 3200\r\n\r\n", *body], every_s=0.1) as host:
        asked = Registry(reference.parse(f"{host}/media/cls"))
        with asked.ask("GET", "v2/x", read_s=0.5) as answer:
            assert https.body(answer) == b"".join(body)


def test_a_blob_that_breaks_off_is_the_registry_s_fault_and_not_the_file_s(tmp_path: Path) -> None:
    with said([HEAD + b"Content-Length: 100\r\n\r\n", b"half of it"]) as host:
        repository = Repository(Registry(reference.parse(f"{host}/media/cls")), "media/cls", lambda: "")
        with pytest.raises(FarmError) as caught:
            repository.get(digest.of_bytes(b"x"), 100, tmp_path / "blob")

    assert caught.value.code is Code.REGISTRY_UNREACHABLE
    assert host in caught.value.what
    assert list(tmp_path.iterdir()) == []


def test_a_blob_that_finds_no_place_is_the_file_s_fault_and_not_the_registry_s(server: Server, tmp_path: Path) -> None:
    server.rules[f"/v2/media/cls/blobs/{digest.of_bytes(b'x')}"] = (200, {}, b"x")
    repository = Repository(registry(server), "media/cls", lambda: "")

    with pytest.raises(FarmError) as caught:
        repository.get(digest.of_bytes(b"x"), 1, tmp_path / "no-such-folder/blob")

    assert caught.value.code is Code.FILE_MISSING
