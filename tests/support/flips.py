"""Changes single bytes of a bundle and asks `farm.verify` about each: what the flips of the bar and of its test do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farm.verify import Report, verify_bundle
from signing import keys
from tests.support.product import Built

IN_EACH = 20
IN_ALL = 500


@dataclass(frozen=True, slots=True)
class Found:
    """How many flips in how many files, the fewest in one file, and those not detected with the file's name."""

    flips: int
    files: int
    least: int
    missed: tuple[tuple[str, int, int], ...]


def run(built: Built, folder: Path) -> Found:
    """Flip bytes in a copy of the bundle under `folder`, one at a time; each is put back."""
    shutil.rmtree(folder, ignore_errors=True)
    bundle = built.copy(folder)
    public = keys.load_public(built.product.public_key)
    if not verify_bundle(bundle, public).ok:
        raise AssertionError("the bundle does not verify before it is changed")
    files = sorted(path for path in bundle.rglob("*") if path.is_file())
    in_each = max(IN_EACH, -(-IN_ALL // len(files)))
    counts, missed = [], []
    for path in files:
        name, data = path.relative_to(bundle).as_posix(), path.read_bytes()
        path.chmod(0o644)
        counts.append(0)
        for place, value in changes(name, data, in_each):
            overwrite(path, place, value)
            report = verify_bundle(bundle, public)
            overwrite(path, place, data[place])
            counts[-1] += 1
            if report.ok or name not in named(report):
                missed.append((name, place, value))
    if not verify_bundle(bundle, public).ok:
        raise AssertionError("a byte was not put back")
    return Found(sum(counts), len(files), min(counts), tuple(missed))


def changes(name: str, data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Places with another value for each, the first and the last byte among them; no flip is done twice."""
    draw = np.random.Generator(np.random.PCG64(sum(name.encode())))
    places = [0, len(data) - 1, *draw.integers(0, len(data), count - 2).tolist()]
    flipped = draw.permutation(np.arange(1, 256))[:count].tolist()
    for place, change in zip(places, flipped, strict=True):
        yield place, data[place] ^ change


def overwrite(path: Path, place: int, value: int) -> None:
    """Set one byte of a file."""
    with path.open("r+b") as stream:
        stream.seek(place)
        stream.write(bytes([value]))


def named(report: Report) -> set[str]:
    """Every file that an error names: the one that is wrong, or the one that names it."""
    return {error.detail[key] for error in report.errors for key in ("file", "named_by") if key in error.detail}
