"""The execution cache: an execution key gives a payload whose bytes are in the store and were verified just now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from farm.ledger.nouns import CacheRow
from farm.ledger.runs import Runs
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Payload
from kernelfarm.store import ContentStore

T = TypeVar("T")

TURNS = 3
"""How often something is done before bytes that keep vanishing are an error."""


def unless_swept(work: Callable[[int], T]) -> T:
    """What `work` gives with the number of the turn, from 0; done again where the store lost bytes in its midst.

    `farm gc` may remove what an entry named that it forgets; the next turn does not find the entry, and compiles.
    """
    for turn in range(TURNS - 1):
        try:
            return work(turn)
        except FarmError as error:
            if error.code is not Code.STORE_MISSING:
                raise
    return work(TURNS - 1)


def lookup(runs: Runs, store: ContentStore, execution_key: str) -> tuple[Payload, CacheRow] | None:
    """The payload of a key, each file verified; None when there is none or its bytes were removed from the store.

    Raises `FarmError` STORE_CORRUPT, which names the file: damaged bytes are shown, never healed in silence.
    """
    row = runs.cached(execution_key)
    if row is None:
        return None
    payload = canonical.decode(Payload, row.payload.encode(), name=f"the cache entry {execution_key}")
    try:
        for entry in payload.files:
            store.open_path(entry.digest)
    except FarmError as error:
        if error.code is not Code.STORE_MISSING:
            raise
        return None
    return payload, row


def materialise(payload: Payload, store: ContentStore, folder: Path) -> Path:
    """Write a payload's files into a new folder, verified; returns the folder. Raises as `ContentStore.export`."""
    with files.coded("a payload could not be unpacked", folder):
        folder.mkdir(parents=True)
    for entry in payload.files:
        store.export(entry.digest, folder / entry.name)
    return folder
