"""ScanCode over files, in a limited child process of its own environment; what it finds is kept by content.

`make scan-tools` installs it into build/scan from requirements/scan.txt. Results are a function of the bytes and of
that lock: a file's name is hidden from it. A run that ends badly is halved until the file that ends it stands alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
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
STAMP = "scanner.json"
"""What it installed: a `Scanner`."""
FILE_S = 120
"""Seconds that ScanCode may take for one file."""
_HARD = 2.5
"""ScanCode stops to look for licences in a file after its time limit divided by this, and says nothing of it: what it
found until then looks like a whole result. Only the time that it reports for the file tells (seen in 32.5.0)."""
_START_S = 240
_EACH_S = 5
_MEMORY = 6 << 30
_LARGEST = 64 << 20
_OUTPUT = 512 << 20
_UNREADABLE = "its results cannot be read"


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
    return Tools(found, (str(folder / "bin" / "python"), "-I", str(program)))


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

    A file that cannot be scanned to its end has an `outcome` that says so. Raises `FarmError` STORE_CORRUPT for a file
    whose bytes are not those of its digest, SCAN_FAILED when ScanCode cannot even scan an empty file, class ENVIRONMENT
    of the disk.
    """
    found = known(paths, results)
    wanted = sorted(set(paths) - set(found))
    large = [content for content in wanted if _size(paths[content]) > _LARGEST]
    for content in large:
        found[content] = Scan(content, Outcome.TOO_LARGE, why=f"it has more than {_LARGEST >> 20} MiB")
    for one in _batch({content: paths[content] for content in wanted if content not in large}, tools, scratch):
        results.put(one)
        found[one.digest] = one
    return found


def _size(path: Path) -> int:
    with files.coded("a file could not be scanned", path):
        return path.stat().st_size


def _batch(paths: Mapping[Digest, Path], tools: Tools, scratch: Path) -> list[Scan]:
    if not paths:
        return []
    with files.coded("a scan could not be prepared", scratch), files.temp_folder(scratch) as folder:
        _lay(paths, folder / "in")
        ended = _run(tools, folder, len(paths))
        report = _report(folder / "out.json") if ended.ok or ended.status == 1 else None  # 1: errors of single files
    if report is not None:
        return [_read(content, report.get(digest.hex_of(content)), _soft(tools)) for content in sorted(paths)]
    if len(paths) == 1:
        (content,) = paths
        return [_ended_badly(content, ended, tools)]
    ordered = sorted(paths)
    halves = ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]
    return [one for half in halves for one in _batch({content: paths[content] for content in half}, tools, scratch)]


def _lay(paths: Mapping[Digest, Path], folder: Path) -> None:
    """Copies under names that say nothing: the result must follow from the bytes alone."""
    folder.mkdir()
    for content, path in sorted(paths.items()):
        data = path.read_bytes()
        if digest.of_bytes(data) != content:
            why = f"{path} has changed"
            raise FarmError(Code.STORE_CORRUPT, "a file to scan is not what it should be", why, "Run `make setup`.")
        (folder / digest.hex_of(content)).write_bytes(data)


def _run(tools: Tools, folder: Path, count: int) -> ChildResult:
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
        wall_s=_limit(tools, count),
        address_space=_MEMORY,
        file_size=_OUTPUT,
        log_path=folder / "log",
    )


def _limit(tools: Tools, count: int) -> float:
    """Seconds for a whole run: most files take a fraction of one."""
    return tools.start_s + 2 * _soft(tools) * _HARD + _EACH_S * count


def _soft(tools: Tools) -> int:
    return max(1, round(tools.file_s))


def _report(path: Path) -> dict[str, dict[str, Any]] | None:
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


def _ended_badly(content: Digest, ended: ChildResult, tools: Tools) -> Scan:
    if ended.timed_out:
        return Scan(content, Outcome.TIMEOUT, why=f"ScanCode did not end within {_limit(tools, 1):g} s")
    how = f"signal {ended.signal}" if ended.signal is not None else f"status {ended.status}"
    return Scan(content, Outcome.FAILED, why=f"ScanCode ended with {how}")
