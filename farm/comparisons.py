"""The record of rebuilds: a canonical comparison/2 document for each, in the farm's state, by the payload compared."""

from __future__ import annotations

from kernelfarm import canonical, digest, files
from kernelfarm.digest import Digest
from kernelfarm.nouns import Comparison
from kernelfarm.paths import Home

FOLDER = "comparisons"


def record(home: Home, comparison: Comparison) -> None:
    """Keep a comparison; the same one twice is one. Raises a coded `FarmError` of class ENVIRONMENT."""
    folder = home.root / FOLDER / digest.hex_of(comparison.original)
    data = canonical.encode(comparison)
    with files.coded("a comparison could not be recorded", folder):
        folder.mkdir(parents=True, exist_ok=True)
    files.atomic_write(folder / f"{digest.hex_of(digest.of_bytes(data))}.json", data)


def recorded(home: Home, payload: Digest) -> tuple[Comparison, ...]:
    """The comparisons of a payload on record, by their digests; raises `FarmError` for a damaged record."""
    folder = home.root / FOLDER / digest.hex_of(payload)
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return tuple(canonical.decode(Comparison, path.read_bytes(), name=path.name) for path in paths)
