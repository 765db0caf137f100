"""ScanCode over files, in a limited child process of its own environment; what it finds is kept by content.

`make scan-tools` installs it into build/scan from requirements/scan.txt; `_scancode.py` starts it in there. Results are
a function of the bytes and of that lock: a file's name is hidden from it. A run that ends badly is halved until the
file that ends it stands alone, once an empty file has shown that the scanner itself works.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelfarm import canonical, child, digest, files
from kernelfarm.child import ChildResult
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from sbom.licence.nouns import MOST_MATCHES, Match, Outcome, Scan, Scanner

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "scan"
"""Where `make scan-tools` installs the scanner."""
_START = Path(__file__).with_name("_scancode.py")
STAMP = "scanner.json"
"""What it installed: a `Scanner`."""
FILE_S = 300
"""Seconds that ScanCode may take for one file: the largest of zig's takes four on an idle core."""
_HARD = 2.5
"""ScanCode stops to look for licences in a file after its time limit divided by this, and says nothing of it: what it
found until then looks like a whole result. Only the time that it reports for the file tells (seen in 32.5.0)."""
_START_S = 240
_EACH_S = 5
_MEMORY = 6 << 30
_LARGEST = 64 << 20
_OUTPUT = 512 << 20
_AT_ONCE = 100
"""Files of one run: what a scan that is broken off has to do again at most."""
_WHOLE = 3
"""A whole scan may take so many times the limit of one run over all files, however badly its files behave."""
_EMPTY = digest.of_bytes(b"")
_Report = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tools:
    """An installed scanner. `argv` begins a command line of it; `file_s` seconds are allowed for a file."""

    identity: Scanner
    argv: tuple[str, ...]
    file_s: float = FILE_S
    start_s: float = _START_S
    environment: Mapping[str, str] = field(default_factory=dict)

    def with_time(self, file_s: float) -> Tools:
        """The same scanner with another time for a file."""
        return replace(self, file_s=file_s)


def installed(folder: Path = FOLDER) -> Tools:
    """The scanner in `folder`. Raises `FarmError` SCAN_TOOLS_MISSING."""
    program, stamp = folder / "bin" / "scancode", folder / STAMP
    if not program.is_file() or not stamp.is_file():
        raise FarmError(
            Code.SCAN_TOOLS_MISSING,
            "the licence scanner is not installed",
            f"{folder} holds no finished installation of ScanCode",
            "Run `make scan-tools` in the farm's source folder.",
        )
    found = canonical.from_json(Scanner, canonical.loads(stamp.read_bytes(), name=STAMP), name=STAMP)
    return Tools(found, (str(folder / "bin" / "python"), "-I", str(_START)))


@dataclass(frozen=True, slots=True)
class Results:
    """Scans by content, in files of the folder `root`, apart for each lock of the scanner. May be deleted any time."""

    root: Path
    scanner: Scanner

    def get(self, content: Digest) -> Scan | None:
        """What was found in these bytes; None when nobody scanned them, or the record is damaged."""
        try:
            data = self._path(content).read_bytes()
            found = canonical.decode(Scan, data, name="a recorded scan")
        except (OSError, FarmError):
            return None
        return found if found.digest == content else None

    def put(self, scan: Scan) -> None:
        """Keep a scan that came to an end; others are worth another try. Raises a coded error of the disk."""
        if scan.outcome is Outcome.DONE:
            path = self._path(scan.digest)
            with files.coded("a licence scan could not be kept", path):
                path.parent.mkdir(parents=True, exist_ok=True)
            files.atomic_write(path, canonical.encode(scan))

    def _path(self, content: Digest) -> Path:
        lock, name = digest.hex_of(self.scanner.lock), digest.hex_of(digest.parse(content))
        return self.root / lock[:16] / name[:2] / f"{name}.json"


def known(contents: Iterable[Digest], results: Results) -> dict[Digest, Scan]:
    """The recorded scans of these contents."""
    found = ((content, results.get(content)) for content in sorted(set(contents)))
    return {content: scan for content, scan in found if scan is not None}


def scan(paths: Mapping[Digest, Path], tools: Tools, results: Results, scratch: Path) -> dict[Digest, Scan]:
    """Scans of files by their content, recorded ones first. `scratch` is a folder for the files that this leaves.

    A file that cannot be scanned to its end has an `outcome` that says so. What is found is recorded as it is found: a
    scan that is broken off goes on where it was. Raises `FarmError` STORE_CORRUPT for a file
    whose bytes are not those of its digest, SCAN_FAILED when ScanCode cannot even scan an empty file, class ENVIRONMENT
    of the disk.
    """
    found = known(paths, results)
    wanted = sorted(set(paths) - set(found))
    large = [content for content in wanted if _size(paths[content]) > _LARGEST]
    for content in large:
        found[content] = Scan(content, Outcome.TOO_LARGE, why=f"it has more than {_LARGEST >> 20} MiB")
    small = {content: paths[content] for content in wanted if content not in large}
    for one in _Scanning(tools, scratch, len(small)).run(small):
        results.put(one)
        found[one.digest] = one
    return found


def _size(path: Path) -> int:
    with files.coded("a file could not be scanned", path):
        return path.stat().st_size


