"""Whatever is written, Python's own reader reads, in whatever order it was given."""

from __future__ import annotations

import io
import tarfile

from hypothesis import given
from hypothesis import strategies as st

from containers.image import tarball
from containers.image.tarball import Entry

PART = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20
)
NAMES = st.lists(PART.filter(lambda part: part not in (".", "..")), min_size=1, max_size=3).map("/".join)


@given(st.dictionaries(NAMES, st.binary(max_size=1500), max_size=5), st.randoms(use_true_random=False))
def test_what_is_written_is_read(contents: dict[str, bytes], random: object) -> None:
    entries = [Entry(name, 0o644, data) for name, data in contents.items()]
    shuffled = list(entries)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = io.BytesIO(), io.BytesIO()

    assert tarball.write(one, entries) == tarball.write(other, shuffled)

    assert len(one.getvalue()) == tarball.length(entries)
    with tarfile.open(fileobj=io.BytesIO(one.getvalue()), encoding="utf-8", errors="surrogateescape") as archive:
        found = {member.name: archive.extractfile(member) for member in archive}
        assert {name: stream.read() for name, stream in found.items() if stream is not None} == contents
