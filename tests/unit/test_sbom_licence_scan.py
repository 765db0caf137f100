"""How ScanCode is run and its results are kept; a program of the tests stands in for it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from sbom.licence import scan as scans
from sbom.licence.nouns import Match, Outcome, Scanner
from sbom.licence.scan import Results, Tools

FAKE = Path(__file__).resolve().parents[1] / "support" / "fake_scancode.py"
IDENTITY = Scanner("scancode-toolkit", "1.0", digest.of_bytes(b"lock"))


def tools(tmp_path: Path, *, start_s: float = 30.0) -> Tools:
    argv = (sys.executable, "-I", str(FAKE))
    return Tools(IDENTITY, argv, file_s=1, start_s=start_s, environment={"SEEN": str(tmp_path / "seen")})


def write(folder: Path, **texts: bytes) -> dict[Digest, Path]:
    found = {}
    for name, data in texts.items():
        (folder / name).write_bytes(data)
        found[digest.of_bytes(data)] = folder / name
    return found


def runs(tmp_path: Path) -> list[list[str]]:
    seen = tmp_path / "seen"
    return [line.split() for line in seen.read_text().splitlines()] if seen.exists() else []


def test_results_are_read_and_names_are_hidden_from_the_scanner(tmp_path: Path) -> None:
    paths = write(tmp_path, own=b"int x;", copied=b"GPL text")
    found = scans.scan(paths, tools(tmp_path), Results(tmp_path / "kept", IDENTITY), tmp_path)
    gpl = found[digest.of_bytes(b"GPL text")]
    assert (gpl.outcome, gpl.expression) == (Outcome.DONE, "GPL-3.0-only")
    assert gpl.matches == (Match("GPL-3.0-only", "x.RULE", 3, 100),)
    assert found[digest.of_bytes(b"int x;")].expression == ""
    assert runs(tmp_path) == [sorted(digest.hex_of(content) for content in paths)]


def test_what_was_scanned_is_not_scanned_again_whatever_it_is_called(tmp_path: Path) -> None:
    kept = Results(tmp_path / "kept", IDENTITY)
    first = scans.scan(write(tmp_path, a=b"GPL text"), tools(tmp_path), kept, tmp_path)
    again = scans.scan(write(tmp_path, another=b"GPL text"), tools(tmp_path), kept, tmp_path)
    assert again == first
    assert len(runs(tmp_path)) == 1
    other = Scanner("scancode-toolkit", "1.0", digest.of_bytes(b"another lock"))
    assert scans.known(first, Results(tmp_path / "kept", other)) == {}


@pytest.mark.parametrize("word", ["crash", "mute"])
def test_a_file_that_ends_the_scanner_is_found_and_the_others_are_scanned(tmp_path: Path, word: str) -> None:
    paths = write(tmp_path, bad=word.encode(), **{f"f{number}": b"GPL %d" % number for number in range(5)})
    found = scans.scan(paths, tools(tmp_path), Results(tmp_path / "kept", IDENTITY), tmp_path)
    bad = found.pop(digest.of_bytes(word.encode()))
    assert bad.outcome is Outcome.FAILED
    assert {one.expression for one in found.values()} == {"GPL-3.0-only"}


def test_a_scanner_that_does_not_even_scan_an_empty_file_is_not_asked_again(tmp_path: Path) -> None:
    paths = write(tmp_path, **{f"f{number}": b"%d" % number for number in range(50)})
    broken = replace(tools(tmp_path), environment={"SEEN": str(tmp_path / "seen"), "BROKEN": "yes"})
    with pytest.raises(FarmError) as caught:
        scans.scan(paths, broken, Results(tmp_path / "kept", IDENTITY), tmp_path)
    assert caught.value.code is Code.SCAN_FAILED
    assert caught.value.why == "on an empty file too: ScanCode ended with status 3"
    assert [len(names) for names in runs(tmp_path)] == [50, 1]


def test_a_whole_scan_has_an_end_whatever_its_files_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "_WHOLE", 0)
    found = scans.scan(write(tmp_path, a=b"a"), tools(tmp_path), Results(tmp_path / "kept", IDENTITY), tmp_path)
    (one,) = found.values()
    assert (one.outcome, runs(tmp_path)) == (Outcome.TIMEOUT, [])
    assert one.why.startswith("the whole scan took longer than")


def test_a_scan_that_is_broken_off_keeps_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write(tmp_path, **{f"f{number}": b"GPL %d" % number for number in range(3)})
    kept, real = Results(tmp_path / "kept", IDENTITY), scans._run

    def stopped(*given: Any) -> Any:
        if len(runs(tmp_path)) == 2:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(scans, "_AT_ONCE", 1)
    monkeypatch.setattr(scans, "_run", stopped)
    with pytest.raises(KeyboardInterrupt):
        scans.scan(paths, tools(tmp_path), kept, tmp_path)
    assert set(scans.known(paths, kept)) == set(sorted(paths)[:2])


@pytest.mark.slow
def test_a_file_that_never_ends_is_a_timeout_and_is_tried_again_next_time(tmp_path: Path) -> None:
    kept = Results(tmp_path / "kept", IDENTITY)
    paths = write(tmp_path, bad=b"hang", good=b"GPL")
    found = scans.scan(paths, tools(tmp_path, start_s=12.0), kept, tmp_path)
    assert found[digest.of_bytes(b"hang")].outcome is Outcome.TIMEOUT
    assert found[digest.of_bytes(b"GPL")].expression == "GPL-3.0-only"
    assert set(scans.known(paths, kept)) == {digest.of_bytes(b"GPL")}


def test_scancodes_own_timeout_is_a_timeout(tmp_path: Path) -> None:
    found = scans.scan(write(tmp_path, a=b"slow"), tools(tmp_path), Results(tmp_path / "kept", IDENTITY), tmp_path)
    (one,) = found.values()
    assert (one.outcome, one.why) == (Outcome.TIMEOUT, "ERROR: Processing interrupted: timeout after 2 seconds.")


def test_a_result_that_scancode_cut_short_without_a_word_is_a_timeout(tmp_path: Path) -> None:
    found = scans.scan(write(tmp_path, a=b"late"), tools(tmp_path), Results(tmp_path / "kept", IDENTITY), tmp_path)
    (one,) = found.values()
    assert (one.outcome, one.why) == (Outcome.TIMEOUT, "ScanCode stopped to look after 1 s")


def test_an_entry_that_cannot_be_read_is_a_failed_scan(tmp_path: Path) -> None:
    found = scans.scan(write(tmp_path, a=b"odd"), tools(tmp_path), Results(tmp_path / "kept", IDENTITY), tmp_path)
    assert next(iter(found.values())).outcome is Outcome.FAILED


def test_a_file_too_large_to_scan_is_not_given_to_the_scanner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "_LARGEST", 10)
    found = scans.scan(write(tmp_path, a=bytes(11)), tools(tmp_path), Results(tmp_path / "kept", IDENTITY), tmp_path)
    assert next(iter(found.values())).outcome is Outcome.TOO_LARGE
    assert runs(tmp_path) == []


def test_a_file_that_is_not_what_its_digest_says_is_refused(tmp_path: Path) -> None:
    paths = write(tmp_path, a=b"text")
    (tmp_path / "a").write_bytes(b"other")
    with pytest.raises(FarmError) as caught:
        scans.scan(paths, tools(tmp_path), Results(tmp_path / "kept", IDENTITY), tmp_path)
    assert caught.value.code is Code.STORE_CORRUPT


def test_a_damaged_record_is_scanned_again(tmp_path: Path) -> None:
    kept = Results(tmp_path / "kept", IDENTITY)
    paths = write(tmp_path, a=b"GPL")
    scans.scan(paths, tools(tmp_path), kept, tmp_path)
    (record,) = (path for path in (tmp_path / "kept").rglob("*.json"))
    record.write_bytes(record.read_bytes()[:-5])
    assert scans.scan(paths, tools(tmp_path), kept, tmp_path)[digest.of_bytes(b"GPL")].expression == "GPL-3.0-only"
    assert len(runs(tmp_path)) == 2


def test_without_the_scanner_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        scans.installed(tmp_path)
    assert (caught.value.code, int(caught.value.status)) == (Code.SCAN_TOOLS_MISSING, 3)
    assert "make scan-tools" in caught.value.next_step