class _Scanning:
    """One scan of many files: in runs of some, which are halved where they end badly, until its time is over."""

    def __init__(self, tools: Tools, scratch: Path, count: int) -> None:
        self._tools = tools
        self._scratch = scratch
        self._whole = _WHOLE * _limit(tools, count)
        self._end = time.monotonic() + self._whole
        self._works = False

    def run(self, paths: Mapping[Digest, Path]) -> Iterator[Scan]:
        """The scans, each as soon as there is one."""
        ordered = sorted(paths)
        for first in range(0, len(ordered), _AT_ONCE):
            yield from self._batch({content: paths[content] for content in ordered[first : first + _AT_ONCE]})

    def _batch(self, paths: Mapping[Digest, Path]) -> Iterator[Scan]:
        left = self._end - time.monotonic()
        if left <= 0:
            why = f"the whole scan took longer than {self._whole:g} s"
            yield from (Scan(content, Outcome.TIMEOUT, why=why) for content in sorted(paths))
            return
        seconds = min(left, _limit(self._tools, len(paths)))
        ended, report = self._once(paths, seconds)
        if report is not None:
            for content in sorted(paths):
                yield _read(content, report.get(digest.hex_of(content)), _soft(self._tools))
            return
        self._require_works()
        ordered = sorted(paths)
        if len(ordered) == 1:
            yield _ended_badly(ordered[0], ended, seconds)
            return
        for half in (ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]):
            yield from self._batch({content: paths[content] for content in half})

    def _once(self, paths: Mapping[Digest, Path], seconds: float) -> tuple[ChildResult, _Report | None]:
        with (
            files.coded("a scan could not be prepared", self._scratch),
            files.temp_folder(self._scratch) as folder,
        ):
            _lay(paths, folder / "in")
            ended = _run(self._tools, folder, seconds)
            whole = ended.ok or ended.status == 1  # 1: errors of single files
            return ended, _report(folder / "out.json") if whole else None

    def _require_works(self) -> None:
        """After the first bad end, tell a bad file from a scanner that is broken: that one fails on an empty file."""
        if self._works:
            return
        with files.coded("a scan could not be prepared", self._scratch), files.temp_folder(self._scratch) as folder:
            (folder / "empty").touch()
            ended, report = self._once({_EMPTY: folder / "empty"}, _limit(self._tools, 1))
        if report is None:
            why = f"on an empty file too: {_ended_badly(_EMPTY, ended, _limit(self._tools, 1)).why}"
            raise FarmError(Code.SCAN_FAILED, "the licence scanner does not work", why, "Run `make scan-tools` again.")
        self._works = True


def _lay(paths: Mapping[Digest, Path], folder: Path) -> None:
    """Copies under names that say nothing: the result must follow from the bytes alone."""
    folder.mkdir()
    for content, path in sorted(paths.items()):
        data = path.read_bytes()
        if digest.of_bytes(data) != content:
            why = f"{path} has changed"
            raise FarmError(Code.STORE_CORRUPT, "a file to scan is not what it should be", why, "Run `make setup`.")
        (folder / digest.hex_of(content)).write_bytes(data)


def _run(tools: Tools, folder: Path, wall_s: float) -> ChildResult:
    seconds = math.ceil(_soft(tools) * _HARD)
    options = ["--license", "--processes", "0", "--timeout", str(seconds), "--timing", "--quiet"]
    options += ["--json", "out.json", "in"]
    return child.run_limited(
        [*tools.argv, *options],
        env={
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "PATH": "",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "SCANCODE_CACHE": str(folder / "cache"),
            "SCANCODE_TEMP": str(folder),
            "TMPDIR": str(folder),
            "TZ": "UTC",
            **tools.environment,
        },
        cwd=folder,
        wall_s=wall_s,
        address_space=_MEMORY,
        file_size=_OUTPUT,
        log_path=folder / "log",
    )


def _limit(tools: Tools, count: int) -> float:
    """Seconds for a whole run: most files take a fraction of one."""
    return tools.start_s + 2 * _soft(tools) * _HARD + _EACH_S * count


def _soft(tools: Tools) -> int:
    return max(1, round(tools.file_s))


def _report(path: Path) -> _Report | None:
    """ScanCode's entries by file name; None when there is no whole report."""
    try:
        with path.open("rb") as stream:
            document = json.load(stream)
        return {Path(entry["path"]).name: entry for entry in document["files"] if entry["type"] == "file"}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(content: Digest, entry: Mapping[str, Any] | None, soft_s: int) -> Scan:
    if entry is None:
        return Scan(content, Outcome.FAILED, why="ScanCode's report does not name it")
    try:
        if errors := [" ".join(str(text).split()) for text in entry["scan_errors"]]:
            late = any("timeout" in text.lower() for text in errors)
            return Scan(content, Outcome.TIMEOUT if late else Outcome.FAILED, why=errors[0][:200])
        if entry["scan_timings"]["licenses"] >= soft_s:
            return Scan(content, Outcome.TIMEOUT, why=f"ScanCode stopped to look after {soft_s} s")
        matches = tuple(
            Match(
                str(match["license_expression_spdx"]),
                str(match["rule_identifier"]),
                int(match["start_line"]),
                round(match["score"]),
            )
            for found in entry["license_detections"]
            for match in found["matches"]
        )
        expression = entry["detected_license_expression_spdx"] or ""
        return Scan(content, Outcome.DONE, str(expression), matches[:MOST_MATCHES])
    except (KeyError, TypeError, ValueError) as reason:
        return Scan(content, Outcome.FAILED, why=f"ScanCode's entry of it cannot be read: {reason!r}"[:200])


def _ended_badly(content: Digest, ended: ChildResult, seconds: float) -> Scan:
    if ended.timed_out:
        return Scan(content, Outcome.TIMEOUT, why=f"ScanCode did not end within {seconds:g} s")
    if ended.ok:
        return Scan(content, Outcome.FAILED, why="ScanCode ended without a report")
    how = f"signal {ended.signal}" if ended.signal is not None else f"status {ended.status}"
    return Scan(content, Outcome.FAILED, why=f"ScanCode ended with {how}")
