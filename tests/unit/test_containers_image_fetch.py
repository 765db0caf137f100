"""Package files by their pins, with clients that are small programs of the test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from containers.image import clients, fetch, update
from containers.image.pins import Pins
from kernelfarm.errors import Code, FarmError
from kernelfarm.store import ContentStore
from tests.support import services, small_packages

Serve = Callable[..., None]


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path / "store")


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Put an `apt-get` first on PATH that knows these files by their package's name, else says something."""

    def with_(*files: Path, says: str = "E: Unable to locate package") -> None:
        program = tmp_path / "clients" / "apt-get"
        program.parent.mkdir(exist_ok=True)
        served = {path.name.split("_")[0]: str(path) for path in files}
        program.write_text(
            f"#!{sys.executable}\n"
            "import hashlib, pathlib, shutil, sys\n"
            f"served = {served!r}\n"
            "wanted = sys.argv[sys.argv.index('download') + 1:] if 'download' in sys.argv else []\n"
            "names = [word.split('=')[0] for word in wanted if not word.startswith('-')]\n"
            "if [name for name in names if name not in served]:\n"
            f"    sys.exit({says!r})\n"
            "for name in names:\n"
            "    path = pathlib.Path(served[name])\n"
            "    if '--print-uris' in wanted:\n"
            "        data = path.read_bytes()\n"
            "        print(f\"'http://x/y' {path.name} {len(data)} SHA256:{hashlib.sha256(data).hexdigest()}\")\n"
            "    else:\n"
            "        shutil.copy(path, path.name)\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    return with_


@pytest.fixture
def debs(tmp_path: Path) -> list[Path]:
    services.program("dpkg-deb", "dpkg")
    return [small_packages.deb(tmp_path, name) for name in ("one", "two")]


def test_what_was_fetched_once_is_asked_for_no_more(debs: list[Path], store: ContentStore, serve: Serve) -> None:
    pins = [small_packages.pin(path) for path in debs]
    serve(*debs)
    fetch.fetch(pins, store)
    serve(says="nobody must ask")

    fetch.fetch(pins, store)

    assert store.get_bytes(pins[0].digest) == debs[0].read_bytes()


def test_a_pin_that_is_gone_is_named_and_the_others_are_kept(
    debs: list[Path], store: ContentStore, serve: Serve
) -> None:
    pins = [small_packages.pin(path) for path in debs]
    serve(debs[0], says="E: Version '1:2.0' for 'two' was not found")

    with pytest.raises(FarmError) as refusal:
        fetch.fetch(pins, store)

    assert refusal.value.code is Code.PIN_GONE
    assert refusal.value.what == "the pin two 1:2.0 is no longer served"
    assert refusal.value.detail["pin"] == "two"
    assert store.has(pins[0].digest)


def test_another_file_under_the_same_version_is_not_taken(debs: list[Path], store: ContentStore, serve: Serve) -> None:
    pin = small_packages.pin(debs[0])
    debs[0].write_bytes(debs[0].read_bytes() + b"\n")
    serve(debs[0])

    with pytest.raises(FarmError) as refusal:
        fetch.fetch([pin], store)

    assert refusal.value.code is Code.PIN_GONE
    assert "another file is served" in refusal.value.why
    assert not list(store.digests())


def test_without_a_network_the_error_is_another(debs: list[Path], store: ContentStore, serve: Serve) -> None:
    serve(says="E: Failed to fetch http://x/y  Could not resolve 'x'")

    with pytest.raises(FarmError) as refusal:
        fetch.fetch([small_packages.pin(debs[0])], store)

    assert refusal.value.code is Code.PACKAGES_UNREACHABLE


def test_without_apt_the_error_says_so(
    debs: list[Path], store: ContentStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FarmError) as refusal:
        fetch.fetch([small_packages.pin(debs[0])], store)

    assert refusal.value.code is Code.TOOL_MISSING
    assert refusal.value.what == "apt-get is missing"


def test_a_check_tells_what_is_served_and_what_is_held(debs: list[Path], store: ContentStore, serve: Serve) -> None:
    one, two = (small_packages.pin(path) for path in debs)
    store.put_file(debs[1])
    serve(debs[0])

    found = update.check(Pins((one, two), ()), store)

    assert [(item.pin.name, item.served, item.held, item.newest) for item in found] == [
        ("one", True, False, "1:2.0"),
        ("two", False, True, ""),
    ]


def test_an_update_pins_what_is_served(debs: list[Path], store: ContentStore, serve: Serve) -> None:
    now = small_packages.pin(debs[0])
    before = Pins((replace(now, version="1:1.0", digest=small_packages.pin(debs[1]).digest, size=1),), ())
    serve(debs[0])

    assert update.update(before, store) == Pins((now,), ())
    assert store.has(now.digest)


def test_the_answer_of_apt_is_read() -> None:
    said = (
        "Reading package lists...\n"
        "'http://x/libc6_2.36-9%2bdeb12u14_amd64.deb' libc6_2.36-9+deb12u14_amd64.deb 2759320 "
        f"SHA256:{'b' * 64}\n"
        f"'http://x/z' zlib1g_1%3a1.2.13.dfsg-1_amd64.deb 86684 SHA256:{'c' * 64}\n"
    )

    assert [(each.name, each.version, each.size) for each in update.parse_uris(said)] == [
        ("libc6", "2.36-9+deb12u14", 2759320),
        ("zlib1g", "1:1.2.13.dfsg-1", 86684),
    ]


def test_pip_is_told_the_tags_of_the_pinned_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    real = clients._run
    monkeypatch.setattr(clients, "_run", lambda argv, folder: (asked.append(list(argv)), real(["true"], folder))[1])

    clients.pip(tmp_path, "download", wheel="numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl")

    options = [word for word in asked[-1] if word.startswith(("--platform", "--abi", "--python-version"))]
    assert options == [
        "--python-version=3.11",
        "--platform=manylinux_2_27_x86_64",
        "--platform=manylinux_2_28_x86_64",
        "--abi=cp311",
    ]
