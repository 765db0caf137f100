"""What is fetched of a blob whose registry means harm. With a real one: `tests/integration/test_blobs_registry.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from farm.blobs import Repository
from farm.https import Service
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError


class Flood(Service):
    """A registry that answers with 1000 pieces, whatever was asked for; `taken` counts the bytes that were read."""

    status_code = 200

    def __init__(self) -> None:
        self.taken = self.piece = 0

    @contextmanager
    def ask(self, *_: Any, **__: Any) -> Iterator[Any]:
        """Itself is the answer."""
        yield self

    def iter_content(self, size: int) -> Iterator[bytes]:
        """The answer's body."""
        self.piece = size
        for _ in range(1000):
            self.taken += size
            yield bytes(size)


@pytest.mark.parametrize("size", [0, 10, 3 << 20])
def test_a_blob_that_does_not_end_is_cut_off_at_its_size(tmp_path: Path, size: int) -> None:
    flood = Flood()
    with pytest.raises(FarmError) as caught:
        Repository(flood, "farm/results/mallory", str).get(digest.of_bytes(b"x"), size, tmp_path / "blob")
    assert caught.value.code is Code.BLOB_REFUSED
    assert caught.value.why.endswith("; nothing of it was kept")
    assert caught.value.next_step.startswith("Run the command again; ")
    assert size < flood.taken <= size + flood.piece
    assert list(tmp_path.iterdir()) == []
